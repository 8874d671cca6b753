"""A SQLite file through Python's own driver, in one read-only transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote

from dpone_provider.errors import DponeError
from dpone_provider.native.partition import OneOf
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow, column_unknown
from dpone_provider.sources.sql.refusals import value_refused
from dpone_provider.sources.sql.watched import Watched

T = TypeVar("T")
Value = tuple[int | str, ...]
_MISSING: Final = {"no such table": "table", "no such column": "column", "no such function": "function"}
_PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM}
)
_UNSOUND: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})


def file_uri(path: str) -> str:
    """A file to be read only; it is never created."""
    return f"file:{quote(path)}?mode=ro"


class SqliteRows:
    """One connection; all its calls run in one thread, which an interrupt reaches."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: list[str] = []
        self._connection: sqlite3.Connection | None = None
        self._cursor: Any = None
        self._watched = Watched(self._interrupt)

    def start(self, query: str, after: CursorMark | Narrow | None) -> list[str]:
        """Run a query; its columns' names. Raises ``DponeError``."""
        return self._run(lambda: self._started(query, after))

    def query(self, chosen: str) -> tuple[str, Value]:
        """The query that was started, with another choice out of its columns c0, c1, …, and its parameters."""
        places = ", ".join(f"c{place}" for place in range(len(self._names)))
        return f"WITH q({places}) AS ({self._query}\n) SELECT {chosen} FROM q{self._condition}", self._value

    def fetch(self, size: int) -> Sequence[tuple[object, ...]]:
        """The next rows."""
        return self._run(lambda: self._cursor.fetchmany(size))

    def close(self) -> None:
        """End what runs, and let go; closing rolls back. More than once does no harm."""
        if self._connection is not None:
            self._interrupt()
            self._watched.end(self._let_go)

    def _started(self, query: str, after: CursorMark | Narrow | None) -> list[str]:
        self._connection = sqlite3.connect(file_uri(self._path), uri=True, isolation_level=None)
        self._connection.execute("PRAGMA query_only = 1")
        self._connection.execute("BEGIN")
        described = self._connection.execute(f"SELECT * FROM ({query}\n) LIMIT 0").description
        self._query, self._names = query, [str(column[0]) for column in described]
        (encoding,) = self._connection.execute("PRAGMA encoding").fetchone()
        if after is None or isinstance(after, CursorMark):
            self._condition, self._value = _after(self._names, after, utf8=encoding == "UTF-8")
        else:
            self._condition, self._value = _within(self._names, after)
        self._cursor = self._connection.execute(*self.query("*"))
        return self._names

    def _let_go(self) -> None:
        """A cursor that is still open would keep the transaction, and with it the writers' lock, past the closing."""
        for part in (self._cursor, self._connection):
            if part is not None:
                with suppress(sqlite3.Error):
                    part.close()
        self._cursor = self._connection = None

    def _interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.interrupt()

    def _run(self, call: Callable[[], T]) -> T:
        try:
            return self._watched.run(call)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _failed(error, self._names) from None


def _after(names: Sequence[str], after: CursorMark | None, *, utf8: bool) -> tuple[str, Value]:
    """A condition that leaves out rows only when they surely were read before, and its value.

    NULLs, and values of another kind than the mark's, are let through, so that they are seen and refused. SQLite sorts
    numbers before all text; what cannot be a number stays text in every comparison.
    """
    parts = after.parts if after is not None and names.count(after.column) == 1 else None
    if after is None or parts is None:
        return "", ()
    (family, text), name = parts, f"c{names.index(after.column)}"
    value: int | str
    if family == "number" and "." not in text and abs(int(text)) < 2**63:
        value, other = int(text), ">= ''"
    elif family == "text" and utf8:
        value, other = text, "< ''"
    else:
        return "", ()
    return f" WHERE {name} COLLATE BINARY > ? OR {name} {other} OR {name} IS NULL", (value,)


def _within(names: Sequence[str], part: Narrow) -> tuple[str, Value]:
    """The rows of one partition; dates are texts here, and numbers plain, as large as they are."""
    if names.count(part.column) != 1:
        raise column_unknown(part.column)
    name = f"c{names.index(part.column)} COLLATE BINARY"
    ends = (("=", part.value),) if isinstance(part, OneOf) else ((">=", part.low), ("<", part.high))
    found = [(sign, end) for sign, end in ends if end is not None]
    if part.kind == "integer":
        return f" WHERE {' AND '.join(f'{name} {sign} {end}' for sign, end in found)}", ()
    return f" WHERE {' AND '.join(f'{name} {sign} ?' for sign, _ in found)}", tuple(end for _, end in found)


def _failed(error: Exception, names: Sequence[str]) -> DponeError:
    code, text = getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error)
    missing = next((word for phrase, word in _MISSING.items() if text.startswith(phrase)), None)
    if missing is not None:
        return DponeError("DPONE_SOURCE_NOT_FOUND", f"The source's query needs a {missing} that is missing.")
    if code == sqlite3.SQLITE_CANTOPEN:
        return DponeError("DPONE_SOURCE_NOT_FOUND", "The SQLite file of the connection cannot be opened.")
    if code in _UNSOUND:
        return DponeError("DPONE_SOURCE_INVALID", "The file of the connection is no sound SQLite database.")
    if code in _PASSING:
        return DponeError("DPONE_SOURCE_FAILED", f"The SQLite file cannot be read now (SQLite error {code}).")
    found = re.match(r"Could not decode to UTF-8 column 'c(\d+)'", text)
    if found:
        return value_refused(names[int(found[1])], "text that is not UTF-8")
    problem = f"The source's query is not one SELECT that can be read (SQLite error {code})."
    return DponeError("DPONE_SOURCE_INVALID", problem)
