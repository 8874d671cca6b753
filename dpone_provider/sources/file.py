"""Files of one format, one after another in sorted order, with the same columns."""

from __future__ import annotations

import pyarrow as pa

from dpone_provider.canonical import text_digest
from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import FileSource
from dpone_provider.sources.formats.reader import FileReader, Reading, invalid
from dpone_provider.sources.locate import FileRef, locate, locate_one
from dpone_provider.sources.options import checked_options


class FileStream:
    """The files of a ``FileSource``, or ``one`` of them. Declared ``columns`` give the types of CSV and JSON text."""

    schema: pa.Schema
    total_rows: int | None = None

    def __init__(self, spec: FileSource, columns: tuple[tuple[str, str], ...], one: str | None = None) -> None:
        self.dataset = f"source_file:{text_digest(spec.path)}"
        self._spec = spec
        self._one = one
        self._reading = Reading(options=checked_options(spec.format, spec.options), declared=_declared(columns))
        self._files: list[FileRef] | None = None
        self._file: FileRef | None = None
        self._reader: FileReader | None = None
        self._order: list[str] | None = None

    @property
    def more(self) -> bool:
        return self._files is None or bool(self._files)

    def advance(self) -> None:
        if self._files is None:
            path, base = self._spec.path, self._spec.base
            self._files = locate(path, base) if self._one is None else [locate_one(path, base, self._one)]
            self._count()
        self._close_reader()
        self._file = self._files.pop(0)
        self._reader = _reader(self._spec.format, self._file, self._reading)
        if self._reading.fixed is None:
            self.schema = self._reader.schema
            self._reading = Reading(
                options=self._reading.options, declared=self._reading.declared, fixed=self._reader.schema
            )
        else:
            self._require_same(self._file, self._reader.schema)

    def read(self) -> pa.RecordBatch | None:
        batch = self._reader.read() if self._reader is not None else None
        if batch is None or self._order is None:
            return batch
        return batch.select(self._order)

    def close(self) -> None:
        self._files = []
        self._close_reader()

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _count(self) -> None:
        """Rows of all Parquet files by their footers; a file with other columns is found before anything is read."""
        if self._spec.format != "parquet" or self._files is None:
            return
        total = 0
        first: pa.Schema | None = None
        for file in self._files:
            reader = _reader("parquet", file, self._reading)
            reader.close()
            total += reader.total_rows or 0
            first = first or reader.schema
            _require_same(file, reader.schema, first)
        self.total_rows = total

    def _require_same(self, file: FileRef, schema: pa.Schema) -> None:
        _require_same(file, schema, self.schema)
        self._order = None if schema.names == self.schema.names else self.schema.names


def _require_same(file: FileRef, schema: pa.Schema, first: pa.Schema) -> None:
    """The same columns of the same types, in any order."""
    theirs, ours = {field.name: field.type for field in schema}, {field.name: field.type for field in first}
    wrong = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    if wrong:
        listed = ", ".join(wrong[:10]) + (" …" if len(wrong) > 10 else "")
        raise invalid(
            file,
            f" has other columns or types than the first file: {listed}",
            "Read files of one kind, or declare the columns' types in sink.columns.",
        )


def _reader(form: str, file: FileRef, reading: Reading) -> FileReader:
    match form:
        case "csv":
            from dpone_provider.sources.formats.csv import CsvReader

            return CsvReader(file, reading)
        case "jsonl":
            from dpone_provider.sources.formats.jsonl import JsonReader

            return JsonReader(file, reading)
        case "parquet":
            from dpone_provider.sources.formats.columnar import ParquetReader

            return ParquetReader(file, reading)
        case _:
            from dpone_provider.sources.formats.columnar import ArrowReader

            return ArrowReader(file, reading)


def _declared(columns: tuple[tuple[str, str], ...]) -> dict[str, ChType]:
    declared: dict[str, ChType] = {}
    for name, text in columns:
        try:
            declared[name] = parse_type(text)
        except UnknownType as problem:
            raise DponeError("DPONE_COLUMN_TYPE_UNSUPPORTED", f"Column {name}: its type {problem}.") from None
    return declared
