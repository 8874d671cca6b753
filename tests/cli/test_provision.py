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
    states = [bare.dpone(*command).document["authorities"][0]["state"] for _ in range(2)]
    assert states == ["created", "already provisioned"]
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
