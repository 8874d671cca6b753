"""Servers with settings and limits of their own: rows are never lost to them, and an error says what helps."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.loads import Bench, OneEndpoint, endpoint_of
from tests.sandbox_fixture import Sql, ask

USERS: dict[str, dict[str, Any]] = {
    "join_break": {
        "max_rows_in_join": 1_000,
        "join_overflow_mode": "break",
        "join_algorithm": "hash",
        "max_block_size": 500,
    },
    "readonly_1": {"readonly": 1},
    "readonly_2": {"readonly": 2},
    "insert_break": {"max_execution_time": 0.02, "timeout_overflow_mode": "break"},
    "no_ddl": {"allow_ddl": 0},
}
ROWS = 100_000


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """A server whose users have profiles that other people wrote. Table ``d.numbers`` has ids 0 to ROWS - 1."""
    users = tuple(SandboxUser(name=name, password="x", settings=settings) for name, settings in USERS.items())
    server = SandboxServer()
    config = SandboxConfig(folder=tmp_path_factory.mktemp("strict"), users=users, bound_to_starter=True)
    running = server.start(config)
    try:
        ask(running, "CREATE DATABASE d ENGINE = Atomic")
        ask(running, "CREATE TABLE d.numbers (id UInt64) ENGINE = MergeTree ORDER BY id")
        ask(running, f"INSERT INTO d.numbers SELECT number FROM numbers({ROWS})")
        yield running
    finally:
        server.stop(running.folder)


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    return made


@attrs.frozen(kw_only=True)
class Sides:
    """One endpoint for the source, one for the sink."""

    source: Endpoint
    sink: Endpoint

    def endpoint(self, ref: str) -> Endpoint:
        return self.source if ref == "source" else self.sink


def spec_of(bench: Bench, source: dict[str, Any], **design: Any) -> LoadSpec:
    storage = {"clickhouse": {"order_by": ["id"], **design}}
    return spec_from_values(
        name="refresh",
        source=source,
        sink={
            "type": "clickhouse",
            "connection_ref": "sink",
            "table": {"schema": bench.database, "name": bench.table},
            "strategy": {"mode": "full_refresh", "max_source_bytes": 10**9},
            "options": {"durable_quality_replay": True, "physical_design": {"storage": storage}},
        },
        quality={"gates": [{"id": "rows", "type": "row_count_reconciliation"}]},
        base=str(bench.folder),
    )


def query(bench: Bench, text: str) -> LoadSpec:
    return spec_of(bench, {"type": "clickhouse", "connection_ref": "source", "query": text})


def parquet(bench: Bench, table: pa.Table, **design: Any) -> LoadSpec:
    pq.write_table(table, bench.folder / "source.parquet")
    return spec_of(bench, {"type": "file", "format": "parquet", "path": "source.parquet"}, **design)


def read_as(bench: Bench, spec: LoadSpec, source: Endpoint) -> int:
    """The rows of a load whose source is read on ``source``."""
    sides = Sides(source=source, sink=endpoint_of(bench.sandbox))
    return run_load(spec, bench.identity(), sides).final_rows


@pytest.mark.contract("P8")
def test_every_overflow_throws(sql: Sql) -> None:
    """A setting that lets a limit cut an answer short must be pinned, in every version that has it."""
    known = {name for (name,) in sql("SELECT name FROM system.settings WHERE endsWith(name, '_overflow_mode')")}
    assert known
    assert {name: pins.READ.get(name) for name in known} == dict.fromkeys(known, "throw")


@pytest.mark.contract("P8")
def test_a_join_that_the_profile_cuts_short_is_an_error(bench: Bench, strict: RunningSandbox) -> None:
    joined = query(bench, "SELECT a.id AS id FROM d.numbers AS a INNER JOIN d.numbers AS b ON a.id = b.id")
    with pytest.raises(DponeError) as raised:
        read_as(bench, joined, endpoint_of(strict, user="join_break", password="x"))
    assert raised.value.code == "DPONE_SOURCE_FAILED"
    assert bench.live() is None


@pytest.mark.contract("P8")
def test_a_query_reads_in_the_connections_database(bench: Bench, strict: RunningSandbox, sql: Sql) -> None:
    assert read_as(bench, query(bench, "SELECT id FROM numbers"), endpoint_of(strict, database="d")) == ROWS


@pytest.mark.parametrize("user", ["readonly_1", "readonly_2"])
def test_a_source_user_that_may_only_read(bench: Bench, strict: RunningSandbox, user: str) -> None:
    spec, source = query(bench, "SELECT id FROM d.numbers"), endpoint_of(strict, user=user, password="x")
    if user == "readonly_2":
        assert read_as(bench, spec, source) == ROWS
        return
    with pytest.raises(DponeError) as raised:
        read_as(bench, spec, source)
    assert raised.value.code == "DPONE_SERVER_REFUSED"
    assert "readonly=2" in raised.value.next_step


def test_more_partitions_than_one_insert_may_write(bench: Bench) -> None:
    numbers = pa.table({"id": pa.array(range(500)), "part": pa.array(range(500))})
    error = refused(bench, parquet(bench, numbers, partition_by="part"))
    assert (error.code, error.retryable) == ("DPONE_STAGING_FAILED", False)
    assert "partition_by" in error.next_step


def test_key_columns_of_a_file_are_not_nullable(bench: Bench, sql: Sql) -> None:
    day = datetime.date(2024, 5, 6)
    table = pa.table({"the id": pa.array([1, 2]), "day": pa.array([day, day])})
    bench.run(spec=parquet(bench, table, order_by=["the id"], partition_by="day"))
    found = sql(f"SELECT name, type FROM system.columns WHERE database = '{bench.database}' AND table = 't'")
    assert dict(found) == {"the id": "Int64", "day": "Date32"}


def test_a_key_expression_on_a_nullable_column_says_what_to_do(bench: Bench) -> None:
    error = refused(bench, parquet(bench, pa.table({"id": pa.array([1, 2])}), order_by=["intDiv(id, 2)"]))
    assert (error.code, error.retryable) == ("DPONE_STAGING_FAILED", False)
    assert "sink.columns" in error.next_step


def test_a_source_without_columns(bench: Bench) -> None:
    assert refused(bench, parquet(bench, pa.table({}), order_by=[])).code == "DPONE_SOURCE_COLUMN_UNKNOWN"


@pytest.mark.contract("P8")
def test_an_insert_that_the_profile_cuts_short_says_why(strict: RunningSandbox, tmp_path: Path) -> None:
    bench = _on(strict, tmp_path, "cut")
    rows = pa.table({"id": pa.array(range(2_000_000))})
    error = refused(bench, parquet(bench, rows), user="insert_break")
    assert (error.code, bench.private()) == ("DPONE_STAGING_FAILED", [])
    assert "max_execution_time" in error.next_step


@pytest.mark.contract("A2")
def test_a_write_of_the_authority_that_the_server_refuses_names_the_error(
    strict: RunningSandbox, tmp_path: Path
) -> None:
    bench = _on(strict, tmp_path, "refused")
    bench.write(1)
    bench.run("before")
    with pytest.raises(DponeError, match=r"server error \d+") as raised:
        bench.run("later", endpoint=endpoint_of(strict, user="no_ddl", password="x"))
    assert raised.value.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"


def refused(bench: Bench, spec: LoadSpec, *, user: str | None = None) -> DponeError:
    """Run the load, which must fail before the source's rows are published."""
    where = endpoint_of(bench.sandbox, user=user, password="x") if user else endpoint_of(bench.sandbox)
    with pytest.raises(DponeError) as raised:
        run_load(spec, bench.identity(), OneEndpoint(where=where))
    assert raised.value.target_commit == "not_started"
    assert (bench.live(), bench.private()) == (None, [])
    return raised.value


def _on(strict: RunningSandbox, folder: Path, database: str) -> Bench:
    ask(strict, f"CREATE DATABASE {database} ENGINE = Atomic")
    bench = Bench(sandbox=strict, database=database, folder=folder)
    bench.provision()
    return bench
