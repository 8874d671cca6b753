"""A table or query of PostgreSQL as record batches, of exact types and in bounded memory.

The query runs once, in one read-only transaction: through ADBC (binary COPY straight into Arrow) where that driver is
installed and reads every column exactly, else through a server-side cursor. Both give the same batches.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow
from dpone_provider.sources.sql.adbc import AdbcBatches, Values
from dpone_provider.sources.sql.endpoint import PostgresEndpoint
from dpone_provider.sources.sql.naming import dataset_of, query_of
from dpone_provider.sources.sql.postgres_mark import MARK, after_mark
from dpone_provider.sources.sql.postgres_rows import OWN, Column, PostgresRows, raw_arrays
from dpone_provider.sources.sql.refusals import broke_off, refused, value_refused
from dpone_provider.sources.values.rule import Misfit

_READ_ONLY: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class PostgresStream:
    """The rows of one query."""

    schema: pa.Schema
    total_rows: int | None = None

    def __init__(self, spec: SqlSource, endpoint: PostgresEndpoint, after: CursorMark | Narrow | None) -> None:
        self.dataset = dataset_of(spec)
        self._query = query_of(spec)
        self._rows = spec.batch_rows
        self._endpoint = endpoint
        self._after = after
        self._opened = False
        self._cursor: PostgresRows | None = None
        self._adbc: AdbcBatches | None = None

    @property
    def more(self) -> bool:
        return not self._opened

    def advance(self) -> None:
        """Ask for the columns, then start the query."""
        self._opened = True
        self._cursor = PostgresRows(self._endpoint)
        self._columns = self._cursor.describe(self._query)
        self.schema = pa.schema([pa.field(column.name, column.kind.type) for column in self._columns])
        condition, mark = after_mark(self._columns, self._after, utf8=self._cursor.encoding == "UTF8")
        places = [f"c{place}" for place in range(len(self._columns))]
        casts = [f"::{column.kind.cast}" if column.kind.cast else "" for column in self._columns]
        chosen = ", ".join(f"q.{place}{cast}" for place, cast in zip(places, casts, strict=True))
        query = f"SELECT {chosen} FROM ({self._query}\n) AS q({', '.join(places)}){condition}"
        if self._fast():
            self._cursor.close()
            self._start_adbc(query, mark)
        else:
            self._cursor.start(query, (MARK, mark) if mark is not None else None)

    def read(self) -> pa.RecordBatch | None:
        if self._adbc is not None:
            batch = self._adbc.read()
            if batch is None:
                return None
            arrays = [_from_wire(*pair) for pair in zip(self._columns, batch.columns, strict=True)]
        else:
            rows = self._cursor.fetch(self._rows) if self._cursor is not None else ()
            if not rows:
                return None
            raw = raw_arrays(rows, self._columns)
            arrays = [_checked(column, array, from_raw=True) for column, array in zip(self._columns, raw, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def close(self) -> None:
        for part in (self._cursor, self._adbc):
            if part is not None:
                part.close()

    def _fast(self) -> bool:
        """Whether ADBC is there and reads every column exactly."""
        if not self._endpoint.adbc or any(column.kind.wire is None for column in self._columns):
            return False
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            return False
        return dbapi is not None

    def _start_adbc(self, query: str, mark: str | None) -> None:
        from adbc_driver_postgresql import dbapi
        from psycopg.conninfo import make_conninfo

        conninfo = make_conninfo(**self._endpoint.parameters, **OWN)
        self._adbc = AdbcBatches(lambda: dbapi.connect(conninfo), self._failed, batch_rows=self._rows)
        before: list[tuple[str, Values]] = [(_READ_ONLY, ())]
        if mark is not None:
            before.append((f"SELECT set_config('{MARK}', $1, true)", (mark,)))
        found = self._adbc.start(query, before=before)
        if found.types != [column.kind.wire for column in self._columns]:
            raise DponeError("DPONE_SOURCE_FAILED", "The source's columns changed while it was opened.")

    def _failed(self, error: BaseException) -> DponeError:
        """A state comes with what refuses a statement; what breaks off in between has none."""
        state: Any = getattr(error, "sqlstate", None)
        return refused(state) if state else broke_off(None)


def _from_wire(column: Column, array: pa.Array) -> pa.Array:
    return _checked(column, array, from_raw=array.type != column.kind.type)


def _checked(column: Column, array: pa.Array, *, from_raw: bool) -> pa.Array:
    try:
        found = column.kind.finish(array) if from_raw else array
        column.kind.check(found)
    except Misfit as misfit:
        raise value_refused(column.name, misfit.problem) from None
    return found
