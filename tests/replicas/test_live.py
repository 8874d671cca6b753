"""A load of a real cluster with real data replication, for those who have one. UNVERIFIED by this project's own runs.

Set ``DPONE_RUN_CLICKHOUSE_TARGET_READER=1`` and

* ``DPONE_LIVE_CONNECTION``: the connection of one of its servers, as ``AIRFLOW_CONN_<ID>`` holds it (URI or JSON),
  with ``replica_addresses`` in its extra where this machine cannot dial what the cluster advertises;
* ``DPONE_LIVE_CLUSTER``: its name in ``system.clusters``.

A database of a fresh name is created on every replica, with its authority, and dropped afterwards.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.provision import apply
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.runtime.compose import reached
from dpone_provider.runtime.connections import StaticConnections
from dpone_provider.runtime.run import run_load
from dpone_provider.wire import DirectWire, Effect

SWITCH, CONNECTION, CLUSTER = "DPONE_RUN_CLICKHOUSE_TARGET_READER", "DPONE_LIVE_CONNECTION", "DPONE_LIVE_CLUSTER"
EFFECT = Effect(kind="query", what="a test's statement")


@pytest.mark.skipif(os.environ.get(SWITCH) != "1", reason="UNVERIFIED: needs a cluster with data replication")
def test_a_real_cluster_takes_loads_and_their_replays(tmp_path: Path) -> None:
    connections = StaticConnections(environ={"AIRFLOW_CONN_LIVE": os.environ[CONNECTION]})
    cluster, database = os.environ[CLUSTER], f"dpone_live_{secrets.token_hex(6)}"
    endpoint = attrs.evolve(connections.endpoint("live"), authority_database=None)
    with reached(endpoint, cluster, DirectWire()) as (_, _, clients):
        try:
            apply(clients, database, create_database=True)
            load(connections, cluster, database, tmp_path, clients)
        finally:
            for client in clients.values():
                client.command(EFFECT, f"DROP DATABASE IF EXISTS {database} SYNC")


def load(
    connections: StaticConnections, cluster: str, database: str, folder: Path, clients: dict[str, ControlClient]
) -> None:
    """Two loads and a replay, each seen on every replica."""
    spec = spec_from_values(
        name="live",
        source={"type": "file", "format": "csv", "path": "source.csv"},
        sink={
            "type": "clickhouse",
            "connection_ref": "live",
            "cluster": cluster,
            "table": {"schema": database, "name": "t"},
            "strategy": {"max_source_bytes": 1_000_000},
            "options": {"durable_quality_replay": True},
        },
        quality={
            "acceptance": {
                "enabled": True,
                "mode": "required",
                "capture": {"source": True, "staged": True, "target": True},
                "checks": {"row_count": True},
            }
        },
        base=str(folder),
    )
    for run_id, rows, replayed in (("1", 3, False), ("2", 5, False), ("2", 5, True)):
        (folder / "source.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(rows)), "utf-8")
        outcome = run_load(spec, RunIdentity(dag_id="live", run_id=run_id, task_id="live"), connections)
        assert outcome.replayed is replayed
        for client in clients.values():
            assert client.query(EFFECT, f"SELECT count() FROM {database}.t") == [(rows,)]
