"""The observations of a run: snapshots rebuilt from untrusted answers, one for each requested side (X5, X6, X8, X10).

A snapshot's identity (side, dataset, columns) comes from the request. Only its counts come from the answer, and only
when the answer is exactly what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Protocol

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.quality.metric_request import (
    UNAVAILABLE,
    UNKNOWN_COLUMNS,
    MetricRequest,
    plan_requests,
    query_dataset,
    unobserved,
)
from dpone_provider.quality.problems import is_count

__all__ = [
    "AcceptanceMetricProbe",
    "AcceptanceMetricsRecorder",
    "MetricRequest",
    "plan_requests",
    "query_dataset",
    "rebuild_snapshot",
    "run_document",
    "unavailable_snapshot",
]

SNAPSHOT_KIND = "dpone.acceptance.metric_snapshot.v1"
RUN_KIND = "dpone.acceptance.run_metrics.v1"

SNAPSHOT_INVALID = "acceptance_metric_snapshot_invalid"
# Every warning that a snapshot can carry; a snapshot carries at most one.
WARNINGS = (UNKNOWN_COLUMNS, SNAPSHOT_INVALID, *UNAVAILABLE.values())

_ANSWER_FIELDS = ("row_count", "null_counts", "distinct_counts", "warnings")


def rebuild_snapshot(request: MetricRequest, answer: object) -> dict[str, Any]:
    """The snapshot of a request out of an untrusted answer ``{row_count, null_counts, distinct_counts[, warnings]}``.

    An answer that is incomplete, says more than was asked, warns, or has a count that is no whole number of 0 to
    2**64-1 or above the row count, raises ``DponeError`` DPONE_ACCEPTANCE_UNAVAILABLE (required) or gives one warning
    snapshot without counts.
    """
    if not request.available:
        return unavailable_snapshot(request)
    counts = _trusted_counts(request, answer)
    if counts is None:
        if request.required:
            raise unobserved(
                request.side, f"{request.side}_{SNAPSHOT_INVALID}", "The answer is not what was asked for."
            )
        return _snapshot(request, warnings=[SNAPSHOT_INVALID])
    return _snapshot(request, **counts, warnings=[UNKNOWN_COLUMNS] if request.unknown_columns else [])


def unavailable_snapshot(request: MetricRequest) -> dict[str, Any]:
    """The warning snapshot of a side that could not be observed; raises DPONE_ACCEPTANCE_UNAVAILABLE when required."""
    code = UNAVAILABLE[request.side]
    if request.required:
        raise unobserved(request.side, code, "It cannot be observed on this route.")
    return _snapshot(request, warnings=[code])


def run_document(snapshots: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """A run's document ``{kind, snapshots}`` of its snapshots by side; a side without one is left out (X10)."""
    return {"kind": RUN_KIND, "snapshots": {side: dict(shot) for side, shot in snapshots.items() if shot is not None}}


class AcceptanceMetricProbe(Protocol):
    """Whatever can observe a side."""

    def collect(self, request: MetricRequest) -> object:
        """The answer to a request, of any form: nobody trusts it."""


class AcceptanceMetricsRecorder:
    """Collects exactly one snapshot for each request; unavailable sides are recorded at once."""

    def __init__(self, requests: Iterable[MetricRequest]) -> None:
        self._requests = {request.side: request for request in requests}
        self._snapshots: dict[str, dict[str, Any]] = {}
        for request in self._requests.values():
            if not request.available:
                self.unavailable(request.side)

    @property
    def open_requests(self) -> tuple[MetricRequest, ...]:
        """The requests that still wait for their snapshot."""
        return tuple(request for side, request in self._requests.items() if side not in self._snapshots)

    def collect(self, side: str, probe: AcceptanceMetricProbe | None) -> dict[str, Any]:
        """Ask a side's probe once and record its answer; without a probe the side is unavailable.

        Raises like ``record`` and ``unavailable``; an exception of the probe passes as it is, and nothing is recorded.
        """
        request = self._open(side)
        return self.unavailable(side) if probe is None else self.record(side, probe.collect(request))

    def record(self, side: str, answer: object) -> dict[str, Any]:
        """Rebuild and keep a side's snapshot. Raises like ``rebuild_snapshot``, and for a second or unasked one."""
        request = self._open(side)
        self._snapshots[side] = rebuild_snapshot(request, answer)
        return deepcopy(self._snapshots[side])

    def unavailable(self, side: str) -> dict[str, Any]:
        """Keep the warning snapshot of a side without a probe. Raises like ``unavailable_snapshot`` and ``record``."""
        request = self._open(side)
        self._snapshots[side] = unavailable_snapshot(request)
        return deepcopy(self._snapshots[side])

    def snapshots(self) -> dict[str, dict[str, Any]]:
        """Side → snapshot, one for each request. Raises DPONE_ACCEPTANCE_UNAVAILABLE while one is missing (X5)."""
        for request in self.open_requests:
            raise unobserved(request.side, UNAVAILABLE[request.side], "Its snapshot is missing.")
        return {side: deepcopy(self._snapshots[side]) for side in self._requests}

    def document(self) -> dict[str, Any]:
        """The run's document ``{kind, snapshots}``, for ``reconciliation_metrics`` (X10). Raises like ``snapshots``."""
        return run_document(self.snapshots())

    def _open(self, side: str) -> MetricRequest:
        if side not in self._requests or side in self._snapshots:
            message = "This snapshot was not asked for, or there is one."
            raise unobserved(side, f"{side}_acceptance_metric_snapshot_unexpected", message)
        return self._requests[side]


def _snapshot(
    request: MetricRequest,
    *,
    row_count: int | None = None,
    null_counts: Mapping[str, int] | None = None,
    distinct_counts: Mapping[str, int] | None = None,
    warnings: list[str],
) -> dict[str, Any]:
    return {
        "captured_before_cleanup": True,
        "columns": list(request.columns),
        "dataset": request.dataset,
        "distinct_counts": dict(distinct_counts or {}),
        "kind": SNAPSHOT_KIND,
        "null_counts": dict(null_counts or {}),
        "row_count": row_count,
        "side": request.side,
        "warnings": warnings,
    }


def _trusted_counts(request: MetricRequest, answer: object) -> dict[str, Any] | None:
    """The counts of an answer that is exactly what was asked for, else None. Reads plain dicts only."""
    if type(answer) is not dict or any(type(key) is not str or key not in _ANSWER_FIELDS for key in answer):
        return None
    warnings = answer.get("warnings", [])
    if type(warnings) not in (list, tuple) or len(warnings) > 0:
        return None
    rows = answer.get("row_count")
    if is_count(rows) is not request.row_count or (not request.row_count and rows is not None):
        return None
    limit = MAX_INTEGER if rows is None else rows
    null_counts = _column_counts(answer.get("null_counts", {}), request.null_columns, limit)
    distinct_counts = _column_counts(answer.get("distinct_counts", {}), request.distinct_columns, limit)
    if null_counts is None or distinct_counts is None:
        return None
    return {"row_count": rows, "null_counts": null_counts, "distinct_counts": distinct_counts}


def _column_counts(counts: object, columns: tuple[str, ...], limit: int) -> dict[str, int] | None:
    if type(counts) is not dict or len(counts) != len(columns) or any(type(key) is not str for key in counts):
        return None
    if any(column not in counts or not is_count(counts[column]) or counts[column] > limit for column in columns):
        return None
    return {column: counts[column] for column in columns}
