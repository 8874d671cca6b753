"""Everything that would refuse a load, asked before the first one (O5). Reads only; no slot is claimed, nothing made.

The questions are those of a load's own admission, asked one by one, so that one refusal does not hide the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Final, Literal

import attrs

from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
from dpone_provider.clickhouse.catalog import only_row
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.load.admission import admit_live_table, admit_target, require_table
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.load.refusals import unreadable
from dpone_provider.load.spreading import admit_macros
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.compose import Composition, Surroundings, compose
from dpone_provider.runtime.connections import Connections
from dpone_provider.wire import Effect, StatementFailed

State = Literal["good", "refused", "not asked"]
RESENDS_BELOW: Final = (1, 12)
"""Releases of clickhouse-connect before this one send a statement again after the server closed the connection."""
Look = Callable[[], str]


@attrs.frozen(kw_only=True)
class Finding:
    """One question. ``found``: what there is, or why it refuses; ``code``, ``remedy``: of a refusal."""

    question: str
    state: State
    found: str
    code: str = ""
    remedy: str = ""


def examine(
    spec: LoadSpec, identity: RunIdentity, connections: Connections, around: Surroundings | None = None
) -> tuple[Finding, ...]:
    """Ask everything that can be asked. Raises nothing of what it finds."""
    found = [_asked("drivers of this interpreter", _drivers)]
    try:
        with compose(spec, identity, connections, around or Surroundings()) as made:
            if made.inventory is not None:
                found.append(_asked("cluster", partial(_cluster, made)))
            dialled = [_asked(name, look) for name, look in _ports(made)]
            reachable = all(finding.state == "good" for finding in dialled)
            found += dialled
            found += [_asked(name, look) if reachable else _unasked(name) for name, look in _questions(made)]
            found += [_asked("child processes", partial(_children, made))] if made.observes else []
    except DponeError as error:
        found.append(_refused("connection and cluster", error))
    return tuple(found)


def _asked(question: str, look: Look) -> Finding:
    try:
        return Finding(question=question, state="good", found=look())
    except DponeError as error:
        return _refused(question, error)
    except StatementFailed as failed:
        return _refused(question, unreadable(failed, question))


def _refused(question: str, error: DponeError) -> Finding:
    return Finding(question=question, state="refused", found=error.message, code=error.code, remedy=error.next_step)


def _unasked(question: str) -> Finding:
    return Finding(question=question, state="not asked", found="a server does not answer")


def _drivers() -> str:
    found = {name: version(name) for name in ("clickhouse-driver", "clickhouse-connect")}
    connect = found["clickhouse-connect"]
    if tuple(int(part) for part in connect.split(".")[:2]) < RESENDS_BELOW:
        raise DponeError(
            "DPONE_ROUTE_UNSUPPORTED",
            f"clickhouse-connect {connect} may send a statement twice.",
            remedy=f"Install {'.'.join(map(str, RESENDS_BELOW))} or later.",
        )
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _cluster(made: Composition) -> str:
    """Told of a cluster that was admitted on the way here."""
    admit_macros(tuple(made.clients.items()))
    return f"one shard with internal replication: {', '.join(made.replicas)}"


def _ports(made: Composition) -> Iterator[tuple[str, Look]]:
    several = made.inventory is not None
    for name, client in made.clients.items():
        yield f"native port{f' of {name}' if several else ''}", partial(_version, client, name)
    yield "HTTP port of the connection", partial(_http, made)


def _version(client: ControlClient, replica: str) -> str:
    effect = Effect(kind="query", what="version of the server", replica=replica)
    where = f"{client.endpoint.host}:{client.endpoint.native_port}"
    return f"ClickHouse {only_row(client.query(effect, 'SELECT version()'))[0]} at {where}"


def _http(made: Composition) -> str:
    from dpone_provider.clickhouse.http import Pool, open_client, pooled

    where = made.sink.connector
    with pooled(where, Pool) as pool:
        open_client(where, pool)
    return f"answers at {where.host}:{where.http_port}"


def _questions(made: Composition) -> Iterator[tuple[str, Look]]:
    sink = made.spec.sink
    yield "database and live table", partial(_target, made)
    if sink.durable_quality_replay:
        store = ClickHouseReplayQualityStore(made.clients, made.authority_database)
        yield "authority", partial(_authority, made, store)
        for name in made.replicas:
            yield f"Keeper{f' through {name}' if made.inventory is not None else ''}", partial(_slot, made, store, name)
    if made.observes:
        yield "settings of the target reader", partial(_settings, made)


def _target(made: Composition) -> str:
    table = made.spec.sink.table
    if made.spec.sink.strategy.mode == "append":
        return f"{admit_live_table(made.control, table).engine}"
    state = admit_target(made.clients, table, made.engine)
    if made.spec.sink.strategy.mode == "partition_replace":
        require_table(state, table)
    return f"plain {state.engine}" if state is not None else "no table yet: the first load makes it"


def _authority(made: Composition, store: ClickHouseReplayQualityStore) -> str:
    store.admit()
    return f"{made.authority_database}.dpone_replay_authority is as specified"


def _slot(made: Composition, store: ClickHouseReplayQualityStore, replica: str) -> str:
    held = store.read(made.operation.target.key, replica=replica).rows
    return "answers; the slot is empty" if not held else "answers; the slot holds an operation: see dpone status"


def _settings(made: Composition) -> str:
    from dpone_provider.reader.admission import admit_reader_settings

    for client in made.clients.values():
        admit_reader_settings(client)
    return "can be pinned"


def _children(made: Composition) -> str:
    reader = made.reader()
    if reader is not None:
        reader.ready()
    return "one was started, killed and reaped"
