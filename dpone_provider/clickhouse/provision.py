"""What the platform owner runs once: the authority table, as text and applied (A7). The runtime never calls this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NoReturn

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.authority_store import (
    TABLE,
    ClickHouseReplayQualityStore,
    authority_ddl,
    difference,
)
from dpone_provider.clickhouse.catalog import database_engine, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed

Provisioned = Literal["created", "already provisioned"]


def default_path(database: str) -> str:
    """The Keeper path of a database's authority."""
    return f"/dpone/{database}"


def provision_statements(database: str, *, path: str = "", create_database: bool = False) -> tuple[str, ...]:
    """The statements, in order, for one replica. Raises ``ValueError`` when the path is not literal."""
    table = authority_ddl(database, path or default_path(database))
    if not create_database:
        return (table,)
    return (f"CREATE DATABASE {quote.identifier(database)} ENGINE = Atomic", table)


def apply(
    clients: Mapping[str, ControlClient], database: str, *, path: str = "", create_database: bool = False
) -> dict[str, Provisioned]:
    """Create the authority on every replica where it is missing; touch nothing that is there.

    Raises ``DponeError`` DPONE_REPLAY_AUTHORITY_UNSUPPORTED when a table is there that is not exactly this one,
    DPONE_TARGET_UNSUPPORTED when the database is missing or not Atomic, DPONE_SERVER_REFUSED for a server error.
    """
    return {
        name: _apply_one(client, name, database, path or default_path(database), create_database)
        for name, client in sorted(clients.items())
    }


def _apply_one(client: ControlClient, replica: str, database: str, path: str, create_database: bool) -> Provisioned:
    try:
        engine = database_engine(client, database, replica=replica)
        if engine is None and create_database:
            _create(client, replica, provision_statements(database, path=path, create_database=True)[0])
        elif engine != "Atomic":
            _database_unsupported(database, engine)
        if _is_there(client, replica, database, path):
            return "already provisioned"
        _create(client, replica, provision_statements(database, path=path)[0])
    except StatementFailed as failed:
        reason = f"error {failed.code}" if failed.code is not None else "no answer"
        message = f"The server answered with {reason} while the authority was provisioned."
        raise DponeError("DPONE_SERVER_REFUSED", message, retryable=failed.code is None) from None
    if not _is_there(client, replica, database, path):
        raise DponeError("DPONE_SERVER_REFUSED", "The server acknowledged the authority table and does not show it.")
    return "created"


def _create(client: ControlClient, replica: str, statement: str) -> None:
    effect = Effect(kind="create_table", what="provision the authority", replica=replica)
    client.command(effect, statement, settings=pins.DEFINE)


def _is_there(client: ControlClient, replica: str, database: str, path: str) -> bool:
    state = table_state(client, database, TABLE, replica=replica)
    if state is None:
        return False
    problem = difference(state)
    if not problem and not authority_ddl(database, path).endswith(f"ENGINE = {state.engine_full}"):
        problem = "has another Keeper path than the one to provision"
    if not problem:  # a table whose data in Keeper is gone is still listed
        ClickHouseReplayQualityStore({replica: client}, database).read("")
    if problem:
        raise DponeError(
            "DPONE_REPLAY_AUTHORITY_UNSUPPORTED",
            f"The table {database}.{TABLE} is there and {problem}.",
            remedy="Nothing was changed. Find out who made this table before you move it away.",
        )
    return True


def _database_unsupported(database: str, engine: str | None) -> NoReturn:
    problem = "does not exist" if engine is None else f"has the engine {engine}, not Atomic"
    remedy = "Create it first, or let `dpone provision` create it." if engine is None else "Choose an Atomic database."
    raise DponeError("DPONE_TARGET_UNSUPPORTED", f"The database {database} {problem}.", remedy=remedy)
