"""The table that an append was admitted for is the one that its rows are proven for (X4, X7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pytest

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.sandbox import process
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser, render_users
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.loads import endpoint_of
from tests.paths.bench import Appending, acceptance
from tests.paths.wires import On

OTHERS = {
    "engine": "(id UInt64, name String) ENGINE = Null",
    "type": "(id UInt8, name String) ENGINE = MergeTree ORDER BY name",
    "table": "(id UInt64, name String) ENGINE = MergeTree ORDER BY id",
}


@pytest.mark.contract("X4")
@pytest.mark.parametrize("other", OTHERS)
def test_a_table_that_is_another_one_once_the_source_was_read_gets_no_row(bench: Appending, other: str) -> None:
    """A Null table would swallow the rows, and a narrower type would wrap their values: 300 becomes 44."""
    bench.write(300)
    wire = On("source_open", lambda: bench.ask(f"CREATE OR REPLACE TABLE {bench.database}.t {OTHERS[other]}"))
    error = bench.refused("DPONE_TARGET_UNSUPPORTED", spec=bench.spec(cursor="id"), wire=wire)
    assert (error.target_commit, error.retryable) == ("not_started", True)
    assert "append" not in wire.kinds
    assert bench.mark(bench.spec(cursor="id")) is None


@pytest.mark.contract("X4", "X7", "Q10")
def test_rows_of_a_table_that_was_exchanged_meanwhile_move_no_mark(bench: Appending) -> None:
    bench.ask(f"CREATE TABLE {bench.database}.u AS {bench.database}.t")
    wire = On("append", lambda: bench.ask(f"EXCHANGE TABLES {bench.database}.t AND {bench.database}.u"), after=True)
    error = bench.refused("DPONE_APPEND_UNCERTAIN", spec=bench.spec(cursor="id"), wire=wire)
    assert (error.target_commit, error.boundary, error.retryable) == ("unknown", "post_commit", False)
    assert error.context["failure_context"]["retry_classification"] == "operator_verification_required"
    assert bench.ids() == []
    assert bench.mark(bench.spec(cursor="id")) is None


@pytest.mark.contract("X4")
def test_a_pre_hook_may_make_another_table(bench: Appending) -> None:
    spec = bench.spec(pre_sql=(f"CREATE OR REPLACE TABLE {bench.database}.t {OTHERS['table']}",))
    bench.run(spec=spec)
    bench.run("r2", spec=spec)
    assert bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("X4")
def test_a_pre_hook_may_make_no_table_that_keeps_no_rows(bench: Appending) -> None:
    spec = bench.spec(pre_sql=(f"CREATE OR REPLACE TABLE {bench.database}.t {OTHERS['engine']}",))
    assert bench.refused("DPONE_TARGET_UNSUPPORTED", spec=spec).target_commit == "not_started"


_POLICY = "<databases><d><t><filter>id &gt; 2</filter></t></d></databases>"


def _with_row_policy(users: Iterable[SandboxUser]) -> str:
    """Row policies cannot be made by SQL in the sandbox; the server's ``users.xml`` can hold them."""
    return render_users(users).replace("</ruled>", f"{_POLICY}</ruled>", 1)


_LIMITED = ("GRANT SELECT, INSERT ON d.t",)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """A server on which ``ruled`` sees a part of ``d.t``; ``blind`` does not see its materialized view."""
    users = (SandboxUser(name="ruled", password="x"), SandboxUser(name="blind", password="x", grants=_LIMITED))
    server = SandboxServer()
    config = SandboxConfig(folder=tmp_path_factory.mktemp("ruled"), users=users, bound_to_starter=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "render_users", _with_row_policy)
        running = server.start(config)
    try:
        yield running
    finally:
        server.stop(running.folder)


@pytest.fixture
def there(ruled: RunningSandbox, tmp_path: Path) -> Appending:
    made = Appending(sandbox=ruled, database="d", folder=tmp_path)
    made.ask("DROP DATABASE IF EXISTS d")
    made.ask("CREATE DATABASE d ENGINE = Atomic")
    made.create()
    made.write(1)
    return made


def as_user(bench: Appending, name: str) -> Endpoint:
    return attrs.evolve(endpoint_of(bench.sandbox), user=name, password="x")


@pytest.mark.contract("X4", "X5")
def test_a_table_with_row_policies_is_not_counted(there: Appending) -> None:
    spec = there.spec(acceptance=acceptance())
    error = there.refused("DPONE_TARGET_UNSUPPORTED", spec=spec, endpoint=as_user(there, "ruled"))
    assert "capture.target: false" in error.next_step
    assert there.ids() == []


@pytest.mark.contract("X4")
def test_a_table_with_row_policies_that_nobody_counts_is_appended_to(there: Appending) -> None:
    assert there.run(endpoint=as_user(there, "ruled")).inserted_rows == 5
    assert there.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("X4")
def test_a_view_that_the_user_may_not_see_is_known_of(there: Appending) -> None:
    there.ask("CREATE TABLE d.v (id UInt64) ENGINE = MergeTree ORDER BY id")
    there.ask("CREATE MATERIALIZED VIEW d.mv TO d.v AS SELECT id FROM d.t")
    error = there.refused("DPONE_TARGET_UNSUPPORTED", endpoint=as_user(there, "blind"))
    assert "feeds materialized views" in error.message
    assert there.ids() == []
