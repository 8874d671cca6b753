"""What a load path asks of the outside beside its data: load steps, the source's mark, hooks (X3, X4, X9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

import attrs

Scalar = str | int | float | bool | None
When = Literal["pre", "post"]

_COUNTS: Final = frozenset({"row_count", "columns", "warnings", "unavailable"})
STEPS: Final[Mapping[str, frozenset[str]]] = {
    "staged": frozenset({"rows", "bytes", "columns"}),
    "quality_checked": frozenset({"gates", "passed", "failed", "warned", "unavailable", "status"}),
    "source_metrics_captured": _COUNTS,
    "staged_metrics_captured": _COUNTS,
    "target_metrics_captured": _COUNTS,
    "finalized": frozenset({"rows", "written_rows", "mode", "target_commit", "governance_finalization"}),
    "load_governance_failed": frozenset({"failure_boundary", "acceptance_side", "error_code"}),
    "state_advanced": frozenset({"version", "moved"}),
    "hook_run": frozenset({"number", "when"}),
}
"""Every step that is recorded, with the details that it may carry. What is not listed is left out (X8, X9)."""

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def allowed(step: str, details: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The details that a step may carry, in sorted order.

    Finite numbers, booleans, None, and texts that are codes: at most 64 of ``A-Za-z0-9_.:-``. Everything else, SQL,
    paths and driver text among it, is left out.
    """
    names = STEPS[step]
    return {name: details[name] for name in sorted(names & details.keys()) if _is_plain(details[name])}


def _is_plain(value: object) -> bool:
    match value:
        case None | bool():
            return True
        case int():
            return type(value) is int and abs(value) < 2**64
        case float():
            return type(value) is float and abs(value) < float("inf")
        case str():
            return type(value) is str and _CODE.fullmatch(value) is not None
    return False


@attrs.frozen(kw_only=True)
class LoadStep:
    """One step of a load, as evidence. ``details`` keep only what ``allowed`` lets through.

    Raises ``ValueError`` for a step that ``STEPS`` does not name.
    """

    step: str = attrs.field(validator=attrs.validators.in_(STEPS))
    details: Mapping[str, Scalar] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "details", allowed(self.step, self.details))


class LoadStepLog(Protocol):
    """Where the steps of one load are kept."""

    def record(self, step: LoadStep) -> None:
        """Keep one step: one INSERT, sent once. Raises ``LoadStepLost``; the caller decides what that means (X7)."""


class LoadStepLost(Exception):
    """A load step may not have been written. ``code``: the server's error number, None = no answer."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(f"server error {code}" if code is not None else "no answer")


@attrs.frozen(kw_only=True)
class SourceState:
    """The mark that the last load of a source left.

    ``value``: the canonical text of a cursor value (``sources.cursor``). ``load_id``: the load that advanced to it.
    ``version``: counts the advances, from 0. ``write_id``: of the advance, 32 hex.
    """

    key: str
    value: str
    load_id: str
    version: int
    write_id: str


class SourceStateStore(Protocol):
    """The marks of the sources that are read by cursor. Touched only by loads that have one."""

    def admit(self) -> None:
        """Check the table, read-only. Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED or what a read raises."""

    def read(self, key: str) -> SourceState | None:
        """The mark under a key, None when no load has left one.

        Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN when the answer is not one well-formed mark,
        ``StatementFailed`` when there is none.
        """

    def advance(self, key: str, expected: SourceState | None, value: str, load_id: str) -> SourceState:
        """Move the mark from what ``read`` said to ``value``: one compare-and-swap, sent once, then read back.

        Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN unless the row that was read back is this very write.
        """


class HookRunner(Protocol):
    """Runs the statements of ``sink.pre_sql`` and ``sink.post_sql``."""

    def run(self, statements: Sequence[str], when: When) -> None:
        """Run them in order, each sent once; the first failure ends it.

        Raises ``DponeError`` DPONE_HOOK_FAILED; ``context`` has ``hook`` (number from 1) and ``when``.
        """
