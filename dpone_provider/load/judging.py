"""Gates and acceptance over the logical workload of a transfer: every planned partition once (N2, N3, Q5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.observing import record_live
from dpone_provider.load.transfer import Transfer
from dpone_provider.load.verdict import judge_once
from dpone_provider.native.scope import NativeSnapshots
from dpone_provider.quality.acceptance import rebuild_snapshot, unavailable_snapshot
from dpone_provider.quality.failure import ReceiptBoundary
from dpone_provider.quality.metric_request import MetricRequest, plan_requests
from dpone_provider.quality.receipt import QualityGateReceipt

Requests = Mapping[str, MetricRequest]


def judge(
    execution: LoadExecution, transfer: Transfer, snapshots: NativeSnapshots, boundary: ReceiptBoundary
) -> QualityGateReceipt:
    """Run the gates, once, over what is durable; the receipt is accepted for the payload.

    No hash over partitions exists, and no statement runs: gates that need one have no answer. Raises
    ``QualityGateFailure`` with what is true of the load.
    """
    return judge_once(
        execution,
        boundary,
        source=snapshots.source,
        target=snapshots.target,
        adds=False,
        scope=transfer.scope.summary(),
        attempts=transfer.attempt,
    )


def requests_of(
    execution: LoadExecution, transfer: Transfer, source: Sequence[str], target: Sequence[str], dataset: str
) -> Requests:
    """What acceptance asks of source and target, by side. Raises DPONE_ACCEPTANCE_UNAVAILABLE.

    ``source``, ``target``: their columns; ``dataset``: the target's name. Distinct values do not add up over
    partitions: a side that is asked for them cannot be observed.
    """
    schemas = {"source": source, "target": target}
    datasets = {"source": transfer.run.dataset, "target": dataset}
    return {request.side: request for request in plan_requests(execution.policy.acceptance, schemas, datasets)}


def source_snapshot(execution: LoadExecution, transfer: Transfer, asked: Requests, rows: int | None) -> dict[str, Any]:
    """The source's snapshot, if it is asked for, and one of every side that is not there, by side."""
    found: dict[str, Any] = {}
    for side, request in asked.items():
        if not request.available or request.distinct_columns:
            found[side] = unavailable_snapshot(request)
        elif side == "source":
            answer = {
                "row_count": rows if request.row_count else None,
                "null_counts": transfer.null_counts(request.null_columns),
                "distinct_counts": {},
            }
            found[side] = rebuild_snapshot(request, answer)
            execution.note("source_metrics_captured", {"row_count": rows, "columns": len(request.null_columns)})
    return found


def target_snapshot(
    execution: LoadExecution, asked: Requests, observe: Callable[[MetricRequest], StagedMetrics]
) -> dict[str, Any]:
    """The target's snapshot, if it is asked for and can be had: read-only, after the commit."""
    request = asked.get("target")
    if request is None or request.distinct_columns:
        return {}
    snapshot = record_live(request, observe)
    execution.standing.final_rows = snapshot["row_count"]
    execution.note("target_metrics_captured", {"row_count": snapshot["row_count"]})
    return {"target": snapshot}
