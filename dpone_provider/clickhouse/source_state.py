"""The marks of sources in a KeeperMap table: read, and advanced by one compare-and-swap that is read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row, table_state, text
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.keeper_map import FORGOTTEN, KEEPER_DATA_GONE, ONCE, KeeperMapTable
from dpone_provider.errors import Boundary, DponeError
from dpone_provider.traces import SourceState
from dpone_provider.wire import Effect, StatementFailed

MARKS = KeeperMapTable(name="dpone_source_state", columns=("source_key", "value", "load_id", "write_id"))
MAX_TEXT: Final = 4096
"""Most UTF-8 bytes of a column."""
_WRITE_ID = re.compile(r"[0-9a-f]{32}")


class ClickHouseSourceStateStore:
    """``load.ports.SourceStateStore`` in one database, over one control client. ``new_id`` gives fresh 32-hex ids.

    Values travel as server-side parameters or native blocks, never in SQL. Every statement is sent once.
    """

    def __init__(self, client: ControlClient, database: str, *, new_id: Callable[[], str]) -> None:
        self._client = client
        self._database = database
        self._where = quote.table(database, MARKS.name)
        self._new_id = new_id

    def admit(self) -> None:
        """Check the table. Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED, or ``StatementFailed``."""
        state = table_state(self._client, self._database, MARKS.name)
        problem = MARKS.difference(state) if state is not None else "is missing, or not visible to this user"
        if problem:
            self._unsupported(problem)

    def read(self, key: str) -> SourceState | None:
        """The mark under a key, None when no load has left one.

        Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED or DPONE_SOURCE_STATE_UNCERTAIN, ``StatementFailed`` for no
        clean answer.
        """
        sql = (
            f"SELECT groupArray(2)(({', '.join(MARKS.columns)}, toInt64(_version))) FROM {self._where} "
            "WHERE source_key = {key:String}"
        )
        effect = Effect(kind="query", what="read the source's mark")
        try:
            found = only_row(self._client.query(effect, sql, {"key": key}, settings=pins.READ))[0]
        except StatementFailed as failed:
            if failed.code == KEEPER_DATA_GONE:
                self._unsupported(FORGOTTEN)
            raise
        return _state(key, found)

    def advance(self, key: str, expected: SourceState | None, value: str, load_id: str) -> SourceState:
        """Move the mark to ``value`` if it is still ``expected``; None: if there is none yet.

        Whatever the server says of the write, reading back decides. Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN
        unless our write is the row. Its ``context`` has ``source_key``, and ``source_state``: "conflict" (another load
        advanced, ours is nowhere to be seen), "unknown" (ours is not there and may yet arrive, or nothing could be
        read) or "refused" (nothing was sent).
        """
        if len(value.encode("utf-8", "replace")) > MAX_TEXT:
            raise _uncertain(key, "refused", "The new mark is too long to be kept; nothing was sent.")
        ours = (key, value, load_id, self._new_id())
        refused = self._send(ours, expected)
        try:
            found = self.read(key)
        except (StatementFailed, DponeError):
            raise _uncertain(key, "unknown", f"The new mark was sent{refused} and could not be read back.") from None
        if found is not None and (found.key, found.value, found.load_id, found.write_id) == ours:
            return found
        if found is not None and (expected is None or found.version > expected.version):
            raise _uncertain(key, "conflict", "Another load moved the mark of this source while this one ran.")
        raise _uncertain(key, "unknown", f"The new mark was sent{refused} and is not what stands there now.")

    def _send(self, row: tuple[str, ...], expected: SourceState | None) -> str:
        """One write; what the server said against it, for people."""
        effect = Effect(kind="source_state", what="advance the source's mark")
        try:
            if expected is None:
                sql = f"INSERT INTO {self._where} ({', '.join(MARKS.columns)}) {ONCE} VALUES"
                self._client.insert_row(effect, sql, row, settings=pins.AUTHORITY_WRITE)
            else:
                self._client.command(effect, self._update(), _places(row, expected), settings=pins.AUTHORITY_WRITE)
        except StatementFailed as failed:
            return f" (server error {failed.code})" if failed.code is not None else " (no answer)"
        except DponeError:
            return " (no connection)"
        return ""

    def _update(self) -> str:
        changes = ", ".join(f"{name} = {{{name}:String}}" for name in MARKS.columns[1:])
        return (
            f"ALTER TABLE {self._where} UPDATE {changes} WHERE source_key = {{source_key:String}} "
            f"AND _version = {{at_version:Int64}} AND write_id = {{at_write_id:String}} {ONCE}"
        )

    def _unsupported(self, problem: str) -> NoReturn:
        raise DponeError("DPONE_LOAD_TABLES_UNSUPPORTED", f"The table {self._database}.{MARKS.name} {problem}.")


def _places(row: tuple[str, ...], expected: SourceState) -> dict[str, Any]:
    named = dict(zip(MARKS.columns, row, strict=True))
    return {**named, "at_version": expected.version, "at_write_id": expected.write_id}


def _state(key: str, rows: list[tuple[Any, ...]]) -> SourceState | None:
    if not rows:
        return None
    columns = [text(value) for value in rows[0][:4]]
    if len(rows) != 1 or columns[0] != key or not _WRITE_ID.fullmatch(columns[3]):
        raise _uncertain(key, "invalid", "The mark of this source is not one that a load has written.", "admission")
    _, value, load_id, write_id = columns
    return SourceState(key=key, value=value, load_id=load_id, version=int(rows[0][4]), write_id=write_id)


def _uncertain(key: str, verdict: str, message: str, boundary: Boundary = "post_commit") -> DponeError:
    context = {"source_state": verdict, "source_key": key}
    return DponeError("DPONE_SOURCE_STATE_UNCERTAIN", message, boundary=boundary, context=context)
