"""The source of a direct load, read to its end before anything is sent: fitted, observed, kept (X2, X4, X5, P8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.load.columns import Columns, append_columns
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.reading import Reading, record_counted
from dpone_provider.load.spool import Spool
from dpone_provider.quality.acceptance import AcceptanceMetricsRecorder
from dpone_provider.quality.metric_request import MetricRequest, plan_requests
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.observe import SourceObserver
from dpone_provider.sources.open import OpenSource, open_source

if TYPE_CHECKING:
    from dpone_provider.load.direct import DirectRoom


@attrs.frozen(kw_only=True)
class Collected:
    """A source that was read to its end. ``target``: what acceptance asks of the live table; ``mark``: the highest."""

    rows: int
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    acceptance: Mapping[str, Any]
    target: MetricRequest | None
    mark: str | None


def collect(
    room: DirectRoom, execution: LoadExecution, state: TableState, after: CursorMark | None, kept: ExitStack
) -> Collected:
    """Read everything above the mark; what is kept goes with ``kept``.

    Raises ``DponeError``: the source, a value that does not fit, an observation that cannot be made; nothing was sent.
    """
    spec, standing = room.spec, execution.standing

    def alive(rows: int) -> None:
        room.check_cancelled()
        standing.extracted_rows = rows

    known = tuple((column.name, column.type) for column in state.columns)  # text formats are parsed as these types
    with open_source(spec.source, room.source, wire=room.wire, columns=known, after=after) as source:
        columns = append_columns(source.schema.names, spec.sink.columns, state.columns)
        reading = _reading(room, execution, source, columns, state)
        reading.require_observable()
        spool = kept.enter_context(Spool(reading.fit.wire_schema))
        budget = spec.sink.strategy.max_source_bytes
        for batch in reading.fitted(budget=budget, alive=alive, notify=room.notify):
            spool.write(batch)
        mark = source.mark
    recorder = AcceptanceMetricsRecorder(reading.asked.values())
    for request in recorder.open_requests:
        record_counted(recorder, request, reading.observer)
        counted = len({*request.null_columns, *request.distinct_columns})
        execution.note(
            f"{request.side}_metrics_captured", {"row_count": reading.observer.row_count, "columns": counted}
        )
    return Collected(
        rows=spool.rows,
        schema=reading.fit.wire_schema,
        batches=spool.batches,
        acceptance=recorder.snapshots(),
        target=reading.target,
        mark=mark,
    )


def _reading(
    room: DirectRoom, execution: LoadExecution, source: OpenSource, columns: Columns, state: TableState
) -> Reading:
    fit = plan_fit(source.schema, columns)
    table = room.spec.sink.table
    schemas = {"source": source.schema.names, "target": [column.name for column in state.columns]}
    datasets = {"source": source.dataset, "target": f"{table.database}.{table.name}"}
    asked = {request.side: request for request in plan_requests(execution.policy.acceptance, schemas, datasets)}
    request = asked.get("source")
    nulls, distinct = (request.null_columns, request.distinct_columns) if request is not None else ((), ())
    observer = SourceObserver(fit.wire_schema, null_columns=nulls, distinct_columns=distinct)
    target = asked.pop("target", None)
    return Reading(source=source, fit=fit, asked=asked, observer=observer, target=target)
