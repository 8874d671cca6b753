"""A source of type sql in a real Airflow: connections resolved inside the task, secrets in no log (F2, F6)."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.home import Home
from tests.loads import Bench
from tests.postgres_fixture import PASSWORD, Postgres
from tests.sandbox_fixture import ask

RESOLVE = """
import json, sqlite3, sys
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.providers.common.compat.sdk import Connection
from dpone_provider.errors import DponeError
from dpone_provider.hooks.clickhouse import AirflowConnections
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.open import open_source
from dpone_provider.wire import DirectWire

class FileHook(DbApiHook):
    conn_name_attr = "conn_id"
    def get_conn(self):
        return sqlite3.connect(self.get_connection(self.get_conn_id()).host)

inside = Connection.get_hook
Connection.get_hook = lambda self, **options: (
    FileHook(conn_id=self.conn_id) if self.conn_type == "filedb" else inside(self, **options)
)

def told(ref, query="SELECT 1 AS x"):
    try:
        endpoint = AirflowConnections({"named": "erp"}).sql_endpoint(ref)
        with open_source(SqlSource(connection_ref=ref, query=query), endpoint, wire=DirectWire()) as source:
            return [repr(endpoint).partition("(")[0], [row for batch in source.batches() for row in batch.to_pylist()]]
    except DponeError as error:
        return [error.code, f"{error.message} {error.next_step}"]

out({ref: told(ref) for ref in ("erp", "named", "wrong", "missing", "lite", "filedb", "mail", "unheard")})
"""


@pytest.mark.contract("F6")
def test_a_connection_is_resolved_by_its_type(
    postgres: Postgres, airflow_home: Home, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    path = tmp_path / "x.db"
    path.touch()
    environ = {
        "AIRFLOW_CONN_ERP": postgres.uri,
        "AIRFLOW_CONN_WRONG": postgres.uri.replace("p%40ss", "wr0ng-canary"),
        "AIRFLOW_CONN_LITE": json.dumps({"conn_type": "sqlite", "host": str(path)}),
        "AIRFLOW_CONN_FILEDB": json.dumps({"conn_type": "filedb", "host": str(path), "password": PASSWORD}),
        "AIRFLOW_CONN_MAIL": json.dumps({"conn_type": "smtp", "host": "h", "password": PASSWORD}),
        "AIRFLOW_CONN_UNHEARD": json.dumps({"conn_type": "unheard", "host": "h", "password": PASSWORD}),
    }
    found, said = airflow_home.run(RESOLVE, folder=tmp_path, prelude="", **environ)
    row = [{"x": 1}]
    assert found["erp"] == found["named"] == ["PostgresEndpoint", row]
    assert found["lite"] == ["SqliteEndpoint", row]
    assert found["filedb"] == ["HookEndpoint", row]
    assert found["wrong"][0] == "DPONE_SERVER_AUTHENTICATION"
    assert found["missing"][0] == "DPONE_CONNECTION_UNKNOWN"
    assert found["mail"][0] == "DPONE_CONNECTION_INVALID"
    assert found["unheard"][0] == "DPONE_SOURCE_DRIVER_MISSING"
    told = said + json.dumps(found)
    assert "canary" not in told
    assert PASSWORD not in told


@pytest.mark.contract("F6", "X8")
def test_a_task_loads_from_postgres_and_its_log_holds_no_secret_and_no_sql(
    postgres: Postgres, pg_schema: str, sandbox: RunningSandbox, database: str, airflow_home: Home, tmp_path: Path
) -> None:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    postgres.sql(
        f"CREATE TABLE {pg_schema}.orders AS SELECT g::int8 AS id, 'n' || g AS name FROM generate_series(1, 50) g"
    )
    load = {
        "source": {"type": "sql", "connection_ref": "erp", "table": {"schema": pg_schema, "name": "orders"}},
        "sink": {
            "type": "clickhouse",
            "connection_ref": "ch",
            "table": {"schema": database, "name": "t"},
            "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
            "options": {"durable_quality_replay": True},
        },
        "quality": {"gates": [{"id": "rows", "type": "row_count_reconciliation"}]},
    }
    script = textwrap.dedent(
        f"""
        load = json.loads({json.dumps(load)!r})
        with DAG({database!r}, start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
            DponeLoadOperator(process="refresh", **load)
        out(run_dag(dag)[1]["refresh", -1][0])
        """
    )
    environ = {"AIRFLOW_CONN_ERP": postgres.uri, "AIRFLOW_CONN_CH": connection_json(sandbox)}
    state, said = airflow_home.run(script, folder=tmp_path, **environ)
    assert state == "success"
    assert ask(sandbox, f"SELECT count(), sum(id) FROM {database}.t") == [(50, 1275)]
    assert PASSWORD not in said
    assert "SELECT * FROM" not in said
    assert postgres.quiet()
