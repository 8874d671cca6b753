"""The one seam through which every effect goes: adapters send nothing except by ``Wire.send``.

``DirectWire`` sends and counts. Tests put a recorder in its place that numbers, holds back, drops or kills at any
effect.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

import attrs

EffectKind = Literal[
    "authority_read",
    "authority_create",
    "authority_cas",
    "catalog_read",
    "query",  # any other read-only statement on a control connection
    "create_table",
    "insert",
    "append",  # rows into the live table
    "exchange",
    "replace_partition",  # of the live table, atomic
    "publish_first",  # the rename of a first publication
    "rename",
    "drop",
    "source_open",
    "source_read",  # one record batch
    "reader_probe",  # start, kill and reap a child
    "load_step",  # one row of evidence
    "source_state",  # the advance of a source's mark
    "hook",  # an author's statement
    "observe",  # one look of a supervised child at the live target
]
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Effect:
    """One effect on the outside world. ``what`` names it for people (no SQL, no values); ``replica`` its server."""

    kind: EffectKind
    what: str
    replica: str = ""


class StatementFailed(Exception):
    """A statement that was sent did not come back clean. ``code``: the server's error number, None = no answer.

    ``None`` says nothing about whether the statement was applied. Never carries driver text.
    """

    def __init__(self, code: int | None, reason: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"server error {code}" if code is not None else f"no answer ({reason or 'connection lost'})")


class Wire(Protocol):
    """``send`` performs ``call`` once, and raises what it raises."""

    def send(self, effect: Effect, call: Callable[[], T]) -> T: ...


class DirectWire:
    """Sends at once; ``counts[kind]`` is how many effects of a kind were sent. Safe to use from several threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        with self._lock:
            self.counts[effect.kind] += 1
        return call()
