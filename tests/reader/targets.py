"""Real tables for the reader's tests, and requests that name them as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.reader.messages import ReaderRequest, ReplicaAddress
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Effect
from tests.sandbox_fixture import ask

T = TypeVar("T")
_TABLE = (
    "SELECT toString(uuid), engine_full FROM system.tables WHERE database = {database:String} AND name = {table:String}"
)
_COLUMNS = (
    "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String} "
    "ORDER BY position"
)


def address(running: RunningSandbox, name: str = "r1", **changes: Any) -> ReplicaAddress:
    made = ReplicaAddress(
        name=name,
        host=running.host,
        port=running.tcp_port,
        user=running.user,
        password=running.password,
        secure=False,
        verify=True,
        ca=None,
        connect_timeout_ms=5_000,
    )
    return attrs.evolve(made, **changes)


def request_of(
    running: RunningSandbox,
    database: str,
    table: str,
    *,
    rows: bool = True,
    nulls: tuple[str, ...] = (),
    distinct: tuple[str, ...] = (),
    **changes: Any,
) -> ReaderRequest:
    """A request for the table as it is now: generation, engine and columns are read from the server."""
    places = {"database": database, "table": table}
    uuid, engine_full = _asked(running, _TABLE, places)[0]
    made = ReaderRequest(
        nonce="0" * 32,
        budget_ms=20_000,
        max_memory_bytes=2**30,
        database=database,
        table=table,
        generation=uuid,
        engine_full=engine_full,
        columns=tuple(_asked(running, _COLUMNS, places)),
        row_count=rows,
        null_columns=nulls,
        distinct_columns=distinct,
        replicas=(address(running),),
    )
    return attrs.evolve(made, **changes)


def _asked(running: RunningSandbox, sql: str, places: dict[str, str]) -> list[tuple[Any, ...]]:
    """One SELECT with parameters that the server fills in: names may be anything."""
    client = ControlClient(running.endpoint, DirectWire())
    try:
        return client.query(Effect(kind="query", what="a test's statement"), sql, places)
    finally:
        client.close()


class HookedWire(DirectWire):
    """Does something before or after the scan, and keeps the effects' replicas and names in their order."""

    def __init__(self, *, before: Callable[[], Any] = lambda: None, after: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []
        self._before = before
        self._after = after

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        self.seen.append((effect.replica, effect.what))
        scanning = effect.kind == "query"
        if scanning:
            self._before()
        answer = super().send(effect, call)
        if scanning:
            self._after()
        return answer


def told(running: RunningSandbox, *statements: str) -> Callable[[], None]:
    """Something to do later: these statements, on a connection of their own each."""

    def tell() -> None:
        for statement in statements:
            ask(running, statement)

    return tell
