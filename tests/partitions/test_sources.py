"""From SQLite and PostgreSQL by partitions, several at a time: everything arrives once."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sources.sql.endpoint import SqlEndpoint, SqliteEndpoint
from tests.load.test_sql_source import Both
from tests.loads import endpoint_of
from tests.partitions.bench import Parts
from tests.partitions.test_full_refresh import EVERYTHING
from tests.postgres_fixture import Postgres

MODES = pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
ADBC = pytest.mark.parametrize("adbc", [True, False])
FOUR = {"range": {"column": "id", "size": 10}, "workers": 4}


def run(bench: Parts, source: SqlEndpoint, spec: LoadSpec, **around: Any) -> LoadOutcome:
    connections = Both(where=endpoint_of(bench.sandbox), sql=source)
    return run_load(spec, RunIdentity(dag_id="dag", run_id="r1", task_id="parts"), connections, Surroundings(**around))


def spec_of(bench: Parts, mode: str, **source: Any) -> LoadSpec:
    read = {"type": "sql", "connection_ref": "erp", **source}
    return bench.spec(mode, source=read, partitions=FOUR, acceptance=EVERYTHING)


@MODES
@ADBC
def test_sqlite(bench: Parts, mode: str, adbc: bool) -> None:
    path = bench.folder / "erp.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE things (id INTEGER NOT NULL, name TEXT)")
        rows = [(each, None if each % 5 == 0 else "n") for each in range(40)]
        made.executemany("INSERT INTO things VALUES (?, ?)", rows)
    where = SqliteEndpoint(ref="erp", path=str(path), adbc=adbc)
    outcome = run(bench, where, spec_of(bench, mode, query="SELECT id, name FROM things"))
    assert (bench.ids(), outcome.extracted_rows) == (list(range(40)), 40)
    assert outcome.acceptance["target"]["null_counts"] == {"name": 8}


@MODES
@ADBC
def test_postgres(bench: Parts, mode: str, adbc: bool, postgres: Postgres, pg_schema: str) -> None:
    postgres.sql(f"CREATE TABLE {pg_schema}.things (id bigint NOT NULL, name text)")
    postgres.sql(
        f"INSERT INTO {pg_schema}.things SELECT i, CASE WHEN i % 5 = 0 THEN NULL ELSE 'n' END FROM "
        "generate_series(0, 39) i"
    )
    spec = spec_of(bench, mode, table={"schema": pg_schema, "name": "things"})
    outcome = run(bench, postgres.endpoint(adbc=adbc), spec)
    assert (bench.ids(), outcome.extracted_rows) == (list(range(40)), 40)
    assert outcome.acceptance["source"]["null_counts"] == {"name": 8}
    assert postgres.quiet()
