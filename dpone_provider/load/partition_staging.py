"""full_refresh by partitions: all of them into one private generation, each by a worker (protocol 4; N2, N5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from dpone_provider.clickhouse import staging
from dpone_provider.clickhouse.catalog import table_state
from dpone_provider.errors import DponeError
from dpone_provider.load.columns import Columns
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.generation import create_generation, generation_columns, live_columns
from dpone_provider.load.judging import judge, requests_of, source_snapshot
from dpone_provider.load.moving import Mover, Roads
from dpone_provider.load.reading import StagingRoom
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.transfer import Transfer
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.wire import StatementFailed


class PartitionedStager:
    """Stages every planned partition; those that an earlier attempt has exported come from their artefacts.

    ``live``: what acceptance asks of the live table; the path's end observes it.
    """

    def __init__(
        self,
        room: StagingRoom,
        transfer: Transfer,
        execution: LoadExecution,
        check_cancelled: Callable[[], None],
    ) -> None:
        self._room = room
        self._transfer = transfer
        self._execution = execution
        self._mover = Mover(_roads(room, check_cancelled), transfer)
        self.live: MetricRequest | None = None

    @property
    def rows_read(self) -> int:
        return self._mover.rows_read

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage one generation and prove it. Raises ``DponeError``."""
        columns = self._mover.prepare()
        create_generation(self._room, order, columns)
        self._mover.move(lambda partition: order.name, self._transfer.loaded)
        self._execution.standing.extracted_rows = self.rows_read
        return self._prove(order, columns)

    def _prove(self, order: StagingOrder, columns: Columns) -> StagedProof:
        room, execution, transfer = self._room, self._execution, self._transfer
        order.keep_alive()
        room.notify("verify", {})
        snapshots = transfer.projected()
        rows = self._counted(order, snapshots.target.row_count)
        partitions = len(transfer.active)
        execution.note("staged", {"rows": rows, "columns": len(columns), "partitions": partitions})
        receipt = judge(execution, transfer, snapshots, "pre_commit")
        acceptance: dict[str, Any] = {}
        if execution.policy.acceptance is not None:
            names = tuple(name for name, _ in columns)
            table = room.spec.sink.table
            asked = requests_of(execution, transfer, names, names, f"{table.database}.{table.name}")
            acceptance |= source_snapshot(execution, transfer, asked, snapshots.source.row_count)
            self.live = asked.get("target") if "target" not in acceptance else None
        return StagedProof(
            rows=rows,
            source_probe=snapshots.source.payload(),
            target_probe=snapshots.target.payload(),
            report=receipt.report.payload(),
            acceptance=acceptance,
            effective_plan={},
            desired={"uuid": order.uuid},
            receipt=receipt,
        )

    def _counted(self, order: StagingOrder, expected: int | None) -> int:
        """The rows of the whole generation, which are those that the server has acknowledged one insert at a time."""
        room, database = self._room, self._room.spec.sink.table.database
        try:
            rows = staging.staged_count(room.control, database, order.name)
            state = table_state(room.control, database, order.name)
        except StatementFailed as failed:
            raise staging_failed(failed, "The staged generation could not be counted") from failed
        if state is None or state.uuid != order.uuid or expected not in (None, rows):
            message = f"{expected} rows were acknowledged, the generation holds {rows}."
            raise DponeError("DPONE_STAGED_COUNT_MISMATCH", message)
        return rows


def _roads(room: StagingRoom, check_cancelled: Callable[[], None]) -> Roads:
    """How partitions get into a new generation."""

    def columns(schema: pa.Schema) -> Columns:
        return generation_columns(room, schema)

    return Roads(
        spec=room.spec,
        sink=room.sink,
        source=room.source,
        wire=room.wire,
        known=tuple({**dict(live_columns(room) or ()), **dict(room.spec.sink.columns)}.items()),
        columns=columns,
        notify=room.notify,
        check_cancelled=check_cancelled,
    )
