"""``dpone provision`` on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.cli.conftest import Desk
from tests.sandbox_fixture import Sql


@pytest.fixture
def bare(paper: Desk, sandbox: RunningSandbox, database: str) -> Desk:
    """A desk whose database has no authority yet."""
    made = Desk(folder=paper.folder, database=database, capture=paper.capture)
    made.write_manifest()
    made.connect(sandbox)
    return made


def tables(sql: Sql, database: str) -> list[str]:
    return [name for (name,) in sql(f"SELECT name FROM system.tables WHERE database = '{database}' ORDER BY name")]


@pytest.mark.contract("O5")
def test_without_apply_the_ddl_is_printed_and_nothing_is_sent(bare: Desk, sql: Sql) -> None:
    ran = bare.dpone("provision", bare.manifest, "--connections", bare.connections)
    assert ran.code == 0
    assert ran.out.startswith(f"CREATE TABLE `{bare.database}`.`dpone_replay_authority` (target_key String,")
    assert f"KeeperMap('/dpone/{bare.database}')" in ran.out
    assert tables(sql, bare.database) == []


@pytest.mark.contract("O5")
def test_what_is_printed_is_what_apply_would_accept(bare: Desk, sql: Sql) -> None:
    sql(bare.dpone("provision", "--database", bare.database).out.rstrip(";\n"))
    ran = bare.dpone("provision", bare.manifest, "--connections", bare.connections, "--apply")
    assert (ran.code, ran.out) == (0, f"{bare.database}.dpone_replay_authority: already provisioned\n")


@pytest.mark.contract("A7", "O5")
def test_apply_creates_once(bare: Desk, sql: Sql) -> None:
    command = ("provision", bare.manifest, "--connections", bare.connections, "--apply", "--format", "json")
    states = [bare.dpone(*command).document["authorities"][0]["states"] for _ in range(2)]
    assert states == [{"dpone_replay_authority": said} for said in ("created", "already provisioned")]
    assert tables(sql, bare.database) == ["dpone_replay_authority"]


@pytest.mark.contract("A7", "O5")
def test_another_table_of_that_name_is_left_alone(bare: Desk, sql: Sql) -> None:
    sql(f"CREATE TABLE {bare.database}.dpone_replay_authority (k String) ENGINE = MergeTree ORDER BY k")
    ran = bare.dpone("provision", bare.manifest, "--connections", bare.connections, "--apply")
    assert ran.code == 1
    assert "DPONE_REPLAY_AUTHORITY_UNSUPPORTED" in ran.err
    assert "Nothing was changed" in ran.err
    engine = f"SELECT engine FROM system.tables WHERE database = '{bare.database}'"
    assert sql(engine) == [("MergeTree",)]


@pytest.mark.contract("O5")
def test_a_missing_database_is_created_only_when_asked(bare: Desk, sql: Sql) -> None:
    name = f"{bare.database}_new"
    command = ("provision", "--connection", "wh", "--database", name, "--connections", bare.connections, "--apply")
    refused = bare.dpone(*command)
    assert refused.code == 1
    assert "DPONE_TARGET_UNSUPPORTED" in refused.err
    try:
        assert bare.dpone(*command, "--create-database").code == 0
        assert sql(f"SELECT engine FROM system.databases WHERE name = '{name}'") == [("Atomic",)]
    finally:
        sql(f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--apply", "--database", "x"),
        ("m.yaml", "--database", "x"),
        ("--database", "x", "--keeper-path", "/{shard}"),
    ],
)
def test_arguments_that_do_not_say_where_are_refused(paper: Desk, arguments: tuple[str, ...]) -> None:
    ran = paper.dpone("provision", *arguments, "--format", "json")
    assert (ran.code, ran.document["error_code"]) == (2, "DPONE_USAGE")


@pytest.mark.contract("O5")
def test_a_manifest_without_the_selector_has_nothing_to_provision(paper: Desk) -> None:
    paper.write_manifest(durable="false")
    ran = paper.dpone("provision", paper.manifest)
    assert ran.code == 2
    assert "nothing to provision" in ran.err


@pytest.mark.contract("O5")
@pytest.mark.parametrize("password", ["p@ss'w/rd", ""])
def test_a_wrong_password_is_refused_and_never_shown(bare: Desk, sandbox: RunningSandbox, password: str) -> None:
    bare.connect(sandbox, password=password)
    ran = bare.dpone("provision", bare.manifest, "--connections", bare.connections, "--apply", "--format", "json")
    assert (ran.code, ran.document["error_code"]) == (1, "DPONE_SERVER_AUTHENTICATION")
    assert not ran.says("p@ss")
    assert json.loads(Path(bare.connections).read_text(encoding="utf-8"))["wh"]["password"] == password


# -- the tables of loads that append or read by cursor ---

APPENDING = """\
kind: dpone.flow.v1
authoring: {source: m.yaml}
processes:
  - {name: appends, source: {type: file, format: csv, path: a.csv}, sink: {type: clickhouse, connection_ref: wh,
     table: {schema: DB, name: t}, strategy: {mode: append}}}
  - {name: again, source: {type: file, format: csv, path: a.csv, cursor: {column: id}}, sink: {type: clickhouse,
     connection_ref: wh, table: {schema: DB, name: u}, strategy: {mode: append}}}
  - {name: refreshes, source: {type: file, format: csv, path: a.csv}, sink: {type: clickhouse, connection_ref: wh,
     table: {schema: elsewhere, name: t}, strategy: {mode: full_refresh}}}
