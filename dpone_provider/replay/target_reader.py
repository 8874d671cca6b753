"""The port of the target observation: one bounded look at the live generation (protocol 6 and 7; R1, R3, R9).

``replay`` asks through it and never knows how it is done; ``dpone_provider.reader`` does it with a supervised child.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import attrs

BUDGET_SECONDS = 60.0
"""What one observation may take: start, metadata, scan and revalidation together (R3)."""

Why = Literal["unavailable", "probe_unavailable", "invalid", "drift"]


@attrs.frozen(kw_only=True)
class TargetRequest:
    """What to observe, all of it sealed before the publication.

    ``generation``: the UUID that must be live under ``database.table`` on every replica; ``engine_full``: as the
    server printed it for the staged generation; ``columns``: ordered ``(name, type)`` pairs of the whole table;
    ``replicas``: inventory names, sorted, the first one is scanned. ``attempt_id``: 32 hex, names this attempt.
    """

    database: str
    table: str
    generation: str
    engine_full: str
    columns: tuple[tuple[str, str], ...]
    row_count: bool
    null_columns: tuple[str, ...]
    distinct_columns: tuple[str, ...]
    replicas: tuple[str, ...]
    attempt_id: str


@attrs.frozen(kw_only=True)
class TargetCounts:
    """What was seen: exactly the requested metrics; ``row_count`` None and empty maps where nothing was asked."""

    replica: str
    attempt_id: str
    row_count: int | None
    null_counts: Mapping[str, int]
    distinct_counts: Mapping[str, int]


class Unobserved(Exception):
    """There is no observation, and why (protocol 6).

    ``unavailable``: a deadline, a network, a server that could not answer now. ``probe_unavailable``: the function
    does not exist for the type. ``invalid``: an answer that cannot be trusted. ``drift``: another generation, schema
    or state than was sealed. ``reason``: a short safe code. ``quiescent``: no child and no channel of it is left.
    """

    def __init__(self, why: Why, reason: str, *, quiescent: bool) -> None:
        self.why = why
        self.reason = reason
        self.quiescent = quiescent
        super().__init__(f"{why}: {reason}")


class BoundedTargetAcceptanceReader(Protocol):
    """Observes a live generation within an absolute deadline."""

    def ready(self) -> None:
        """Prove that a child can be started, killed and reaped here, before the source is touched (R2, F5).

        Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED.
        """

    def reserve(self, request: TargetRequest) -> None:
        """Check, before the publication, that the request and the largest answer to it fit their pipe (C4).

        Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED.
        """

    def collect(self, request: TargetRequest, *, deadline: float) -> TargetCounts:
        """One observation; ``deadline``: absolute monotonic seconds. Raises ``Unobserved``, never returns in part.

        An exception from outside (Ctrl-C, a task timeout) passes through after the child is killed and reaped.
        """
