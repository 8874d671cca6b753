"""Parquet and Arrow IPC (file and stream).

Parquet goes through ``ParquetFile`` rather than ``pyarrow.dataset``: a third of its CPU and a quarter of its memory on
3.4 million rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpone_provider.errors import DponeError
from dpone_provider.sources.formats.reader import Reading, bare, damaged, invalid, unopened
from dpone_provider.sources.locate import FileRef
from dpone_provider.sources.options import BATCH_ROWS
from dpone_provider.sources.tail import END_OF_STREAM, TailedStream
from dpone_provider.sources.unpack import DAMAGED, Content, open_content
from dpone_provider.unwinding import on_failure

_BUFFER = 1 << 20
_MAGIC = b"ARROW1"


class ParquetReader:
    """One Parquet file; its footer is read at opening and its rows are counted against it."""

    def __init__(self, file: FileRef, reading: Reading) -> None:
        self._file = file
        self._raw: Any = None
        self._rows = 0
        with on_failure(self.close):
            try:
                self._raw = file.open()
                parquet = pq.ParquetFile(self._raw, memory_map=False, buffer_size=_BUFFER, pre_buffer=False)
                whole = bare(parquet.schema_arrow)
                wanted = _wanted(file, whole, reading)
                self.schema = whole if wanted is None else pa.schema([field for field in whole if field.name in wanted])
                self.total_rows: int | None = parquet.metadata.num_rows
                rows = reading.options.get("batch_rows", BATCH_ROWS)
                columns = None if wanted is None else self.schema.names
                self._batches: Iterator[pa.RecordBatch] = parquet.iter_batches(rows, columns=columns, use_threads=False)
            except (pa.ArrowException, *DAMAGED) as error:
                raise _explained(file, error, "Parquet") from None

    def read(self) -> pa.RecordBatch | None:
        try:
            batch = next(self._batches, None)
        except (pa.ArrowException, *DAMAGED) as error:
            raise _explained(self._file, error, "Parquet") from None
        self._rows += batch.num_rows if batch is not None else 0
        if batch is None and self._rows != self.total_rows:
            raise invalid(self._file, f" holds {self._rows} rows where its footer says {self.total_rows}")
        return batch

    def close(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


class ArrowReader:
    """One Arrow IPC file or stream. A stream must end with its end mark, so that a cut-off one cannot pass."""

    total_rows: int | None = None

    def __init__(self, file: FileRef, reading: Reading) -> None:
        self._file = file
        self._content: Content | None = None
        with on_failure(self.close):
            try:
                self._content = open_content(file)
                self._batches, whole = self._opened(self._content.stream)
                wanted = _wanted(file, bare(whole), reading)
                self.schema = bare(whole)
                self._names = None if wanted is None else [name for name in self.schema.names if name in wanted]
                if self._names is not None:
                    self.schema = pa.schema([self.schema.field(name) for name in self._names])
            except (pa.ArrowException, *DAMAGED) as error:
                raise _explained(file, error, "Arrow IPC") from None
        self._step = reading.options.get("batch_rows", BATCH_ROWS)
        self._rest: pa.RecordBatch | None = None

    def read(self) -> pa.RecordBatch | None:
        if self._rest is None or self._rest.num_rows == 0:
            try:
                self._rest = next(self._batches, None)
            except (pa.ArrowException, *DAMAGED) as error:
                raise _explained(self._file, error, "Arrow IPC") from None
            if self._rest is None:
                return None
            if self._names is not None:
                self._rest = self._rest.select(self._names)
        batch, self._rest = self._rest.slice(0, self._step), self._rest.slice(self._step)
        return batch

    def close(self) -> None:
        content, self._content = self._content, None
        if content is not None:
            content.close()

    def _opened(self, stream: Any) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
        if stream.seekable():
            magic = stream.read(len(_MAGIC))
            stream.seek(0)
            if magic == _MAGIC:
                reader = pa.ipc.open_file(stream)
                return (reader.get_batch(index) for index in range(reader.num_record_batches)), reader.schema
        tailed = TailedStream(stream)
        stream_reader = pa.ipc.open_stream(tailed)
        return self._streamed(stream_reader, tailed), stream_reader.schema

    def _streamed(self, reader: Any, tailed: TailedStream) -> Iterator[pa.RecordBatch]:
        yield from reader
        if not tailed.ended_with(END_OF_STREAM):
            raise damaged(self._file)


def _wanted(file: FileRef, schema: pa.Schema, reading: Reading) -> frozenset[str] | None:
    """The columns to read, None for all."""
    columns = reading.options.get("columns")
    if columns is None:
        return None
    missing = sorted(set(columns) - set(schema.names))
    if missing:
        raise DponeError(
            "DPONE_SOURCE_COLUMN_UNKNOWN",
            f"File {file.name} has no column {', '.join(missing)}.",
            remedy="Correct source.options.columns.",
        )
    return frozenset(columns)


def _explained(file: FileRef, error: BaseException, form: str) -> DponeError:
    if gone := unopened(file, error):
        return gone
    if isinstance(error, pa.ArrowNotImplementedError):
        return invalid(file, f" uses a part of {form} that this version cannot read")
    return invalid(file, f" is not a complete {form} file", "Write or transfer the file again.")