"""
LOAD_TABLES = ["dpone_load_steps", "dpone_source_state"]


def appending(desk: Desk, text: str = APPENDING) -> str:
    Path(desk.manifest).write_text(text.replace("DB", desk.database), encoding="utf-8")
    return desk.manifest


@pytest.mark.contract("X9", "A7", "O5")
def test_the_load_tables_of_a_manifest_are_printed_and_nothing_is_sent(bare: Desk, sql: Sql) -> None:
    ran = bare.dpone("provision", appending(bare), "--load-tables")
    steps, state = ran.out.splitlines()
    assert steps.startswith(f"CREATE TABLE `{bare.database}`.`dpone_load_steps` (recorded_at DateTime64(3, 'UTC'),")
    assert state.endswith(f"ENGINE = KeeperMap('/dpone_source_state/{bare.database}') PRIMARY KEY source_key;")
    assert tables(sql, bare.database) == []
    for statement in (steps, state):
        sql(statement.rstrip(";"))
    applied = bare.dpone("provision", bare.manifest, "--load-tables", "--connections", bare.connections, "--apply")
    assert applied.out == "".join(f"{bare.database}.{name}: already provisioned\n" for name in LOAD_TABLES)


@pytest.mark.contract("A7", "O5")
def test_apply_creates_the_load_tables_once(bare: Desk, sql: Sql) -> None:
    where = ("--connection", "wh", "--database", bare.database, "--connections", bare.connections)
    command = ("provision", "--load-tables", *where, "--apply", "--format", "json")
    for said in ("created", "already provisioned"):
        assert bare.dpone(*command).document["load_tables"][0]["states"] == dict.fromkeys(LOAD_TABLES, said)
    assert tables(sql, bare.database) == LOAD_TABLES


@pytest.mark.contract("A7", "O5")
@pytest.mark.parametrize("name", LOAD_TABLES)
def test_a_load_table_of_another_shape_is_left_alone_and_nothing_is_made_beside_it(
    bare: Desk, sql: Sql, name: str
) -> None:
    sql(f"CREATE TABLE {bare.database}.{name} (k String) ENGINE = MergeTree ORDER BY k")
    ran = bare.dpone("provision", appending(bare), "--load-tables", "--connections", bare.connections, "--apply")
    assert ran.code == 1
    assert "DPONE_LOAD_TABLES_UNSUPPORTED" in ran.err
    assert "Nothing was changed" in ran.err
    assert tables(sql, bare.database) == [name]


@pytest.mark.contract("A7")
def test_source_state_under_another_path_is_left_alone(bare: Desk, sql: Sql) -> None:
    command = ("provision", appending(bare), "--load-tables", "--connections", bare.connections, "--apply")
    assert bare.dpone(*command, "--keeper-path", f"/elsewhere/{bare.database}").code == 0
    ran = bare.dpone(*command)
    assert (ran.code, "another Keeper path" in ran.err) == (1, True)


@pytest.mark.contract("O5")
def test_a_manifest_whose_loads_only_replace_has_no_load_tables_to_provision(bare: Desk) -> None:
    ran = bare.dpone("provision", bare.manifest, "--load-tables")
    assert (ran.code, "appends or reads by cursor: there is nothing to provision" in ran.err) == (2, True)
