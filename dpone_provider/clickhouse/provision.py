"""What the platform owner runs once: tables as text, and created where they are missing (A7). No runtime calls this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NoReturn

import attrs

from dpone_provider.clickhouse import load_steps, pins, quote
from dpone_provider.clickhouse.authority_store import AUTHORITY, ClickHouseReplayQualityStore
from dpone_provider.clickhouse.catalog import TableState, database_engine, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.keeper_map import KeeperMapTable
from dpone_provider.clickhouse.source_state import MARKS, ClickHouseSourceStateStore
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed

Provisioned = Literal["created", "already provisioned"]


@attrs.frozen(kw_only=True)
class Wanted:
    """A table to provision. ``difference``: what another one is not; ``read``: fails when Keeper has lost its data."""

    name: str
    ddl: str
    unsupported: str
    difference: Callable[[TableState], str]
    read: Callable[[ControlClient], object] = lambda client: None


def default_path(database: str) -> str:
    """The Keeper path of a database's authority."""
    return f"/dpone/{database}"


def marks_path(database: str) -> str:
    """The Keeper path of a database's source state."""
    return f"/dpone_source_state/{database}"


def authority(database: str, path: str = "", attestation: str = "") -> Wanted:
    """The authority. Raises ``ValueError`` when the path is not literal.

    ``attestation``: who says that all replicas share one Keeper; the comment of a new table, of no effect.
    """

    def read(client: ControlClient) -> object:
        return ClickHouseReplayQualityStore({"": client}, database).read("")

    made = _kept(AUTHORITY, database, path or default_path(database), "DPONE_REPLAY_AUTHORITY_UNSUPPORTED", read)
    return attrs.evolve(made, ddl=f"{made.ddl} COMMENT {quote.string(attestation)}") if attestation else made


def load_tables(database: str, path: str = "") -> tuple[Wanted, ...]:
    """The tables of load steps and of source state. Raises ``ValueError`` when the path is not literal."""

    def read(client: ControlClient) -> object:
        return ClickHouseSourceStateStore(client, database, new_id=str).read("")

    code = "DPONE_LOAD_TABLES_UNSUPPORTED"
    steps = Wanted(
        name=load_steps.TABLE,
        ddl=load_steps.load_steps_ddl(database),
        unsupported=code,
        difference=load_steps.difference,
    )
    return (steps, _kept(MARKS, database, path or marks_path(database), code, read))


def _kept(
    table: KeeperMapTable, database: str, path: str, code: str, read: Callable[[ControlClient], object]
) -> Wanted:
    ddl = table.ddl(database, path)

    def difference(state: TableState) -> str:
        problem = table.difference(state)
        if not problem and not ddl.endswith(f"ENGINE = {state.engine_full}"):
            return "has another Keeper path than the one to provision"
        return problem

    return Wanted(name=table.name, ddl=ddl, unsupported=code, difference=difference, read=read)


def database_ddl(database: str) -> str:
    """The CREATE DATABASE, Atomic."""
    return f"CREATE DATABASE {quote.identifier(database)} ENGINE = Atomic"


def apply(
    clients: Mapping[str, ControlClient], database: str, *, path: str = "", create_database: bool = False
) -> dict[str, Provisioned]:
    """Create the authority on every replica where it is missing; touch nothing that is there.

    Raises ``DponeError`` DPONE_REPLAY_AUTHORITY_UNSUPPORTED when a table is there that is not exactly this one,
    DPONE_TARGET_UNSUPPORTED when the database is missing or not Atomic, DPONE_SERVER_REFUSED for a server error.
    """
    wanted = authority(database, path)
    return {
        name: provision(client, database, (wanted,), replica=name, create_database=create_database)[wanted.name]
        for name, client in sorted(clients.items())
    }


def provision(
    client: ControlClient,
    database: str,
    tables: tuple[Wanted, ...],
    *,
    replica: str = "",
    create_database: bool = False,
) -> dict[str, Provisioned]:
    """Create on one server what is missing, by table name; raises as ``apply`` does, with the codes of the tables.

    All are compared before the first is created.
    """
    try:
        engine = database_engine(client, database, replica=replica)
        if engine is None and create_database:
            _create(client, replica, database_ddl(database))
        elif engine != "Atomic":
            _database_unsupported(database, engine)
        missing = [wanted for wanted in tables if not _is_there(client, replica, database, wanted)]
        for wanted in missing:
            _create(client, replica, wanted.ddl)
        unseen = [wanted.name for wanted in missing if not _is_there(client, replica, database, wanted)]
    except StatementFailed as failed:
        reason = f"error {failed.code}" if failed.code is not None else "no answer"
        message = f"The server answered with {reason} while the tables were provisioned."
        raise DponeError("DPONE_SERVER_REFUSED", message, retryable=failed.code is None) from None
    if unseen:
        message = f"The server acknowledged {', '.join(unseen)} and does not show it."
        raise DponeError("DPONE_SERVER_REFUSED", message)
    return {wanted.name: "created" if wanted in missing else "already provisioned" for wanted in tables}


def _create(client: ControlClient, replica: str, statement: str) -> None:
    effect = Effect(kind="create_table", what="provision a table", replica=replica)
    client.command(effect, statement, settings=pins.DEFINE)


def _is_there(client: ControlClient, replica: str, database: str, wanted: Wanted) -> bool:
    state = table_state(client, database, wanted.name, replica=replica)
    if state is None:
        return False
    problem = wanted.difference(state)
    if problem:
        raise DponeError(
            wanted.unsupported,
            f"The table {database}.{wanted.name} is there and {problem}.",
            remedy="Nothing was changed. Find out who made this table before you move it away.",
        )
    wanted.read(client)  # a table whose data in Keeper is gone is still listed
    return True


def _database_unsupported(database: str, engine: str | None) -> NoReturn:
    problem = "does not exist" if engine is None else f"has the engine {engine}, not Atomic"
    remedy = "Create it first, or let `dpone provision` create it." if engine is None else "Choose an Atomic database."
    raise DponeError("DPONE_TARGET_UNSUPPORTED", f"The database {database} {problem}.", remedy=remedy)
