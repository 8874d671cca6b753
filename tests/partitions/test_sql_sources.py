"""SQL databases by partitions into a real table: each row once, and a column whose values leave its type open."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.sources.sql.endpoint import SqlEndpoint, SqliteEndpoint
from tests.loads import OneEndpoint, endpoint_of
from tests.partitions.bench import Parts
from tests.postgres_fixture import Postgres

TABLE = {"type": "sql", "connection_ref": "source", "table": {"name": "t"}}


@attrs.frozen(kw_only=True)
class WithSource(OneEndpoint):
    """Connections of which the source is a SQL database."""

    source: SqlEndpoint

    def sql_endpoint(self, ref: str) -> SqlEndpoint:
        return self.source


@pytest.fixture
def empty(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Parts:
    return Parts(sandbox=sandbox, database=database, folder=tmp_path)


def run(bench: Parts, database: SqlEndpoint, **spec: Any) -> LoadOutcome:
    connections = WithSource(where=endpoint_of(bench.sandbox), source=database)
    return run_load(bench.spec(**spec), RunIdentity(dag_id="d", run_id="r", task_id="t"), connections, Surroundings())


@pytest.fixture
def lite(tmp_path: Path) -> SqliteEndpoint:
    """Thirty rows: ten of NULL, ten integers, ten floats."""
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE t (id, v)")
        values = [None] * 10 + list(range(10)) + [number + 0.5 for number in range(10)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
    connection.close()
    return SqliteEndpoint(ref="lite", path=str(tmp_path / "x.db"))


@pytest.mark.contract("N2")
def test_partitions_of_values_of_different_types_become_one_declared_column(empty: Parts, lite: SqliteEndpoint) -> None:
    outcome = run(empty, lite, source=TABLE, columns={"v": "Nullable(Float64)"})
    assert outcome.final_rows == 30
    assert empty.ask(f"SELECT count(), count(v), sum(v) FROM {empty.database}.t") == [(30, 20, 95.0)]


def test_without_a_declared_type_the_partition_that_does_not_fit_ends_the_load(
    empty: Parts, lite: SqliteEndpoint
) -> None:
    with pytest.raises(DponeError) as caught:
        run(empty, lite, source=TABLE)
    assert caught.value.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert empty.ask(f"EXISTS TABLE {empty.database}.t") == [(0,)]
    assert empty.private() == []


@pytest.mark.contract("N2", "N4")
@pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "psycopg"])
def test_days_of_postgres_replace_those_of_the_table(
    empty: Parts, postgres: Postgres, pg_schema: str, adbc: bool
) -> None:
    days = "'2026-01-01'::date + (i % 4)::int AS day"
    postgres.sql(f"CREATE TABLE {pg_schema}.t AS SELECT {days}, 'new' AS name FROM generate_series(0, 399) AS s(i)")
    key = "ENGINE = MergeTree PARTITION BY toMonday(day) ORDER BY day"
    empty.ask(f"CREATE TABLE {empty.database}.t (day Date, name String) {key}")
    empty.ask(f"INSERT INTO {empty.database}.t SELECT toDate('2025-12-20') + number % 20, 'old' FROM numbers(200)")
    source = {"type": "sql", "connection_ref": "source", "table": {"schema": pg_schema, "name": "t"}}
    whole_weeks = {"range": {"column": "day", "bounds": ["2025-12-29", "2026-01-05"]}}
    asked = {"mode": "partition_replace", "source": source, "partitions": whole_weeks}
    first, again = (run(empty, postgres.endpoint(adbc=adbc), **asked) for _ in range(2))
    assert (first.inserted_rows, again.inserted_rows, again.replayed) == (400, 0, True)
    # The outer spans are open: what the source does not hold there is gone.
    assert empty.ask(f"SELECT name, count() FROM {empty.database}.t GROUP BY name") == [("new", 400)]
