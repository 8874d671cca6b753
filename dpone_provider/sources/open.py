"""A source as a stream of Arrow record batches: read once, counted, closed on every path (P8, B22)."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final

import pyarrow as pa

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import FileSource, SourceSpec, SqlSource
from dpone_provider.native.partition import FilePart, Part
from dpone_provider.sources.cursor import CursorMark, CursorReader
from dpone_provider.sources.part import Narrow, PartReader
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.sources.stream import BatchStream
from dpone_provider.unwinding import on_failure
from dpone_provider.wire import Effect, Wire

_OPEN: Final = Effect(kind="source_open", what="open the source")
_READ: Final = Effect(kind="source_read", what="read a batch of the source")


class OpenSource:
    """An open source; a context manager.

    ``rows``, ``bytes``: handed out so far, in rows and in Arrow bytes. ``total_rows``: all rows where that is known
    before reading (Parquet), else None; for progress only. ``dataset``: a name without secrets. With a cursor, only
    rows above its mark are handed out; of a partition, only its own.
    """

    def __init__(self, stream: BatchStream, wire: Wire, cursor: CursorReader | PartReader | None = None) -> None:
        self._stream = stream
        self._wire = wire
        self._cursor = cursor
        self._state = "open"
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> OpenSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def schema(self) -> pa.Schema:
        return self._stream.schema

    @property
    def dataset(self) -> str:
        return self._stream.dataset

    @property
    def total_rows(self) -> int | None:
        return None if self._cursor is not None and self._cursor.filters else self._stream.total_rows

    @property
    def mark(self) -> str | None:
        """The highest cursor value that was handed out; the mark that was read after when there was no row above it.

        None without a cursor, and when neither exists.
        """
        return self._cursor.value if self._cursor is not None else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, once.

        A second call raises ``DponeError`` DPONE_SOURCE_FAILED, not retryable. The iteration raises
        DPONE_SOURCE_INVALID, DPONE_SOURCE_VALUE_REFUSED or DPONE_SOURCE_FAILED; the source is closed then, and at the
        end.
        """
        if self._state != "open":
            raise DponeError("DPONE_SOURCE_FAILED", "An open source is read only once.", retryable=False)
        self._state = "read"
        return self._read()

    def close(self) -> None:
        """Close files and connections; a query that still runs is cancelled. More than once does no harm."""
        self._state = "closed"
        self._stream.close()

    def _read(self) -> Iterator[pa.RecordBatch]:
        stream, send = self._stream, self._wire.send
        try:
            while self._state == "read":
                batch = send(_READ, stream.read)
                if batch is None:
                    if not stream.more:
                        break
                    send(_OPEN, stream.advance)
                elif (batch := self._above(batch)).num_rows:
                    self.rows += batch.num_rows
                    self.bytes += batch.nbytes
                    yield batch
        finally:
            self.close()

    def _above(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._cursor.take(batch) if self._cursor is not None and batch.num_rows else batch


def open_source(
    spec: SourceSpec,
    endpoint: SourceEndpoint | None,
    *,
    wire: Wire,
    columns: tuple[tuple[str, str], ...] = (),
    after: CursorMark | None = None,
    part: Part | None = None,
) -> OpenSource:
    """Open a source for one reading.

    ``endpoint``: the server of a ClickHouse or SQL source, None for files. ``columns``: the ``(name, ClickHouse type)``
    pairs that the manifest declares; text formats, and values that do not say their type, are read as these. ``after``:
    read only the rows above this mark, and keep the new one. ``part``: read only this partition. Raises ``DponeError``
    DPONE_SOURCE_NOT_FOUND, DPONE_SOURCE_INVALID, DPONE_SOURCE_VALUE_REFUSED (first block of text),
    DPONE_SOURCE_DRIVER_MISSING, DPONE_SERVER_UNREACHABLE, DPONE_SERVER_AUTHENTICATION or DPONE_SOURCE_FAILED, and what
    ``CursorReader`` and ``PartReader`` raise.
    """
    stream = _stream(spec, endpoint, columns, part if part is not None else after)
    declared = dict(columns) if isinstance(spec, FileSource) else {}
    with on_failure(stream.close):
        wire.send(_OPEN, stream.advance)
        cursor: CursorReader | PartReader | None = None
        if after is not None:
            cursor = CursorReader(after, stream.schema, declared)
        elif part is not None and not isinstance(part, FilePart):
            cursor = PartReader(part, stream.schema)
    return OpenSource(stream, wire, cursor)


def _stream(
    spec: SourceSpec,
    endpoint: SourceEndpoint | None,
    columns: tuple[tuple[str, str], ...],
    only: CursorMark | Part | None,
) -> BatchStream:
    if isinstance(spec, FileSource):
        from dpone_provider.sources.file import FileStream

        return FileStream(spec, columns, only.path if isinstance(only, FilePart) else None)
    narrowed: CursorMark | Narrow | None = None if isinstance(only, FilePart) else only
    if isinstance(spec, SqlSource):
        from dpone_provider.sources.sql.open import sql_stream

        return sql_stream(spec, endpoint, columns, narrowed)
    if not isinstance(endpoint, Endpoint):
        raise DponeError("DPONE_CONNECTION_INVALID", "A ClickHouse source needs a ClickHouse connection.")
    from dpone_provider.sources.clickhouse import QueryStream

    return QueryStream(spec, endpoint, narrowed)
