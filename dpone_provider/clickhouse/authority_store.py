"""The replay authority in a KeeperMap table (protocol 2): admit, read, create, update. No DDL, no retry, no verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import attrs

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row, table_state, text
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.keeper_map import FORGOTTEN, KEEPER_DATA_GONE, ONCE, KeeperMapTable
from dpone_provider.errors import DponeError
from dpone_provider.replay.ports import Expect, Slot, StoredRow
from dpone_provider.wire import Effect, StatementFailed

AUTHORITY = KeeperMapTable(
    name="dpone_replay_authority",
    columns=("target_key", "operation_id", "phase", "owner", "record", "record_sha256"),
)
TABLE, COLUMNS = AUTHORITY.name, AUTHORITY.columns


class ClickHouseReplayQualityStore:
    """``replay.ports.AuthorityStore`` over one control client a replica. Writes go through the first sorted replica.

    Values travel as server-side parameters or native blocks, never in SQL. Every statement is sent once (A2, A4).
    """

    def __init__(self, clients: Mapping[str, ControlClient], database: str) -> None:
        self._clients = dict(sorted(clients.items()))
        self._first = next(iter(self._clients))
        self._database = database
        self._where = quote.table(database, TABLE)

    def admit(self) -> None:
        """Check the table on every replica (A1).

        Raises ``DponeError`` DPONE_REPLAY_AUTHORITY_UNSUPPORTED, or what a read raises.
        """
        engines: dict[str, str] = {}
        for replica, client in self._clients.items():
            state = table_state(client, self._database, TABLE, replica=replica)
            if state is None:
                self._unsupported("is missing, or not visible to this user", replica)
            if problem := AUTHORITY.difference(state):
                self._unsupported(problem, replica)
            engines[replica] = state.engine_full
        for replica, engine in engines.items():
            if engine != engines[self._first]:
                self._unsupported(f"has another Keeper path than on {self._first}", replica)

    def read(self, target_key: str, *, replica: str | None = None) -> Slot:
        """One key with its version and the server's clock, in one SELECT that always answers with one row."""
        name = replica or self._first
        sql = (
            f"SELECT toUnixTimestamp64Milli(now64(3)), groupArray(2)(({', '.join(COLUMNS)}, toInt64(_version))) "
            f"FROM {self._where} WHERE target_key = {{key:String}}"
        )
        effect = Effect(kind="authority_read", what="read the slot", replica=name)
        try:
            answer = self._clients[name].query(effect, sql, {"key": target_key}, settings=pins.READ)
        except StatementFailed as failed:
            if failed.code == KEEPER_DATA_GONE:
                self._unsupported(FORGOTTEN, name)
            raise
        now_ms, found = only_row(answer)
        if type(now_ms) is not int:
            raise StatementFailed(None, "a clock that is no integer")
        rows = tuple((StoredRow(**dict(zip(COLUMNS, map(text, row[:6]), strict=True))), int(row[6])) for row in found)
        return Slot(rows=rows, now_ms=now_ms)

    def create(self, row: StoredRow) -> None:
        """Strict INSERT: fails when the key is there."""
        sql = f"INSERT INTO {self._where} ({', '.join(COLUMNS)}) {ONCE} VALUES"
        effect = Effect(kind="authority_create", what="create the slot", replica=self._first)
        values = tuple(attrs.asdict(row)[name] for name in COLUMNS)
        self._clients[self._first].insert_row(effect, sql, values, settings=pins.AUTHORITY_WRITE)

    def update(self, row: StoredRow, expect: Expect) -> None:
        """Strict CAS of all non-key columns. Zero matching rows is a silent success: read back."""
        changes = ", ".join(f"{name} = {{{name}:String}}" for name in COLUMNS[1:])
        sql = (
            f"ALTER TABLE {self._where} UPDATE {changes} WHERE target_key = {{target_key:String}} "
            "AND _version = {at_version:Int64} AND operation_id = {at_operation:String} AND owner = {at_owner:String} "
            f"AND phase = {{at_phase:String}} {ONCE}"
        )
        places = {
            **attrs.asdict(row),
            "at_version": expect.version,
            "at_operation": expect.operation_id,
            "at_owner": expect.owner,
            "at_phase": expect.phase,
        }
        effect = Effect(kind="authority_cas", what=f"move the slot to {row.phase}", replica=self._first)
        self._clients[self._first].command(effect, sql, places, settings=pins.AUTHORITY_WRITE)

    def _unsupported(self, problem: str, replica: str) -> NoReturn:
        where = f" on replica {replica}" if len(self._clients) > 1 else ""
        raise DponeError(
            "DPONE_REPLAY_AUTHORITY_UNSUPPORTED", f"The authority table {self._database}.{TABLE}{where} {problem}."
        )
