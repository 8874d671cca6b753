"""A PostgreSQL connection through psycopg: what a query's columns are, and its rows by a server-side cursor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.sources.sql.endpoint import PostgresEndpoint
from dpone_provider.sources.sql.postgres_types import (
    AS_TEXT,
    BYTES,
    DAYS,
    MICROSECONDS,
    Kind,
    known_kind,
    list_of,
)
from dpone_provider.sources.sql.refusals import broke_off, missing_driver, refused, unreachable, value_refused

OWN: Final = {"client_encoding": "UTF8", "application_name": "dpone"}
_KINDS: Final = """SELECT t.oid::int8, format_type(t.oid, NULL), t.typtype = 'e', coalesce(e.typtype = 'e', false)
FROM pg_catalog.pg_type AS t LEFT JOIN pg_catalog.pg_type AS e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.oid = ANY (%s)"""
_SIGN_IN: Final = ("authentication failed", "pg_hba.conf", 'role "', "no password")
_AFTER_SIGN_IN: Final = ("slots are reserved", "too many", "starting up", "shutting down", "recovery", "not accepting")


@attrs.frozen(kw_only=True)
class Column:
    """A column of the query: its name, its type's number and how it is read."""

    name: str
    oid: int
    kind: Kind


class PostgresRows:
    """One connection in one read-only transaction, REPEATABLE READ."""

    def __init__(self, endpoint: PostgresEndpoint) -> None:
        try:
            import psycopg
            from psycopg.types.numeric import Int4BinaryLoader, Int8BinaryLoader
            from psycopg.types.string import ByteaBinaryLoader
        except ImportError:
            raise missing_driver("psycopg") from None
        self._psycopg = psycopg
        self._cursor: Any = None
        try:
            made = psycopg.connect(**endpoint.parameters, **OWN)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise _no_connection(error) from None
        self._connection = made
        made.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        made.read_only = True
        for oids, loader in ((DAYS, Int4BinaryLoader), (MICROSECONDS, Int8BinaryLoader), (BYTES, ByteaBinaryLoader)):
            for oid in oids:
                made.adapters.register_loader(oid, loader)

    @property
    def encoding(self) -> str:
        """The encoding of the server's database."""
        return self._connection.info.parameter_status("server_encoding") or ""

    def describe(self, query: str) -> list[Column]:
        """The columns of a query. Raises ``DponeError``; nothing is read."""
        try:
            # Binary results need the extended protocol, which takes one statement only.
            cursor = self._connection.execute(f"SELECT * FROM ({query}\n) AS q LIMIT 0".encode(), binary=True)
            result = cursor.pgresult
            found = [
                ((result.fname(place) or b"").decode(), result.ftype(place), result.fmod(place))
                for place in range(result.nfields if result is not None else 0)
                if result is not None
            ]
            if not found:
                raise DponeError("DPONE_SOURCE_INVALID", "The source's query has no columns.")
            return self._columns(found)
        except self._psycopg.Error as error:
            raise refused(error.sqlstate) from None

    def start(self, query: str, setting: tuple[str, str] | None) -> None:
        """Declare the cursor. ``setting``: name and value of a setting of the transaction, which the query reads."""
        try:
            if setting is not None:
                self._connection.execute("SELECT set_config(%s, %s, true)", setting)
            self._cursor = self._connection.cursor("dpone", binary=True, scrollable=False)
            self._cursor.execute(query.encode())
        except self._psycopg.Error as error:
            raise refused(error.sqlstate) from None

    def fetch(self, rows: int) -> Sequence[tuple[Any, ...]]:
        """The next rows, as psycopg loads them."""
        try:
            return self._cursor.fetchmany(rows)  # type: ignore[no-any-return]
        except self._psycopg.Error as error:
            raise broke_off(error.sqlstate) from None

    def close(self) -> None:
        """Cancel what still runs; closing rolls back."""
        with suppress(self._psycopg.Error):
            if self._connection.info.transaction_status == self._psycopg.pq.TransactionStatus.ACTIVE:
                self._connection.cancel_safe(timeout=5.0)
            if self._cursor is not None:
                self._cursor.close()
        self._connection.close()

    def _columns(self, found: Sequence[tuple[str, int, int]]) -> list[Column]:
        kinds = [known_kind(oid, modifier) for _, oid, modifier in found]
        strangers = sorted({oid for (_, oid, _), kind in zip(found, kinds, strict=True) if kind is None})
        rows = self._connection.execute(_KINDS, [strangers]).fetchall() if strangers else []
        enums = {oid: (str(name), _as_text(one, many)) for oid, name, one, many in rows}
        columns = []
        for (name, oid, _), kind in zip(found, kinds, strict=True):
            word, other = ("", kind) if kind is not None else enums.get(oid, ("unknown", None))
            if other is None:
                raise value_refused(name, f"its PostgreSQL type {word} is not read")
            columns.append(Column(name=name, oid=oid, kind=other))
        return columns


def _as_text(enum: bool, array_of_enum: bool) -> Kind | None:
    return AS_TEXT if enum else list_of(AS_TEXT) if array_of_enum else None


def raw_arrays(rows: Sequence[tuple[Any, ...]], columns: Sequence[Column]) -> list[pa.Array]:
    """Rows as psycopg loads them, column by column, in each kind's ``raw`` type."""
    arrays = []
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        try:
            arrays.append(pa.array(values, column.kind.raw))
        except (pa.ArrowException, TypeError):
            raise value_refused(column.name, "an array of more than one dimension") from None
    return arrays


def _no_connection(error: Any) -> DponeError:
    """libpq has no SQLSTATE for a failed connection. A server's own answer has two spaces behind its severity."""
    text, state = str(error), error.pgconn
    answered = ":  " in text
    if answered and "does not exist" in text and 'database "' in text:
        return refused("3D000")
    asked = state is not None and (state.needs_password or (state.used_password and answered))
    later = any(word in text for word in _AFTER_SIGN_IN)
    if not later and (asked or (answered and any(word in text for word in _SIGN_IN))):
        return DponeError("DPONE_SERVER_AUTHENTICATION")
    return unreachable()
