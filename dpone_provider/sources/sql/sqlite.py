"""A table or query of a SQLite file as record batches; the file is opened read-only.

SQLite gives every value a type of its own. The first rows decide a column's; they are read through Python. Where there
is more and the ADBC driver is installed, it reads all of it, with a guard in the query that finds the first column
whose value is of another type: ADBC alone would turn numbers into text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow
from dpone_provider.sources.sql.adbc import AdbcBatches
from dpone_provider.sources.sql.endpoint import SqliteEndpoint
from dpone_provider.sources.sql.naming import dataset_of, query_of
from dpone_provider.sources.sql.refusals import ONE_TYPE, broke_off, value_refused
from dpone_provider.sources.sql.rows import EXACT, Column, Row, Rows
from dpone_provider.sources.sql.sqlite_rows import SqliteRows, file_uri

_NAMES: Final[Mapping[type, str]] = {int: "integer", float: "real", str: "text", bytes: "blob"}
_ADBC: Final = (pa.int64(), pa.float64(), pa.string(), pa.binary())


class SqliteStream:
    """The rows of one query."""

    schema: pa.Schema
    total_rows: int | None = None

    def __init__(
        self,
        spec: SqlSource,
        endpoint: SqliteEndpoint,
        columns: Sequence[tuple[str, str]],
        after: CursorMark | Narrow | None,
    ) -> None:
        self.dataset = dataset_of(spec)
        self._query = query_of(spec)
        self._size = spec.batch_rows
        self._endpoint = endpoint
        self._declared = dict(columns)
        self._after = after
        self._opened = False
        self._cursor = SqliteRows(endpoint.path)
        self._first: Sequence[Row] = ()
        self._adbc: AdbcBatches | None = None

    @property
    def more(self) -> bool:
        return not self._opened

    def advance(self) -> None:
        """Start the query and look at its first rows."""
        self._opened = True
        names = self._cursor.start(self._query, self._after)
        self._first = self._cursor.fetch(self._size)
        self._rows = Rows(names, self._first, self._declared, only=frozenset(_NAMES))
        self.schema = self._rows.schema
        if len(self._first) == self._size and self._fast():
            self._first = ()
            self._start_adbc()

    def read(self) -> pa.RecordBatch | None:
        if self._adbc is not None:
            batch = self._adbc.read()
            return self._guarded(batch) if batch is not None else None
        rows, self._first = self._first or self._cursor.fetch(self._size), ()
        return self._rows.batch(rows) if rows else None

    def close(self) -> None:
        self._cursor.close()
        if self._adbc is not None:
            self._adbc.close()

    def _fast(self) -> bool:
        """Whether ADBC is there, and reads columns of these types; of NULLs alone it would make numbers."""
        told = all(any(value is not None for value in values) for values in zip(*self._first, strict=True))
        if not (self._endpoint.adbc and told) or any(column.type not in _ADBC for column in self._rows.columns):
            return False
        try:
            from adbc_driver_sqlite import dbapi
        except ImportError:
            return False
        return dbapi is not None

    def _start_adbc(self) -> None:
        from adbc_driver_sqlite import dbapi

        self._cursor.close()
        chosen = [f"CAST(c{place} AS REAL)" if _mixed(column) else f"c{place}" for place, column in self._numbered()]
        guards = " ".join(f"WHEN {_strange(place, column)} THEN {place + 1}" for place, column in self._numbered())
        query, value = self._cursor.query(f"{', '.join(chosen)}, CASE {guards} ELSE 0 END")
        path = file_uri(self._endpoint.path)
        self._adbc = AdbcBatches(lambda: dbapi.connect(path), self._failed, batch_rows=self._size)
        options = {"adbc.sqlite.query.batch_rows": str(self._size)}
        found = self._adbc.start(query, value, options=options)
        if found.types != [*self.schema.types, pa.int64()]:
            raise DponeError("DPONE_SOURCE_FAILED", "The source's columns changed while it was opened.")

    def _numbered(self) -> list[tuple[int, Column]]:
        return list(enumerate(self._rows.columns))

    def _guarded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        *arrays, guard = batch.columns
        wrong = next((number for number in guard.unique().to_pylist() if number), 0)
        if wrong:
            raise self._strange(wrong - 1)
        for column, array in zip(self._rows.columns, arrays, strict=True):
            if pa.types.is_string(array.type):
                try:
                    array.validate(full=True)
                except pa.ArrowInvalid:
                    raise value_refused(column.name, "text that is not UTF-8") from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _strange(self, place: int) -> DponeError:
        name = self._rows.columns[place].name
        return value_refused(name, "its values are of more than one type", ONE_TYPE)

    def _failed(self, error: BaseException) -> DponeError:
        """ADBC itself stops at a value that does not fit the first rows, and says which column's."""
        found = re.search(r"Type mismatch in column (\d+)", str(error))
        if found and int(found[1]) < len(self._rows.columns):
            return self._strange(int(found[1]))
        return broke_off(None)


def _mixed(column: Column) -> bool:
    return {int, float} <= column.kinds


def _strange(place: int, column: Column) -> str:
    """SQL that is true for a value that the column's array would not hold as it is."""
    allowed = ", ".join(sorted(f"'{_NAMES[kind]}'" for kind in column.kinds & _NAMES.keys() if not _mixed(column)))
    if not _mixed(column):
        return f"typeof(c{place}) NOT IN ({allowed}, 'null')"
    whole = f"typeof(c{place}) = 'integer' AND c{place} BETWEEN {-EXACT} AND {EXACT}"
    return f"NOT (typeof(c{place}) IN ('real', 'null') OR ({whole}))"
