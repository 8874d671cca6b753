"""One verdict of a path's gates: evaluated once, told, accepted for the payload; or the failure that knows the load."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.failing import classify
from dpone_provider.quality.failure import QualityGateFailure, QualityGateFailureOutcome, ReceiptBoundary
from dpone_provider.quality.gates import QualityGateReport
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.quality.verdicts import Probe


def judge_once(
    execution: LoadExecution,
    boundary: ReceiptBoundary,
    *,
    source: Probe,
    target: Probe,
    adds: bool,
    scope: QualityScopeSummary | None = None,
    attempts: int = 1,
) -> QualityGateReceipt:
    """Run the gates where no statement runs for them, and accept the receipt for the payload (Q5, Q10).

    ``adds``: as for ``classify``; ``scope``: the partitions that the counts are over. Raises ``QualityGateFailure``
    with what is true of the load.
    """
    gates = execution.begin(execution.load_id)
    receipt = gates.evaluate(source=source, target=target, boundary=boundary, scope_summary=scope)
    execution.note("quality_checked", tally(receipt.report))
    if not receipt.report.passed:
        standing = execution.standing
        outcome = QualityGateFailureOutcome(
            failure_boundary=boundary,
            target_state=standing.target,
            checkpoint_state=standing.checkpoints,
            source_state="not_advanced",
            retry_classification=classify(standing, adds=adds),
            attempts=attempts,
            **execution.counters(),
        )
        raise QualityGateFailure(receipt.report, outcome=outcome)
    gates.accept_payload(receipt, boundary)
    return receipt


def tally(report: QualityGateReport) -> Mapping[str, int]:
    """How many gates there are, and how many of each status."""
    statuses = [result.status for result in report.results]
    return {"gates": len(statuses), **{status: statuses.count(status) for status in ("passed", "failed", "warned")}}
