"""The statements that change names of tables, each sent once. The only module in which EXCHANGE stands."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.wire import Effect


class ClickHousePublisher:
    """``replay.ports.Publisher`` for one target over one control client a replica."""

    def __init__(self, clients: Mapping[str, ControlClient], database: str, table: str) -> None:
        self._clients = clients
        self._database = database
        self._target = quote.table(database, table)

    def exchange(self, replica: str, candidate: str) -> None:
        """Swap the names of target and candidate. Raises ``StatementFailed`` (60 when a name is missing)."""
        effect = Effect(kind="exchange", what="publish: exchange with the live table", replica=replica)
        self._clients[replica].command(effect, f"EXCHANGE TABLES {self._target} AND {self._named(candidate)}")

    def publish_first(self, replica: str, candidate: str) -> None:
        """Give the candidate the target's name. Raises ``StatementFailed`` (57 when there is a table by now)."""
        effect = Effect(kind="publish_first", what="publish: the first generation", replica=replica)
        self._clients[replica].command(effect, f"RENAME TABLE {self._named(candidate)} TO {self._target}")

    def rename(self, replica: str, old: str, new: str) -> None:
        """Give a table another name. Raises ``StatementFailed`` (60 when old is missing, 57 when new is there)."""
        effect = Effect(kind="rename", what="rename a table of this operation", replica=replica)
        self._clients[replica].command(effect, f"RENAME TABLE {self._named(old)} TO {self._named(new)}")

    def drop(self, replica: str, name: str) -> None:
        """Drop a table, whatever its size. Its name is free at once; readers keep it, and its disk space goes minutes
        later.

        Without SYNC: that would wait for the longest running reader of the old generation.
        """
        effect = Effect(kind="drop", what="drop a table of this operation", replica=replica)
        self._clients[replica].command(effect, f"DROP TABLE {self._named(name)}", settings=pins.DROP)

    def _named(self, name: str) -> str:
        return quote.table(self._database, name)
