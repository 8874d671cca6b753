"""One generation on every replica: its rows are written once, replication brings them to the others (protocol 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from dpone_provider.clickhouse.catalog import table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.replica import Health, health, replica_macro
from dpone_provider.clickhouse.staging import REPLICATED, staged_count
from dpone_provider.errors import DponeError
from dpone_provider.load.refusals import staging_failed, unreadable
from dpone_provider.wire import StatementFailed

if TYPE_CHECKING:
    from dpone_provider.load.reading import StagingRoom
    from dpone_provider.replay.ports import StagingOrder

_POLL_SECONDS = 0.25


def _by_the_servers(database: str, table: str) -> None:
    return None


@attrs.frozen(kw_only=True)
class Replication:
    """How the rows of a generation get from the server that took them to the others, and how long that may take.

    ``engine``: of the generation and of the live table. ``spread`` is told once the rows are written; the servers do
    the work. Tests replace both where no data replication is to be had. ``within``: seconds.
    """

    engine: str = REPLICATED
    spread: Callable[[str, str], None] = _by_the_servers
    within: float = 600.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def admit_macros(clients: Sequence[tuple[str, ControlClient]]) -> None:
    """Refuse replicas that call themselves alike: their names lead to one server, or nothing could replicate.

    Raises ``DponeError`` DPONE_TARGET_UNSUPPORTED.
    """
    said: dict[str, str] = {}
    for replica, client in clients:
        try:
            macro = replica_macro(client, replica=replica)
        except StatementFailed as failed:
            if failed.code is None:
                raise unreadable(failed, "a replica") from None
            macro = ""
        if not macro or macro in said:
            problem = f"has the macro of {said[macro]}" if macro else "has no macro"
            raise DponeError(
                "DPONE_TARGET_UNSUPPORTED",
                f"Replica {replica} {problem} `replica`.",
                remedy="Give every server a `replica` macro of its own, and let no two names lead to one server.",
                target_commit="not_started",
            )
        said[macro] = replica


def require_everywhere(room: StagingRoom, order: StagingOrder, rows: int) -> None:
    """Wait until every replica has the generation's rows, is healthy, and shows the same table.

    Raises ``DponeError`` DPONE_STAGING_FAILED or DPONE_STAGED_COUNT_MISMATCH when one does not within the budget.
    """
    replication, database = room.replication, room.spec.sink.table.database
    if replication is None:
        return
    room.notify("replicate", {"replicas": len(room.clients)})
    deadline = replication.clock() + replication.within
    try:
        replication.spread(database, order.name)
        for replica in room.clients:
            while (lack := _lacking(room, order, replica, rows)) is not None:
                if replication.clock() >= deadline:
                    raise lack
                order.keep_alive()
                replication.pause(_POLL_SECONDS)
    except StatementFailed as failed:
        raise staging_failed(failed, "The replicas could not be looked at") from failed


def _lacking(room: StagingRoom, order: StagingOrder, replica: str, rows: int) -> DponeError | None:
    """What a replica still lacks, as the error that it becomes if that stays so."""
    client, database = room.clients[replica], room.spec.sink.table.database
    state = table_state(client, database, order.name, replica=replica)
    first = table_state(room.control, database, order.name, replica=room.replicas[0])
    if state is None or state != first or state.uuid != order.uuid:
        raise DponeError("DPONE_STAGING_FAILED", f"Replica {replica} shows another table than the one that was made.")
    if state.engine == REPLICATED:
        found = health(client, database, order.name, replica=replica)
        if problem := _ailing(found, expected=len(room.clients)):
            return DponeError("DPONE_STAGING_FAILED", f"Replica {replica} {problem}.")
    held = staged_count(client, database, order.name, replica=replica)
    if held != rows:
        message = f"{rows} rows were sent, replica {replica} holds {held}."
        return DponeError("DPONE_STAGED_COUNT_MISMATCH", message)
    return None


def _ailing(found: Health | None, *, expected: int) -> str:
    if found is None:
        return "does not replicate the generation"
    if found.readonly:
        return "is read-only"
    if found.queue:
        return f"has {found.queue} entries in its replication queue"
    if not found.active == found.total == expected:
        return f"sees {found.active} active of {found.total} replicas where the cluster has {expected}"
    return ""
