"""A table or query of any database that an Airflow DB-API hook connects to, by ``fetchmany``.

The driver is one that nobody here knows: whatever it raises becomes one of our errors, and its text is not repeated.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.native.partition import OneOf
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow
from dpone_provider.sources.sql.endpoint import HookEndpoint
from dpone_provider.sources.sql.naming import dataset_of, query_of, quoted
from dpone_provider.sources.sql.refusals import broke_off, refused, unreachable
from dpone_provider.sources.sql.rows import Row, Rows

_STATES: Final[Mapping[int, str]] = {1044: "28000", 1045: "28000", 1049: "3D000", 1146: "42P01", 1054: "42703"}
"""MySQL's error numbers, which say more than its SQLSTATEs."""
_PLACEHOLDERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_STREAMING: Final = {"MySQLdb": "SSCursor", "pymysql": "SSCursor"}
"""Drivers whose plain cursor fetches the whole result at once, and the cursor that does not."""
_DIGITS: Final = 76


class HookStream:
    """The rows of one query."""

    schema: pa.Schema
    total_rows: int | None = None

    def __init__(
        self,
        spec: SqlSource,
        endpoint: HookEndpoint,
        columns: Sequence[tuple[str, str]],
        after: CursorMark | Narrow | None,
    ) -> None:
        self.dataset = dataset_of(spec)
        self._spec = spec
        self._endpoint = endpoint
        self._declared = dict(columns)
        self._after = after
        self._opened = False
        self._connection: Any = None
        self._cursor: Any = None
        self._first: Sequence[Row] = ()

    @property
    def more(self) -> bool:
        return not self._opened

    def advance(self) -> None:
        """Connect, start the query and look at its first rows."""
        self._opened = True
        with _driver("connect"):
            self._connection = self._endpoint.hook().get_conn()
        with _driver("execute"):
            driver = type(self._connection).__module__.partition(".")[0]
            self._cursor = _cursor(self._connection, driver)
            self._cursor.execute(*_statement(self._spec, self._after, driver, self._endpoint.quote))
            described = self._cursor.description or ()
            self._first = self._fetched()
        names = [str(column[0]) for column in described]
        self._rows = Rows(names, self._first, self._declared, digits=_digits(described))
        self.schema = self._rows.schema
        self._require_ordered()

    def read(self) -> pa.RecordBatch | None:
        rows, self._first = self._first, ()
        if not rows:
            with _driver("fetch"):
                rows = self._fetched()
        return self._rows.batch(rows) if rows else None

    def close(self) -> None:
        """Roll back and let go; a driver that cannot is left to the garbage collector."""
        connection, self._connection, self._cursor = self._connection, None, None
        for call in ("rollback", "close"):
            try:
                with _driver("fetch"):
                    getattr(connection, call, lambda: None)()
            except DponeError:
                continue

    def _require_ordered(self) -> None:
        """Decimals that are read as their text have another order than numbers: "100" stands below "99"."""
        cursor = self._after.column if isinstance(self._after, CursorMark) else None
        for column in self._rows.columns:
            if column.name == cursor and Decimal in column.kinds and pa.types.is_string(column.type):
                problem = f"Column {column.name} has decimals without known digits, so it cannot be a cursor."
                remedy = "Make it Decimal(p, s) in the target, or CAST it to an integer in source.query."
                raise DponeError("DPONE_SOURCE_INVALID", problem, remedy=remedy, context={"column": column.name})

    def _fetched(self) -> list[Row]:
        return [tuple(row) for row in self._cursor.fetchmany(self._spec.batch_rows)]


def _cursor(connection: Any, driver: str) -> Any:
    if driver in _STREAMING:
        return connection.cursor(getattr(importlib.import_module(f"{driver}.cursors"), _STREAMING[driver]))
    return connection.cursor()


def _statement(spec: SqlSource, after: CursorMark | Narrow | None, driver: str, quote: str) -> tuple[Any, ...]:
    """What to execute: with a mark of numbers or dates, only rows that are not surely below it; NULLs are let through.

    Text and moments have an order, or a time zone, that only the database knows: of them everything is read.
    """
    query = query_of(spec, quote)
    place = _PLACEHOLDERS.get(getattr(sys.modules.get(driver), "paramstyle", ""))
    if after is not None and not isinstance(after, CursorMark):
        return _within(query, after, place, quote)
    bound = after.bound if after is not None else None
    if after is None or place is None or type(bound) not in (int, Decimal, date):
        return (query,)
    column = f"q.{quoted(after.column, quote)}"
    parts = (f"SELECT * FROM ({query}\n) q WHERE {column} > ", f" OR {column} IS NULL")
    return _joined(parts, place), (bound,)


def _within(query: str, part: Narrow, place: str | None, quote: str) -> tuple[Any, ...]:
    """The rows of one partition; what the database compares in its own way, ``PartReader`` notices."""
    if place is None:
        problem = "The driver of the source takes no parameters in a way that is known."
        raise DponeError("DPONE_PARTITIONS", problem, remedy="Remove source.partitions.")
    column = f"q.{quoted(part.column, quote)}"
    ends = [("=", part.typed)] if isinstance(part, OneOf) else list(zip((">=", "<"), part.values, strict=True))
    ends = [(sign, end) for sign, end in ends if end is not None]
    parts = [f"{' AND ' if number else ''}{column} {sign} " for number, (sign, _) in enumerate(ends)]
    parts[0] = f"SELECT * FROM ({query}\n) q WHERE {parts[0]}"
    return _joined([*parts, ""], place), tuple(end for _, end in ends)


def _joined(parts: Sequence[str], place: str) -> str:
    return place.join(part.replace("%", "%%") if place == "%s" else part for part in parts)


def _digits(described: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """Precision and scale by column, where the driver tells a pair that a decimal can have."""
    found = {}
    for column in described:
        pair = tuple(column[4:6])
        if len(pair) == 2 and all(type(number) is int for number in pair) and 0 <= pair[1] <= pair[0] <= _DIGITS:
            found[str(column[0])] = (max(pair[0], 1), pair[1])
    return found


@contextmanager
def _driver(when: str) -> Iterator[None]:
    try:
        yield
    except DponeError:
        raise
    except Exception as error:  # noqa: BLE001 - an edge: which errors the driver has is not known
        state = _state(error)
        if isinstance(error, ImportError):
            raise DponeError(
                "DPONE_SOURCE_DRIVER_MISSING", remedy="Install the driver that the hook asks for."
            ) from None
        if when == "connect":
            raise (refused(state) if state is not None and state[:2] in ("28", "3D") else unreachable()) from None
        if when == "fetch":
            raise broke_off(state) from None
        wrong = {"ProgrammingError", "DataError", "NotSupportedError"} & {kind.__name__ for kind in type(error).__mro__}
        raise refused(state or ("42000" if wrong else None)) from None


def _state(error: Exception) -> str | None:
    """The SQLSTATE that a driver tells: as an attribute, or as its first argument (ODBC); MySQL's numbers."""
    first = error.args[0] if error.args else None
    if type(first) is int and first in _STATES:
        return _STATES[first]
    for value in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None), first):
        if isinstance(value, str) and re.fullmatch(r"[0-9A-Z]{5}", value):
            return value
    return None
