"""Which path a load takes, what it must be able to observe there, and what it gives back (Q5, X4, X5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import attrs

from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.outcome import Attempt
from dpone_provider.quality.failure import ReceiptBoundary
from dpone_provider.quality.metric_request import UNAVAILABLE, unobserved
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.traces import SourceState


@attrs.frozen(kw_only=True)
class Mark:
    """The mark of the source that a load has earned. ``expected``: what was there when the source was opened."""

    key: str
    expected: SourceState | None
    value: str


@attrs.frozen(kw_only=True)
class Loaded:
    """What a coordinator gives back: a target that is loaded, and the receipt of its gates.

    ``mark`` None: the source has no state to advance. ``quality_replay``: the document of a replay. ``scope``: the
    partitions that the counts of the gates are over.
    """

    receipt: QualityGateReceipt | None
    load_id: str
    gates: Mapping[str, Any]
    acceptance: Mapping[str, Any]
    extracted_rows: int
    inserted_rows: int | None
    final_rows: int | None
    generation: str
    attempts: tuple[Attempt, ...]
    replayed: bool = False
    quality_replay: Mapping[str, Any] | None = None
    leftovers: tuple[str, ...] = ()
    finalization: str = ""
    mark: Mark | None = None
    scope: QualityScopeSummary | None = None


class Coordinator(Protocol):
    """One path. ``boundary``: where its gates run; ``sides``: what can be observed on it."""

    @property
    def boundary(self) -> ReceiptBoundary: ...

    @property
    def sides(self) -> Collection[str]: ...

    def admit(self, execution: LoadExecution) -> None:
        """Look at everything that can refuse the load, read-only."""

    def load(self, execution: LoadExecution) -> Loaded:
        """Load, with the receipt accepted for the payload. Raises ``DponeError``."""

    def facts(self) -> Mapping[str, Any]:
        """What it knows after a failure, for ``failure_document``."""


class PayloadLoadService:
    """Loads by the coordinator of the path: ``direct`` for append, ``staged`` for everything else.

    Only the one that is needed is made.
    """

    def __init__(self, mode: str, *, staged: Callable[[], Coordinator], direct: Callable[[], Coordinator]) -> None:
        self.path = direct() if mode == "append" else staged()

    def admit(self, execution: LoadExecution) -> None:
        """Refuse what this path cannot give, then ask the path (X5). Nothing is changed.

        Raises DPONE_ACCEPTANCE_UNAVAILABLE for a required side that the path does not have.
        """
        policy = execution.policy.acceptance
        for side in policy.sides if policy is not None and policy.mode == "required" else ():
            if side not in self.path.sides:
                raise unobserved(side, UNAVAILABLE[side], "It cannot be observed on this path.")
        self.path.admit(execution)

    def load(self, execution: LoadExecution) -> Loaded:
        """Load, and take nothing for loaded that this run's own gates do not stand behind (Q4, Q6)."""
        loaded = self.path.load(execution)
        execution.require_accepted(loaded.receipt, self.path.boundary)
        execution.require_unchanged(execution.standing.boundary)
        return loaded
