"""The steps of a load in a table of the target's database, where the platform owner has made one (X9)."""

from __future__ import annotations

from typing import Final

import attrs

from dpone_provider.canonical import encode
from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import ColumnState, TableState, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.traces import LoadStep, LoadStepLost
from dpone_provider.wire import Effect, StatementFailed

TABLE: Final = "dpone_load_steps"
_COLUMNS: Final = (
    ("recorded_at", "DateTime64(3, 'UTC')"),
    ("target", "String"),
    ("process", "String"),
    ("run_id", "String"),
    ("load_id", "String"),
    ("number", "UInt32"),
    ("step", "LowCardinality(String)"),
    ("details", "String"),
)
_ENGINE: Final = "MergeTree PARTITION BY toYYYYMM(recorded_at) ORDER BY (target, load_id, number)"


def load_steps_ddl(database: str) -> str:
    """The CREATE TABLE, as the platform owner runs it. Old months can be dropped as partitions."""
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS)
    return f"CREATE TABLE {quote.table(database, TABLE)} ({columns}) ENGINE = {_ENGINE}"


def difference(state: TableState) -> str:
    """What of the table is not as specified, as the end of a sentence; "" when it is exact."""
    engine, _, settings = state.engine_full.partition(" SETTINGS ")  # the server adds its index_granularity
    if engine != _ENGINE or settings.count("=") != settings.count("index_granularity ="):
        return f"does not have exactly the engine clause {_ENGINE}"
    if state.columns != tuple(ColumnState(name=name, type=kind) for name, kind in _COLUMNS):
        return "does not have exactly the specified columns in their order"
    return "has a TTL" if state.has_ttl else ""


def has_load_steps(client: ControlClient, database: str) -> bool:
    """Whether the table is there. One SELECT.

    Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED when it has another shape, or ``StatementFailed``.
    """
    state = table_state(client, database, TABLE)
    if state is not None and (problem := difference(state)):
        raise DponeError("DPONE_LOAD_TABLES_UNSUPPORTED", f"The table {database}.{TABLE} {problem}.")
    return state is not None


@attrs.define(kw_only=True)
class ClickHouseLoadStepLog:
    """``load.ports.LoadStepLog`` of one load, over a control client. ``target``: ``database.table`` of the load."""

    client: ControlClient
    database: str
    target: str
    process: str
    run_id: str
    load_id: str
    _number: int = attrs.field(default=0, init=False)

    def record(self, step: LoadStep) -> None:
        """One INSERT with the server's clock, sent once. Raises ``LoadStepLost``."""
        self._number += 1
        places = {
            "target": self.target,
            "process": self.process,
            "run_id": self.run_id,
            "load_id": self.load_id,
            "number": self._number,
            "step": step.step,
            "details": encode(dict(step.details)),
        }
        values = ", ".join(f"{{{name}:{'UInt32' if name == 'number' else 'String'}}}" for name in places)
        where = f"{quote.table(self.database, TABLE)} (recorded_at, {', '.join(places)})"
        try:
            effect = Effect(kind="load_step", what=f"record the step {step.step}")
            self.client.command(
                effect, f"INSERT INTO {where} SELECT now64(3), {values}", places, settings=pins.AUTHORITY_WRITE
            )
        except StatementFailed as failed:
            raise LoadStepLost(failed.code) from None
