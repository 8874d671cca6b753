"""partition_replace: every partition staged and judged, then each in the place of the live one (N2, N5, X3, X7).

A replacement is atomic, decided by the catalog, never by its answer, and can be repeated: what nobody can tell costs a
retry and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider.clickhouse import partitions
from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.partitions import Staged
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.admission import admit_unchanged, require_table
from dpone_provider.load.bounds import admit_bounds, column_of, kind_of, within_of
from dpone_provider.load.execution import LoadExecution, Standing
from dpone_provider.load.judging import judge, requests_of, source_snapshot, target_snapshot
from dpone_provider.load.moving import Mover, Roads
from dpone_provider.load.outcome import Attempt
from dpone_provider.load.own_tables import OwnTables
from dpone_provider.load.payload import Loaded
from dpone_provider.load.refusals import REFUSED_AT_ONCE, explained, staging_failed
from dpone_provider.load.transfer import Transfer
from dpone_provider.manifest.spec import TableRef
from dpone_provider.native.partition import TransferPartition
from dpone_provider.quality.failure import ReceiptBoundary
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.wire import StatementFailed


@attrs.frozen(kw_only=True)
class ReplacingRoom:
    """What the path works with. ``admit_target`` gives the live table; ``observe`` counts in it, within the bounds.

    ``hooked``: statements ran since the admission.
    """

    table: TableRef
    hooked: bool
    control: ControlClient
    tables: OwnTables
    admit_target: Callable[[], TableState | None]
    roads: Callable[[TableState], Roads]
    observe: Callable[[MetricRequest], StagedMetrics]


class PartitionReplaceCoordinator:
    """Stages a private table a partition, runs the gates once over the workload, replaces, observes."""

    boundary: ReceiptBoundary = "pre_commit"
    sides = ("source", "target")

    def __init__(self, room: ReplacingRoom, transfer: Transfer) -> None:
        self._room = room
        self._transfer = transfer
        self._live: TableState | None = None
        self._mover: Mover | None = None
        self._staged: dict[str, Staged] = {}
        self._gone: dict[str, tuple[str, ...]] = {}
        self._replaced = 0

    def admit(self, execution: LoadExecution) -> None:
        """The live table and its partition key. Raises ``DponeError``."""
        room = self._room
        live = require_table(room.admit_target(), room.table)
        if self._transfer.partitions:
            admit_bounds(room.control, room.table, live, [each.part for each in self._transfer.partitions])
        self._live = live

    def load(self, execution: LoadExecution) -> Loaded:
        """Load. Raises ``DponeError``; the private tables are gone on every path."""
        if self._room.hooked:  # they may have made another table of it
            self.admit(execution)
        live = self._live
        if live is None:
            raise LookupError("not admitted")
        try:
            try:
                loaded = self._load(execution, live)
            finally:
                execution.standing.extracted_rows = self._mover.rows_read if self._mover is not None else 0
                cleaned = self._room.tables.drop()
        except StatementFailed as failed:
            raise DponeError("DPONE_STAGING_FAILED", "The server stopped answering.") from failed
        if cleaned.failed:
            execution.note_failure("cleanup_incomplete")
        return attrs.evolve(loaded, leftovers=cleaned.failed)

    def facts(self) -> Mapping[str, Any]:
        """Nothing beyond what the run itself knows."""
        return {}

    def _load(self, execution: LoadExecution, live: TableState) -> Loaded:
        room, transfer, standing = self._room, self._transfer, execution.standing
        execution.require_unchanged("pre_commit")
        room.tables.sweep()
        self._mover = mover = Mover(room.roads(live), transfer)
        mover.notify("stage", {})
        columns = tuple(name for name, _ in mover.prepare())
        asked = self._asked(execution, columns, live)
        mover.move(lambda partition: room.tables.create(partition.partition_id), self._landed)
        standing.extracted_rows = mover.rows_read
        mover.notify("verify", {})
        self._require_apart()
        rows = sum(staged.rows for staged in self._staged.values())
        execution.note("staged", {"rows": rows, "columns": len(columns), "partitions": len(transfer.active)})
        snapshots = transfer.projected()
        self._require_whole(live)
        receipt = judge(execution, transfer, snapshots, self.boundary)
        acceptance = source_snapshot(execution, transfer, asked, snapshots.source.row_count)
        execution.require_unchanged("pre_commit")
        admit_unchanged(room.control, room.table, live)
        for number, partition in enumerate(transfer.active, 1):
            mover.check_cancelled()
            mover.notify("replace", {"partition": number, "planned": len(transfer.active)})
            self._replace(execution, partition)
            standing.inserted_rows = (standing.inserted_rows or 0) + self._staged[partition.partition_id].rows
        standing.target, standing.checkpoints = "mutation_returned_success", "committed"
        execution.note("finalized", {"rows": rows, "target_commit": "proven", "partitions": len(transfer.active)})
        if "target" not in acceptance:
            acceptance |= target_snapshot(execution, asked, room.observe)
        return self._loaded(execution, receipt, acceptance)

    def _asked(self, execution: LoadExecution, columns: tuple[str, ...], live: TableState) -> Any:
        if execution.policy.acceptance is None:
            return {}
        table = self._room.table
        target = [column.name for column in live.columns]
        return requests_of(execution, self._transfer, columns, target, f"{table.database}.{table.name}")

    def _landed(self, partition: TransferPartition, written: int | None) -> None:
        """Count a staged partition, by a worker. Raises ``DponeError`` when its rows are not those of its bounds."""
        if self._live is None:
            raise LookupError("not admitted")
        kind = kind_of(self._live, column_of([partition.part]))
        staged = self._room.tables.look(partition.partition_id, within_of(partition.part), kind)
        if staged.outside:
            raise _refused(f"{staged.outside} rows of a partition lie beyond its bounds in the target.")
        self._staged[partition.partition_id] = staged
        self._transfer.loaded(partition, staged.rows)

    def _require_apart(self) -> None:
        """No partition of the target has rows of two partitions. Raises ``DponeError`` DPONE_PARTITION_KEY."""
        found = Counter(each for staged in self._staged.values() for each in staged.ids)
        shared = sum(count > 1 for count in found.values())
        if shared:
            raise _refused(f"{shared} partitions of the target have rows of more than one of the source.")
        if column_of([each.part for each in self._transfer.partitions]) == "":
            self._transfer.keep_targets(found)

    def _require_whole(self, live: TableState) -> None:
        """Which partitions of the target go, and that no row of another partition goes with them.

        Raises ``DponeError`` DPONE_PARTITION_KEY.
        """
        room, database, name = self._room, self._room.table.database, self._room.table.name
        for partition in self._transfer.active:
            within, ids = within_of(partition.part), set(self._staged[partition.partition_id].ids)
            outside = 0
            if within is not None:
                kind = kind_of(live, within.column)
                try:
                    ids.update(partitions.live_partitions(room.control, database, name, within, kind))
                    outside = partitions.live_outside(room.control, database, name, within, kind, sorted(ids))
                except StatementFailed as failed:
                    raise staging_failed(failed, "The live table could not be looked at") from failed
            if outside:
                raise _refused(f"{outside} rows of the target lie in a partition that would go, beyond its bounds.")
            self._gone[partition.partition_id] = tuple(sorted(ids))

    def _replace(self, execution: LoadExecution, partition: TransferPartition) -> None:
        """Put a partition in its place, and keep that it is there."""
        standing, own = execution.standing, partition.partition_id
        try:
            for each in self._gone[own]:
                self._put(own, each, standing)
                self._replaced += 1
        except StatementFailed as failed:
            raise self._unanswered(execution, failed) from failed
        standing.checkpoints = "unknown"
        self._transfer.committed([partition])

    def _put(self, own: str, partition: str, standing: Standing) -> None:
        """One statement, and what the catalog shows of it. Raises ``StatementFailed`` unless it is done."""
        control, database, live = self._room.control, self._room.table.database, self._room.table.name
        staged, empty = self._room.tables.names[own], partition not in self._staged[own].ids
        newest = partitions.newest_block(control, database, live, partition)
        answer = StatementFailed(None, "acknowledged, and not done")
        standing.target = "unknown"
        try:
            partitions.replace_partition(control, database, live, staged, partition, empty=empty)
        except StatementFailed as failed:
            answer = failed
        if not partitions.is_replaced(control, database, live, staged, partition, newest=newest, empty=empty):
            raise answer

    def _unanswered(self, execution: LoadExecution, failed: StatementFailed) -> DponeError:
        refusal, standing = explained(failed), execution.standing
        if standing.target == "not_mutated":
            return staging_failed(failed, "The live table could not be looked at")
        if not self._replaced and failed.code in REFUSED_AT_ONCE:
            standing.target = "not_mutated"
            message = f"The server refused to replace a partition ({refusal.cause})."
            return DponeError("DPONE_SERVER_REFUSED", message, boundary="pre_commit", remedy=refusal.remedy)
        return DponeError(
            "DPONE_PUBLICATION_UNCERTAIN",
            f"A partition may or may not be replaced ({refusal.cause}).",
            remedy=refusal.remedy or "Retry: a partition that was replaced is replaced by the same rows again.",
            target_commit="unknown",
        )

    def _loaded(self, execution: LoadExecution, receipt: Any, acceptance: Mapping[str, Any]) -> Loaded:
        standing = execution.standing
        attempt = Attempt(
            number=1,
            epoch=0,
            phases=("REPLACED",),
            source_reads=1,
            rows=standing.inserted_rows or 0,
            publications=self._replaced,
        )
        return Loaded(
            receipt=receipt,
            load_id=execution.load_id,
            gates=receipt.report.payload(),
            acceptance=acceptance,
            extracted_rows=0,
            inserted_rows=standing.inserted_rows,
            final_rows=standing.final_rows,
            generation="",
            attempts=(attempt,),
        )


def _refused(problem: str) -> DponeError:
    error = partitions.refused(problem)
    error.boundary = "pre_commit"
    return error
