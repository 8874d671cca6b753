"""A transfer of which everything is committed: its proof, and no word to the sink but questions (N4, N7, Q5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.judging import judge, requests_of, source_snapshot, target_snapshot
from dpone_provider.load.outcome import Attempt
from dpone_provider.load.payload import Loaded
from dpone_provider.load.transfer import Transfer
from dpone_provider.quality.failure import ReceiptBoundary
from dpone_provider.quality.metric_request import MetricRequest

FINALIZATION: Final = "native_resume_validation"


class ResumeCoordinator:
    """Judges what is committed. ``observe`` counts in the live table; ``columns``: those of the live table.

    It writes no checkpoint, whatever comes of it.
    """

    boundary: ReceiptBoundary = "resume_validation"
    sides = ("source", "target")

    def __init__(
        self,
        transfer: Transfer,
        *,
        columns: Callable[[], tuple[str, ...]],
        observe: Callable[[MetricRequest], StagedMetrics],
        dataset: str,
        notify: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._transfer = transfer
        self._columns = columns
        self._observe = observe
        self._dataset = dataset
        self._notify = notify

    def admit(self, execution: LoadExecution) -> None:
        """Nothing is asked of the sink: nothing is done to it."""
        standing = execution.standing
        standing.resumed, standing.target, standing.checkpoints = True, "mutation_returned_success", "committed"

    def load(self, execution: LoadExecution) -> Loaded:
        """Validate. Raises ``DponeError``, boundary resume_validation; the checkpoints stay as they are."""
        transfer = self._transfer
        self._notify("resume", {})
        snapshots = transfer.scope.resume_snapshots(transfer.ledger)
        receipt = judge(execution, transfer, snapshots, self.boundary)
        acceptance: dict[str, Any] = {}
        if execution.policy.acceptance is not None:
            asked = requests_of(execution, transfer, transfer.columns(), self._columns(), self._dataset)
            acceptance |= source_snapshot(execution, transfer, asked, snapshots.source.row_count)
            acceptance |= target_snapshot(execution, asked, self._observe)
        standing = execution.standing
        attempt = Attempt(number=1, epoch=0, phases=("RESUMED",), source_reads=0, rows=0, publications=0)
        return Loaded(
            receipt=receipt,
            load_id=execution.load_id,
            gates=receipt.report.payload(),
            acceptance=acceptance,
            extracted_rows=0,
            inserted_rows=0,
            final_rows=standing.final_rows,
            generation="",
            attempts=(attempt,),
            replayed=True,
            finalization=FINALIZATION,
        )

    def facts(self) -> Mapping[str, Any]:
        """The attempt's number."""
        return {"attempts": self._transfer.attempt}
