"""Bad input and bad weather: a clear error with a remedy, the old table untouched, nothing left behind."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.crash.wire import Died
from tests.loads import Bench, endpoint_of
from tests.sandbox_fixture import ask

BOTH = pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    """A bench with a live table of ids 1 to 5."""
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1)
    made.run("earlier")
    return made


def refused(bench: Bench, spec: LoadSpec, **options: Any) -> DponeError:
    """Run the load; it must be refused, and must have changed and left nothing."""
    live = bench.live()
    with pytest.raises(DponeError) as raised:
        bench.run("later", spec=spec, **options)
    error = raised.value
    assert error.next_step
    assert bench.live() == live
    assert bench.ids() == [1, 2, 3, 4, 5]
    assert bench.private() == []
    record, _ = bench.slot()
    assert record is not None
    assert record.owner == "", "the slot is given back"
    return error


def source(bench: Bench, text: str) -> None:
    (bench.folder / "source.csv").write_text(text, encoding="utf-8")


@BOTH
@pytest.mark.contract("P8")
def test_a_missing_file(bench: Bench, durable: bool) -> None:
    (bench.folder / "source.csv").unlink()
    assert refused(bench, bench.spec(durable=durable)).code == "DPONE_SOURCE_NOT_FOUND"


@BOTH
@pytest.mark.contract("P8")
def test_a_ragged_line_is_named(bench: Bench, durable: bool) -> None:
    source(bench, "id,name\n1,a\n2,b,too many\n3,c\n")
    error = refused(bench, bench.spec(durable=durable))
    assert error.code == "DPONE_SOURCE_INVALID"
    assert "source.csv" in error.message
    assert "3" in error.message
    assert "too many" not in str(error)


@BOTH
@pytest.mark.contract("P8")
def test_a_column_that_the_table_lacks(bench: Bench, durable: bool) -> None:
    source(bench, "id,name,extra\n1,a,x\n")
    error = refused(bench, bench.spec(durable=durable))
    assert error.code == "DPONE_SOURCE_COLUMN_UNKNOWN"
    assert "extra" in error.message


@BOTH
@pytest.mark.contract("P8")
def test_a_column_that_the_source_lacks(bench: Bench, durable: bool) -> None:
    source(bench, "id\n1\n")
    error = refused(bench, bench.spec(durable=durable))
    assert error.code == "DPONE_SOURCE_COLUMN_UNKNOWN"
    assert "name" in error.message


@BOTH
def test_a_value_that_does_not_fit(bench: Bench, durable: bool) -> None:
    """Field report B11."""
    source(bench, "id,name\n1,a\n-2,b\n")
    error = refused(bench, bench.spec(durable=durable))
    assert error.code in {"DPONE_SOURCE_VALUE_REFUSED", "DPONE_SOURCE_INVALID"}
    assert "id" in error.message


@BOTH
@pytest.mark.contract("P8")
def test_an_empty_source_publishes_only_if_gates_allow(bench: Bench, durable: bool) -> None:
    """Field report B22."""
    source(bench, "id,name\n")
    error = refused(bench, bench.spec(durable=durable))
    assert error.code == "DPONE_QUALITY_GATES_FAILED"
    assert error.context["quality_gates"]["passed"] is False
    bench.run("allowed", spec=bench.spec(durable=durable, gates=[]))
    assert bench.ids() == []


@BOTH
def test_a_source_over_its_budget(bench: Bench, durable: bool) -> None:
    bench.write(1, rows=40_000)
    spec = bench.spec(durable=durable)
    strategy = attrs.evolve(spec.sink.strategy, max_source_bytes=100_000)
    small = attrs.evolve(spec, sink=attrs.evolve(spec.sink, strategy=strategy))
    assert refused(bench, small).code == "DPONE_SOURCE_TOO_LARGE"


@BOTH
def test_an_unreachable_server(bench: Bench, durable: bool) -> None:
    nowhere = endpoint_of(bench.sandbox, native_port=9, http_port=9)
    error = refused(bench, bench.spec(durable=durable), endpoint=nowhere)
    assert (error.code, error.retryable) == ("DPONE_SERVER_UNREACHABLE", True)


@BOTH
def test_an_unreachable_http_port(bench: Bench, durable: bool) -> None:
    nowhere = endpoint_of(bench.sandbox, http_port=9)
    assert refused(bench, bench.spec(durable=durable), endpoint=nowhere).code == "DPONE_SERVER_UNREACHABLE"


@BOTH
def test_a_wrong_password(bench: Bench, durable: bool) -> None:
    wrong = endpoint_of(bench.sandbox, password="p@ss'w/rd")
    error = refused(bench, bench.spec(durable=durable), endpoint=wrong)
    assert (error.code, error.retryable) == ("DPONE_SERVER_AUTHENTICATION", False)
    assert "p@ss" not in str(error)


@pytest.mark.contract("A1", "M7")
def test_a_missing_authority_is_refused_before_the_source(
    sandbox: RunningSandbox, database: str, tmp_path: Path
) -> None:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    with pytest.raises(DponeError) as raised:
        made.run()  # there is no source file either: the authority is looked at first
    assert raised.value.code == "DPONE_REPLAY_AUTHORITY_UNSUPPORTED"
    assert made.private() == []


@pytest.mark.contract("M7")
@pytest.mark.parametrize(
    ("ddl", "word"),
    [
        ("CREATE TABLE {} (id UInt64, name String) ENGINE = ReplacingMergeTree ORDER BY id", "ReplacingMergeTree"),
        (
            "CREATE TABLE {} (id UInt64, at DateTime) ENGINE = MergeTree ORDER BY id TTL at + toIntervalDay(1)",
            "TTL",
        ),
        ("CREATE TABLE {} (id UInt64, name String DEFAULT 'x') ENGINE = MergeTree ORDER BY id", "expressions"),
        ("CREATE VIEW {} AS SELECT 1 AS id, 'a' AS name", "View"),
    ],
)
def test_a_live_table_of_another_kind_is_refused(
    sandbox: RunningSandbox, database: str, tmp_path: Path, ddl: str, word: str
) -> None:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1)
    ask(sandbox, ddl.format(f"{database}.t"))
    with pytest.raises(DponeError) as raised:
        made.run()
    assert raised.value.code == "DPONE_TARGET_UNSUPPORTED"
    assert word in raised.value.message
    assert made.slot() == (None, -1)
    assert made.private() == []


@pytest.mark.contract("P7", "M7")
def test_a_proven_commit_is_finished_whatever_the_table_has_become_since(bench: Bench) -> None:
    """Admission is for what is to be staged; it must not keep a commit open that is live already."""

    def die(step: str, facts: dict[str, Any]) -> None:
        if step == "complete":
            raise Died

    bench.write(50)
    with pytest.raises(Died):
        bench.run("later", notify=die)
    ask(bench.sandbox, f"ALTER TABLE {bench.database}.t MODIFY COLUMN name String DEFAULT 'x'")
    assert bench.run("later").replayed
    with pytest.raises(DponeError) as raised:
        bench.run("next")
    assert raised.value.code == "DPONE_TARGET_UNSUPPORTED"
    assert bench.ids() == [50, 51, 52, 53, 54]


@BOTH
@pytest.mark.contract("M7")
def test_a_live_table_that_feeds_a_view_is_refused(bench: Bench, durable: bool) -> None:
    """The view would keep the rows of the old generation and never see the new one."""
    ask(bench.sandbox, f"CREATE TABLE {bench.database}.x (id UInt64) ENGINE = MergeTree ORDER BY id")
    view = f"CREATE MATERIALIZED VIEW {bench.database}.v TO {bench.database}.x AS SELECT id FROM {bench.database}.t"
    ask(bench.sandbox, view)
    error = refused(bench, bench.spec(durable=durable))
    assert error.code == "DPONE_TARGET_UNSUPPORTED"
    assert f"{bench.database}.v" in error.message


def test_a_database_that_is_not_atomic_is_refused(sandbox: RunningSandbox, tmp_path: Path) -> None:
    made = Bench(sandbox=sandbox, database="no_such_database", folder=tmp_path)
    with pytest.raises(DponeError) as raised:
        made.run(spec=made.spec(durable=False))
    assert raised.value.code == "DPONE_TARGET_UNSUPPORTED"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[RunningSandbox]:
    """A server whose whole disk is a tmpfs of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    try:
        running = SandboxServer().start(SandboxConfig(folder=folder / "sandbox", bound_to_starter=True))
        try:
            yield running
        finally:
            SandboxServer().stop(running.folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.contract("P8")
def test_a_full_disk_while_staging(small_disk: RunningSandbox, tmp_path: Path) -> None:
    ask(small_disk, "CREATE DATABASE d ENGINE = Atomic")
    made = Bench(sandbox=small_disk, database="d", folder=tmp_path)
    made.provision()
    made.write(1)
    made.run("earlier")
    digests = (hashlib.sha512(str(number).encode()).hexdigest() for number in range(1_200_000))
    lines = (f"{number},{digest}" for number, digest in enumerate(digests))  # 150 MB that compress to half
    source(made, "id,name\n" + "\n".join(lines) + "\n")
    spec = made.spec()
    large = attrs.evolve(spec.sink.strategy, max_source_bytes=10**9)
    error = refused(made, attrs.evolve(spec, sink=attrs.evolve(spec.sink, strategy=large)))
    assert (error.code, error.retryable) == ("DPONE_STAGING_FAILED", True)
    assert "disk" in error.next_step
