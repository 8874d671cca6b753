"""KeeperMap tables: their exact shape, and the settings under which their strict writes are sent once (A1, A2, A4)."""

from __future__ import annotations

import re
from typing import Final

import attrs

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.catalog import TableState

KEEPER_DATA_GONE: Final = 668
"""The server's error when a table is there and its path in Keeper is not."""
FORGOTTEN: Final = (
    "has lost its data in Keeper: restore that, or drop and provision the table knowing what is lost with it"
)
ONCE: Final = "SETTINGS keeper_map_strict_mode=1, insert_keeper_max_retries=0, keeper_max_retries=0"
"""Of a write: fails instead of overwriting, and the server does not repeat it. An INSERT has it before VALUES."""
_ENGINE = re.compile(r"KeeperMap\('(/(?:[^'\\]|\\.)*)'\) PRIMARY KEY (\w+)", re.DOTALL)


@attrs.frozen(kw_only=True)
class KeeperMapTable:
    """A table of text columns, the first of which is the key."""

    name: str
    columns: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.columns[0]

    def ddl(self, database: str, path: str) -> str:
        """The CREATE TABLE, as the platform owner runs it.

        ``path``: literal, starts with ``/``, no macros; raises ``ValueError`` otherwise.
        """
        if not path.startswith("/") or "{" in path or "}" in path:
            raise ValueError("the path must be literal and start with /")
        columns = ", ".join(f"{name} String" for name in self.columns)
        where = quote.table(database, self.name)
        return f"CREATE TABLE {where} ({columns}) ENGINE = KeeperMap({quote.string(path)}) PRIMARY KEY {self.key}"

    def difference(self, state: TableState) -> str:
        """What of the table is not as specified, as the end of a sentence; "" when it is exact (A1)."""
        if state.engine != "KeeperMap":
            return f"has the engine {state.engine}, not KeeperMap"
        found = _ENGINE.fullmatch(state.engine_full)
        if found is None or found[2] != self.key:
            return f"has an engine clause that is not exactly KeeperMap('<literal path>') PRIMARY KEY {self.key}"
        if "{" in found[1] or "}" in found[1]:
            return "has a Keeper path with macros, not a literal one"
        if tuple(column.name for column in state.columns) != self.columns:
            return f"does not have exactly the columns {', '.join(self.columns)} in this order"
        for column in state.columns:
            if column.type != "String":
                return f"has column {column.name} of type {column.type}, not String"
            if column.default_kind:
                return f"has a {column.default_kind} expression on column {column.name}"
        return "has a TTL" if state.has_ttl else ""
