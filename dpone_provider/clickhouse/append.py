"""Rows into a live table: one INSERT, sent once. No table takes its place, so whatever was written is there to stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import pyarrow as pa

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.wire import Effect, Wire


def append_rows(
    endpoint: Endpoint,
    *,
    database: str,
    table: str,
    columns: Sequence[str],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    wire: Wire,
    started: Callable[[], None],
    feeds_views: bool = False,
    query_id: str | None = None,
    replica: str = "",
) -> int | None:
    """Append all batches, and return the rows that the server says it wrote; None when it does not say.

    The first batch is waited for before the server is asked for anything; without one, nothing is sent and the answer
    is 0. ``feeds_views``: the table has materialized views; the server counts their rows too, so its number says
    nothing about ours. Raises as ``insert_stream`` does. Before ``started`` was called, no row can have been written.
    After it, every error leaves open how many were, a refusal with a server error number and one of ``batches``
    themselves among them: the server writes a long stream block by block, and a table before its views.
    """
    source = iter(batches)
    first = next(source, None)
    if first is None:
        return 0
    written = insert_stream(
        endpoint,
        database=database,
        table=table,
        columns=columns,
        schema=schema,
        batches=chain((first,), source),
        wire=wire,
        settings=pins.APPEND,
        query_id=query_id,
        effect=Effect(kind="append", what="append to the live table", replica=replica),
        started=started,
    )
    return None if feeds_views else written
