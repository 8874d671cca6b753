"""The live table, observed by the load itself: on the paths that no authority guards (X3, X4, X5, X6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.quality.acceptance import rebuild_snapshot, unavailable_snapshot
from dpone_provider.quality.metric_request import UNAVAILABLE, MetricRequest, unobserved
from dpone_provider.wire import StatementFailed

if TYPE_CHECKING:
    from dpone_provider.sources.observe import SourceObserver


def record_live(request: MetricRequest, observe: Callable[[MetricRequest], StagedMetrics]) -> dict[str, Any]:
    """The snapshot of the live table, after a commit.

    Raises ``DponeError`` DPONE_ACCEPTANCE_UNAVAILABLE, boundary post_commit, when it is required and cannot be had;
    warn_only gives one warning snapshot instead.
    """
    try:
        if not request.available:
            return unavailable_snapshot(request)
        return rebuild_snapshot(request, answer_of(request, observe(request)))
    except StatementFailed as failed:
        if not request.required:
            return unavailable_snapshot(request)
        why = f"server error {failed.code}" if failed.code is not None else "no answer"
        error = unobserved(request.side, UNAVAILABLE[request.side], f"The live table was not counted ({why}).")
        error.boundary = "post_commit"
        raise error from failed
    except DponeError as error:
        error.boundary = "post_commit"
        raise


def answer_of(request: MetricRequest, counted: StagedMetrics | SourceObserver) -> dict[str, Any]:
    """Counts in the form that a snapshot is rebuilt from."""
    return {
        "row_count": counted.row_count if request.row_count else None,
        "null_counts": dict(counted.null_counts),
        "distinct_counts": dict(counted.distinct_counts),
    }
