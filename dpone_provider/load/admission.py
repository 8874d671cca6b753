"""Is the target one that this route can publish? Read-only, before the source is touched (architecture, Routes; M7)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from dpone_provider.clickhouse.catalog import TableState, database_engine, row_policies, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.load.refusals import unreadable
from dpone_provider.manifest.spec import TableRef
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.wire import StatementFailed


def admit_target(clients: Mapping[str, ControlClient], target: TableRef, engine: str) -> TableState | None:
    """The live table, as the first replica has it, or None when there is none yet. ``engine``: of a new generation.

    Raises DPONE_TARGET_UNSUPPORTED: the database is not Atomic, the table is something that a new generation would
    not be, or the replicas have different ones.
    """
    found = {name: _admit_replica(name, clients[name], target, engine) for name in clients}
    first, *others = found.values()
    shape = _shape(first)
    if any(_shape(other) != shape for other in others):
        problem = f"{target.database}.{target.name} is not the same table on {', '.join(found)}"
        raise _unsupported(problem, "Make its columns and settings alike on every replica, or drop it on all of them.")
    return first


def _shape(state: TableState | None) -> TableState | None:
    """What must be alike; the UUID may differ, and so may what is said about the table."""
    return attrs.evolve(state, uuid="", comment="") if state is not None else None


def _admit_replica(replica: str, client: ControlClient, target: TableRef, wanted: str) -> TableState | None:
    try:
        engine = database_engine(client, target.database, replica=replica)
        state = table_state(client, target.database, target.name, replica=replica) if engine is not None else None
        policies = row_policies(client, target.database, target.name, replica=replica) if state is not None else 0
    except StatementFailed as failed:
        raise unreadable(failed, "the target") from None
    if engine is None:
        raise _unsupported(f"Database {target.database} does not exist or is not visible", "Create it first, Atomic.")
    if engine != "Atomic":
        raise _unsupported(f"Database {target.database} has engine {engine}, not Atomic", "Use an Atomic database.")
    if state is not None:
        _admit_table(state, f"{target.database}.{target.name}", policies, wanted)
    return state


def admit_live_table(client: ControlClient, target: TableRef) -> TableState:
    """The live table that rows are added to (X4): any of the MergeTree family.

    Raises DPONE_TARGET_UNSUPPORTED: it is not there, or keeps no rows of its own.
    """
    try:
        state = table_state(client, target.database, target.name)
    except StatementFailed as failed:
        raise unreadable(failed, "the target") from None
    name = f"{target.database}.{target.name}"
    if state is None:
        raise _unsupported(f"{name} does not exist or is not visible, and append makes no table", "Create it first.")
    if not state.engine.endswith("MergeTree"):
        raise _unsupported(f"{name} has engine {state.engine}", "Append to a table of the MergeTree family.")
    return state


def require_table(state: TableState | None, target: TableRef) -> TableState:
    """The live table whose partitions are to be replaced. Raises DPONE_TARGET_UNSUPPORTED when there is none."""
    if state is None:
        problem = f"{target.database}.{target.name} does not exist or is not visible: it has no partitions to replace"
        raise _unsupported(problem, "Create it first, partitioned as the source is.")
    return state


def admit_unchanged(client: ControlClient, target: TableRef, state: TableState) -> None:
    """The name still means the table that was admitted, with its columns and views: reading a source takes its time.

    Raises DPONE_TARGET_UNSUPPORTED, which may be retried.
    """
    try:
        now = table_state(client, target.database, target.name)
    except StatementFailed as failed:
        raise unreadable(failed, "the target") from None
    if now is None or _identity(now) != _identity(state):
        problem = f"{target.database}.{target.name} was replaced or altered while the source was read"
        error = _unsupported(problem, "Nothing was sent: load again.")
        error.retryable = True
        raise error


def admit_counted(policy: QualityPolicy, state: TableState, target: TableRef) -> None:
    """Refuse gates that need a count of written rows where the server gives none: it counts those of views as well.

    Raises DPONE_TARGET_UNSUPPORTED; a gate of severity warn warns instead.
    """
    needed = [gate.id for gate in policy.gates if gate.severity == "error" and gate.side != "source"]
    if needed and state.dependents:
        raise _unsupported(
            f"{target.database}.{target.name} feeds materialized views, so the server cannot say how many rows were "
            f"written to it, and these gates need that: {', '.join(needed[:10])}",
            "Give these gates severity warn, or let min_rows count side source.",
        )


def admit_unfiltered(client: ControlClient, target: TableRef) -> None:
    """Refuse a table with row policies, in which nobody could count. Raises DPONE_TARGET_UNSUPPORTED."""
    try:
        policies = row_policies(client, target.database, target.name)
    except StatementFailed as failed:
        raise unreadable(failed, "the target") from None
    if policies:
        problem = f"{target.database}.{target.name} has row policies, so counts are not those of the table"
        raise _unsupported(problem, "Remove the row policies, or set capture.target: false in quality.acceptance.")


def _identity(state: TableState) -> tuple[object, ...]:
    return state.uuid, state.engine, state.columns, state.dependents


def _admit_table(state: TableState, name: str, policies: int, engine: str) -> None:
    expressions = [column.name for column in state.columns if column.default_kind]
    checks = (
        (
            state.engine != engine,
            f"{name} has engine {state.engine}, not plain {engine}",
            f"Use a plain {engine}.",
        ),
        (state.has_ttl, f"{name} has a TTL, which changes data by itself", "Remove the TTL."),
        (
            bool(expressions),
            f"{name} has columns with expressions, which a new generation would lose: {', '.join(expressions[:5])}",
            "Remove DEFAULT, MATERIALIZED and ALIAS from the table.",
        ),
        (
            bool(state.dependents),
            f"{name} feeds materialized views, which would not see a new generation: {', '.join(state.dependents[:5])}",
            "Make them refreshable views, or drop them and fill their tables after the load.",
        ),
        (policies > 0, f"{name} has row policies, so counts are not those of the table", "Remove the row policies."),
    )
    for wrong, problem, remedy in checks:
        if wrong:
            raise _unsupported(problem, remedy)


def _unsupported(problem: str, remedy: str) -> DponeError:
    return DponeError("DPONE_TARGET_UNSUPPORTED", f"{problem}.", remedy=remedy, target_commit="not_started")
