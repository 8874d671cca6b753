"""One partition on its way: from the source into its artefact, and from there into a table. By several threads.

What a worker holds at a time is a batch of the source or a row group of an artefact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.load.columns import Columns
from dpone_provider.load.reading import Reading
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.transfer import Transfer
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.native.partition import TransferPartition
from dpone_provider.native.workers import Crew, run_bounded
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.observe import SourceObserver
from dpone_provider.sources.open import open_source
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.wire import StatementFailed, Wire

Notify = Callable[[str, dict[str, Any]], None]
Resolve = Callable[[pa.Schema], Columns]


@attrs.frozen(kw_only=True)
class Roads:
    """What moves partitions. ``columns`` gives the target's columns for a schema of the source.

    ``known``: types that values of text are read as.
    """

    spec: LoadSpec
    sink: Endpoint
    source: SourceEndpoint | None
    wire: Wire
    known: Columns
    columns: Resolve
    notify: Notify
    check_cancelled: Callable[[], None]


class Mover:
    """Moves the active partitions of one attempt. ``rows_read``: from the source, also after a failure."""

    def __init__(self, roads: Roads, transfer: Transfer) -> None:
        self._roads = roads
        self._transfer = transfer
        self._read: dict[str, tuple[int, int]] = {}
        self._crew = Crew(len(transfer.active))
        self._kept: dict[str, bool] = {}
        self.columns: Columns = ()
        self.notify = roads.notify
        self.check_cancelled = roads.check_cancelled

    @property
    def rows_read(self) -> int:
        return sum(rows for rows, _ in tuple(self._read.values()))

    def prepare(self) -> Columns:
        """The target's columns: those of an artefact that is there and still fits, else of the source's schema."""
        found = (self._transfer.reusable(each) for each in self._transfer.active)
        columns = next((each for each in found if each is not None and self._still(each)), None)
        self.columns = columns if columns is not None else self._of_source()
        return self.columns

    def move(
        self, table: Callable[[TransferPartition], str], landed: Callable[[TransferPartition, int | None], None]
    ) -> None:
        """Move every partition into the table that ``table`` names; ``landed`` is told the rows that the server says.

        Both are called by the workers. Raises ``DponeError``: the first failure, once all workers have ended.
        """

        def work(partition: TransferPartition) -> None:
            try:
                kept = self._kept[partition.partition_id] = self._transfer.reusable(partition) == self.columns
                if not kept:
                    self._export(partition)
                name = table(partition)
                landed(partition, self._insert(partition, name))
            except DponeError as error:
                self._transfer.refused(partition, error)
                raise

        parts = self._roads.spec.source.partitions
        run_bounded(
            self._transfer.active,
            parts.workers if parts is not None else 1,
            work,
            crew=self._crew,
            check_cancelled=self._roads.check_cancelled,
            notify=self._roads.notify,
        )
        self._transfer.staged = True

    def _still(self, columns: Columns) -> bool:
        """Do sink and live table still ask for these columns?"""
        asked, known = dict(columns), dict(self._roads.known)
        return known.keys() <= asked.keys() and all(known.get(name, kind) == kind for name, kind in columns)

    def _of_source(self) -> Columns:
        roads, transfer = self._roads, self._transfer
        if transfer.schema is not None:
            return roads.columns(transfer.schema)
        first = transfer.active[0].part if transfer.active else None
        with open_source(roads.spec.source, roads.source, wire=roads.wire, columns=roads.known, part=first) as source:
            return roads.columns(source.schema)

    def _export(self, partition: TransferPartition) -> None:
        roads, transfer = self._roads, self._transfer
        transfer.planned(partition)
        with open_source(
            roads.spec.source, roads.source, wire=roads.wire, columns=roads.known, part=partition.part
        ) as source:
            fit = plan_fit(source.schema, self.columns)
            observer = SourceObserver(fit.wire_schema, null_columns=fit.wire_schema.names)
            reading = Reading(source=source, fit=fit, asked={}, observer=observer, target=None)
            batches = reading.fitted(budget=None, alive=self._alive, notify=self._counting(partition))
            artifact = transfer.store.export(partition.partition_id, fit.wire_schema, self.columns, batches)
        if artifact.rows != source.rows:
            raise DponeError("DPONE_TRANSFER_ARTIFACT", "An artefact holds another number of rows than were read.")
        transfer.exported(partition, artifact, dict(observer.null_counts))

    def _insert(self, partition: TransferPartition, name: str) -> int | None:
        roads, store = self._roads, self._transfer.store
        _, schema = store.shape(partition.partition_id)
        try:
            return insert_stream(
                roads.sink,
                database=roads.spec.sink.table.database,
                table=name,
                columns=tuple(schema.names),
                schema=schema,
                batches=self._batches(partition),
                wire=roads.wire,
            )
        except StatementFailed as failed:
            raise staging_failed(failed, "The insert of a partition failed") from failed

    def _batches(self, partition: TransferPartition) -> Iterator[pa.RecordBatch]:
        counted = self._kept[partition.partition_id]  # else it was counted when it was read
        for batch in self._transfer.store.batches(partition.partition_id):
            self._crew.going_on()
            if counted:
                self._crew.count(rows=batch.num_rows, size=batch.nbytes)
            yield batch

    def _alive(self, rows: int) -> None:
        self._crew.going_on()

    def _counting(self, partition: TransferPartition) -> Notify:
        rows = size = 0
        budget = self._roads.spec.sink.strategy.max_source_bytes

        def notify(step: str, facts: dict[str, Any]) -> None:
            nonlocal rows, size
            self._crew.count(rows=facts["rows"] - rows, size=facts["bytes"] - size)
            self._read[partition.partition_id] = rows, size = facts["rows"], facts["bytes"]
            if budget is not None and sum(read for _, read in tuple(self._read.values())) > budget:
                message = f"The source is over its budget of {budget} bytes (max_source_bytes)."
                raise DponeError("DPONE_SOURCE_TOO_LARGE", message)

        return notify
