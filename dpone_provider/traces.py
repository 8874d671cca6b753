"""What a load leaves beside its rows: the steps it took, and the mark of its source (X8, X9). Values only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

Scalar = str | int | float | bool | None

_COUNTS: Final = frozenset({"row_count", "columns", "warnings", "unavailable"})
STEPS: Final[Mapping[str, frozenset[str]]] = {
    "staged": frozenset({"rows", "bytes", "columns", "partitions"}),
    "quality_checked": frozenset({"gates", "passed", "failed", "warned", "unavailable", "status"}),
    "source_metrics_captured": _COUNTS,
    "staged_metrics_captured": _COUNTS,
    "target_metrics_captured": _COUNTS,
    "finalized": frozenset({"rows", "written_rows", "mode", "target_commit", "governance_finalization", "partitions"}),
    "load_governance_failed": frozenset({"failure_boundary", "acceptance_side", "error_code"}),
    "state_advanced": frozenset({"version", "moved"}),
    "hook_run": frozenset({"number", "when"}),
}
"""Every step that is recorded, with the details that it may carry."""

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@attrs.frozen(kw_only=True)
class LoadStep:
    """One step of a load, as evidence.

    ``details`` keep what ``STEPS`` lists for the step: finite numbers, booleans, None, and texts that are codes, at
    most 64 of ``A-Za-z0-9_.:-``. Everything else, SQL, paths and driver text among it, is left out without a word, so
    that evidence can never fail a load. Raises ``ValueError`` for a step that ``STEPS`` does not name.
    """

    step: str = attrs.field(validator=attrs.validators.in_(STEPS))
    details: Mapping[str, Scalar] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        names = sorted(STEPS[self.step] & self.details.keys())
        kept = {name: self.details[name] for name in names if _plain(self.details[name])}
        object.__setattr__(self, "details", kept)


def _plain(value: object) -> bool:
    if type(value) is str:
        return _CODE.fullmatch(value) is not None
    if type(value) in (int, float):
        return abs(value) < 2**64  # type: ignore[arg-type]
    return value is None or type(value) is bool


class LoadStepLost(Exception):
    """A load step may not have been written. ``code``: the server's error number, None = no answer."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(f"server error {code}" if code is not None else "no answer")


@attrs.frozen(kw_only=True)
class SourceState:
    """The mark that the last load of a source left.

    ``value``: a cursor value as text (``sources.cursor``). ``load_id``: the load that advanced to it. ``version``:
    counts the advances, from 0. ``write_id``: of the advance, 32 hex.
    """

    key: str
    value: str
    load_id: str
    version: int
    write_id: str
