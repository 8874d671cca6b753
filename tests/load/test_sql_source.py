"""From PostgreSQL and SQLite into ClickHouse, end to end: values arrive as they were; a retry reads nothing again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.sources.sql.endpoint import SqlEndpoint, SqliteEndpoint
from dpone_provider.wire import DirectWire, Effect
from tests.crash.wire import CrashWire, Died
from tests.loads import Bench, OneEndpoint, endpoint_of
from tests.postgres_fixture import Postgres
from tests.sandbox_fixture import ask

Sql = Callable[..., list[tuple[Any, ...]]]


@attrs.frozen(kw_only=True)
class Both(OneEndpoint):
    """The sandbox is the sink of every load, and ``sql`` the source."""

    sql: SqlEndpoint

    def sql_endpoint(self, ref: str) -> SqlEndpoint:
        return self.sql


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    return made


def spec_of(bench: Bench, **source: Any) -> LoadSpec:
    """The bench's durable load, out of a SQL database."""
    base = bench.spec()
    read = spec_from_values(
        name="refresh",
        source={"type": "sql", "connection_ref": "erp", **source},
        sink={"type": "clickhouse", "connection_ref": "sink", "table": {"schema": bench.database, "name": bench.table}},
    )
    return attrs.evolve(base, source=read.source, sink=attrs.evolve(base.sink, columns=()))


def connections(bench: Bench, source: SqlEndpoint) -> Both:
    return Both(where=endpoint_of(bench.sandbox), sql=source)


@pytest.fixture
def orders(postgres: Postgres, pg_schema: str) -> str:
    postgres.sql(
        f"""CREATE TABLE {pg_schema}.orders AS SELECT g::int8 AS id, 'n' || g AS name,
        (g / 4.0)::numeric(12, 2) AS price, timestamptz '2024-01-01 00:00Z' + g * interval '1 second' AS placed,
        CASE WHEN g % 2 = 0 THEN ARRAY[g, NULL] ELSE '{{}}' END AS parts,
        '12345678-1234-5678-9abc-def012345678'::uuid AS ref FROM generate_series(1, 5000) g"""
    )
    postgres.sql(f"ALTER TABLE {pg_schema}.orders ALTER id SET NOT NULL")
    return pg_schema


@pytest.mark.contract("P7")
def test_a_committed_retry_from_postgres_reads_nothing(bench: Bench, postgres: Postgres, orders: str) -> None:
    spec = spec_of(bench, table={"schema": orders, "name": "orders"})
    where, wire = connections(bench, postgres.endpoint()), DirectWire()
    first = run_load(spec, bench.identity(), where, Surroundings(wire=wire))
    assert (first.final_rows, wire.counts["source_open"]) == (5000, 1)
    kinds = ask(
        bench.sandbox, f"SELECT name, type FROM system.columns WHERE database = '{bench.database}' AND table = 't'"
    )
    assert dict(kinds) == {
        "id": "Int64",
        "name": "Nullable(String)",
        "price": "Nullable(Decimal(12, 2))",
        "placed": "Nullable(DateTime64(6, 'UTC'))",
        "parts": "Array(Nullable(Int32))",
        "ref": "Nullable(UUID)",
    }
    total = ask(
        bench.sandbox, f"SELECT sum(price), max(placed), max(length(parts)), uniqExact(ref) FROM {bench.database}.t"
    )
    assert [str(value) for value in total[0]] == ["3125625", "2024-01-01 01:23:20+00:00", "2", "1"]
    again = DirectWire()
    second = run_load(spec, bench.identity(), where, Surroundings(wire=again))
    assert (second.replayed, second.final_rows, again.counts["source_open"]) == (True, 5000, 0)
    assert (again.counts["source_read"], again.counts["insert"], again.counts["exchange"]) == (0, 0, 0)
    assert postgres.quiet()
    assert spec.source.connection_ref == "erp"
    told = json.dumps([first.summary(), first.quality_replay], default=str)
    assert "p@ss" not in told
    assert "SELECT" not in told


@pytest.mark.contract("P8")
@pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "psycopg"])
def test_a_server_that_dies_midway_leaves_the_table_and_a_retry_finishes(
    bench: Bench, postgres: Postgres, adbc: bool
) -> None:
    query = "SELECT id, repeat('y', 200) AS name FROM (SELECT generate_series(1, 300000) AS id) AS x"
    spec = spec_of(bench, query=query, options={"batch_rows": 10_000})
    roomy = attrs.evolve(spec.sink.strategy, max_source_bytes=1 << 30)
    spec = attrs.evolve(spec, sink=attrs.evolve(spec.sink, strategy=roomy))
    where, wire = connections(bench, postgres.endpoint(adbc=adbc)), Killer(server=postgres)
    with pytest.raises(DponeError) as caught:
        run_load(spec, bench.identity(), where, Surroundings(wire=wire))
    assert (caught.value.code, caught.value.retryable) == ("DPONE_SOURCE_FAILED", True)
    assert (bench.live(), bench.private()) == (None, [])
    assert run_load(spec, bench.identity(), where).final_rows == 300_000
    assert postgres.quiet()


class Killer(DirectWire):
    """Ends the source's session on the server before the second batch."""

    def __init__(self, *, server: Postgres) -> None:
        super().__init__()
        self._server = server

    def send(self, effect: Effect, call: Callable[[], Any]) -> Any:
        if effect.kind == "source_read" and self.counts["source_read"] == 1:
            self._server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone'")
        return super().send(effect, call)


def test_a_typed_hash_of_every_column_agrees_with_what_is_stored(bench: Bench, postgres: Postgres, orders: str) -> None:
    gates = [{"id": "values", "type": "typed_hash_reconciliation"}]
    spec = attrs.evolve(
        spec_of(bench, query=f"SELECT id, name, price, placed, ref FROM {orders}.orders"),
        quality=bench.spec(durable=False, gates=gates).quality,
    )
    spec = attrs.evolve(spec, sink=attrs.evolve(spec.sink, durable_quality_replay=False))
    outcome = run_load(spec, bench.identity(), connections(bench, postgres.endpoint()))
    assert [gate["status"] for gate in outcome.gates["results"]] == ["passed"]


def test_a_killed_attempt_leaves_no_query_in_postgres(bench: Bench, postgres: Postgres, orders: str) -> None:
    spec, where = spec_of(bench, query=f"SELECT id, name FROM {orders}.orders"), connections(bench, postgres.endpoint())
    recorded = CrashWire()
    run_load(spec, bench.identity("r0"), where, Surroundings(wire=recorded))
    place = next(number for number, effect in enumerate(recorded.effects) if effect.kind == "source_read")
    with pytest.raises(Died):
        run_load(spec, bench.identity("r1"), where, Surroundings(wire=CrashWire(at=place, mode="after_acknowledged")))
    assert postgres.quiet()


def test_sqlite_loads_and_fits_the_live_table_again(bench: Bench, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"n{n}") for n in range(1000)])
    connection.close()
    where = connections(bench, SqliteEndpoint(ref="erp", path=str(tmp_path / "x.db")))
    spec = spec_of(bench, table={"name": "t"}, options={"batch_rows": 100})
    for run in ("r1", "r2"):
        assert run_load(spec, bench.identity(run), where).final_rows == 1000
    assert bench.ids() == list(range(1000))
