"""What a server's catalog says: the facts of a publication, and the state of a table that admission looks at.

Read-only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.replay.ports import CatalogFacts, NamedTable
from dpone_provider.wire import Effect, StatementFailed

_FACTS = """
SELECT groupArray((name, toString(uuid), comment)) FROM system.tables
WHERE database = {database:String} AND (name = {table:String} OR startsWith(name, {prefix:String}))"""

_STATE = """
SELECT engine, engine_full, toString(uuid), comment, create_table_query,
  arrayMap((d, t) -> concat(d, '.', t), dependencies_database, dependencies_table),
  (SELECT groupArray((position, name, type, default_kind)) FROM system.columns
   WHERE database = {database:String} AND table = {table:String})
FROM system.tables WHERE database = {database:String} AND name = {table:String}"""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`", re.DOTALL)
_TTL = re.compile(r"\bTTL\b(?!\s*[),])")


@attrs.frozen(kw_only=True)
class ColumnState:
    """A column as the server prints it. ``default_kind``: "", DEFAULT, MATERIALIZED, ALIAS or EPHEMERAL."""

    name: str
    type: str
    default_kind: str = ""


@attrs.frozen(kw_only=True)
class TableState:
    """A table as its server prints it.

    ``has_ttl``: on the table or on a column. ``dependents``: ``db.view`` that it feeds.
    """

    engine: str
    engine_full: str
    uuid: str
    comment: str
    columns: tuple[ColumnState, ...]
    has_ttl: bool
    dependents: tuple[str, ...]


class ClickHouseCatalog:
    """``replay.ports.Catalog`` for one target.

    One SELECT on ``system.tables``, names decided in one snapshot (P3, B5).
    """

    def __init__(self, clients: Mapping[str, ControlClient], database: str, table: str) -> None:
        self._clients = clients
        self._database = database
        self._table = table

    def facts(self, replica: str, private_prefix: str) -> CatalogFacts:
        effect = Effect(kind="catalog_read", what="facts of the target", replica=replica)
        places = {"database": self._database, "table": self._table, "prefix": private_prefix}
        found = only_row(self._clients[replica].query(effect, _FACTS, places, settings=pins.READ))[0]
        named = {text(name): NamedTable(name=text(name), uuid=uuid, comment=text(note)) for name, uuid, note in found}
        live = named.get(self._table)
        private = sorted(name for name in named if name.startswith(private_prefix) and name != self._table)
        return CatalogFacts(live=live, private=tuple(named[name] for name in private))


def table_state(client: ControlClient, database: str, table: str, *, replica: str = "") -> TableState | None:
    """One table, or None when the user sees none of that name. One SELECT.

    Raises ``StatementFailed`` for a table whose definition the server cannot read: it prints an empty text then.
    """
    effect = Effect(kind="catalog_read", what="state of a table", replica=replica)
    rows = client.query(effect, _STATE, {"database": database, "table": table}, settings=pins.READ)
    if not rows:
        return None
    engine, engine_full, uuid, comment, create, dependents, columns = only_row(rows)
    if not create:
        raise StatementFailed(None, "a table without a definition")
    return TableState(
        engine=engine,
        engine_full=text(engine_full),
        uuid=uuid,
        comment=text(comment),
        columns=tuple(
            ColumnState(name=text(name), type=text(kind), default_kind=default)
            for _, name, kind, default in sorted(columns)
        ),
        has_ttl=mentions_ttl(text(create)),
        dependents=tuple(sorted(text(name) for name in dependents)),
    )


def mentions_ttl(create_table_query: str) -> bool:
    """Whether a table or a column of it has a TTL. The text as the server prints it, names in backticks."""
    return bool(_TTL.search(_QUOTED.sub("", create_table_query)))


def database_engine(client: ControlClient, database: str, *, replica: str = "") -> str | None:
    """The engine of a database, or None when the user sees none of that name."""
    effect = Effect(kind="catalog_read", what="engine of a database", replica=replica)
    rows = client.query(
        effect, "SELECT engine FROM system.databases WHERE name = {name:String}", {"name": database}, settings=pins.READ
    )
    return str(only_row(rows)[0]) if rows else None


def row_policies(client: ControlClient, database: str, table: str, *, replica: str = "") -> int:
    """How many row policies apply to a table, those of its whole database included."""
    effect = Effect(kind="catalog_read", what="row policies of a table", replica=replica)
    sql = (
        "SELECT count() FROM system.row_policies "
        "WHERE database = {database:String} AND table IN ({table:String}, '', '*')"
    )
    return int(only_row(client.query(effect, sql, {"database": database, "table": table}, settings=pins.READ))[0])


def only_row(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The one row of an answer that must have one. Raises ``StatementFailed`` otherwise: no row is never a zero."""
    if len(rows) != 1:
        raise StatementFailed(None, f"{len(rows)} rows instead of one")
    return rows[0]


def text(value: Any) -> str:
    """A String of the server; the driver gives bytes for what is not UTF-8, which no canonical text matches."""
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "backslashreplace")
