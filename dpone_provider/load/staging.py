"""One private generation: read, check, write (protocol 4; X2, P8). ``load.proving`` proves it.

The source is streamed once, as one INSERT. Whatever fails raises; the caller drops the generation.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.load.columns import Columns
from dpone_provider.load.gating import hasher_of
from dpone_provider.load.generation import create_generation, generation_columns, live_columns
from dpone_provider.load.proving import Prover
from dpone_provider.load.reading import Reading, StagingRoom
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.spreading import require_everywhere
from dpone_provider.load.target_plan import admit_request
from dpone_provider.quality.metric_request import MetricRequest, plan_requests
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.observe import SourceObserver
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.wire import StatementFailed

__all__ = ["ArrowStager", "StagingRoom"]


class ArrowStager:
    """Stages through Arrow record batches.

    ``rows_read`` counts what was read from the source so far, also after a failure. ``live``: what acceptance asks of
    the live table on the route without the authority; there the path's end observes it.
    """

    def __init__(self, room: StagingRoom) -> None:
        self._room = room
        self.rows_read = 0
        self.live: MetricRequest | None = None

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage one generation and prove it.

        Raises ``DponeError``; see the boundary ``pre_commit`` of ``docs/errors.md``.
        """
        room, spec = self._room, self._room.spec
        known = {**dict(live_columns(room) or ()), **dict(spec.sink.columns)}  # text formats are parsed as these types
        with open_source(spec.source, room.source, wire=room.wire, columns=tuple(known.items())) as source:
            columns = generation_columns(room, source.schema)
            reading = self._reading(order, source, columns)
            reading.require_observable()
            create_generation(room, order, columns)
            self._insert(order, reading)
            require_everywhere(room, order, source.rows)
        return Prover(room, order, reading).prove()

    def _reading(self, order: StagingOrder, source: OpenSource, columns: Columns) -> Reading:
        fit = plan_fit(source.schema, columns)
        asked = self._requests(order, source, tuple(name for name, _ in columns))
        target = asked.pop("target", None)
        if not self._room.spec.sink.durable_quality_replay:
            self.live, target = target, None
        if target is not None:
            admit_request(target, columns)
        request = asked.get("source")
        nulls, distinct = (request.null_columns, request.distinct_columns) if request is not None else ((), ())
        observer = SourceObserver(fit.wire_schema, null_columns=nulls, distinct_columns=distinct)
        hasher = hasher_of(self._room.spec, fit)
        return Reading(source=source, fit=fit, asked=asked, observer=observer, target=target, hasher=hasher)

    def _requests(self, order: StagingOrder, source: OpenSource, names: tuple[str, ...]) -> dict[str, MetricRequest]:
        """What acceptance asks of each side; they have the same columns (X2)."""
        sink = self._room.spec.sink
        datasets = {
            "source": source.dataset,
            "staged": f"{sink.table.database}.{order.name}",
            "target": f"{sink.table.database}.{sink.table.name}",
        }
        planned = plan_requests(self._room.spec.quality.acceptance, dict.fromkeys(datasets, names), datasets)
        return {request.side: request for request in planned}

    def _insert(self, order: StagingOrder, reading: Reading) -> None:
        room, sink = self._room, self._room.spec.sink
        try:
            insert_stream(
                room.sink,
                database=sink.table.database,
                table=order.name,
                columns=tuple(reading.fit.wire_schema.names),
                schema=reading.fit.wire_schema,
                batches=self._batches(order, reading),
                wire=room.wire,
            )
        except StatementFailed as failed:
            raise staging_failed(failed, "The insert into the generation failed") from failed

    def _batches(self, order: StagingOrder, reading: Reading) -> Iterator[pa.RecordBatch]:
        def alive(rows: int) -> None:
            order.keep_alive()
            self.rows_read = rows

        budget = self._room.spec.sink.strategy.max_source_bytes
        return reading.fitted(budget=budget, alive=alive, notify=self._room.notify)
