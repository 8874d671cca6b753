"""An author's statements: each sent once, in order, on a connection of their own; a failure says which and when."""

from __future__ import annotations

import socket
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.hooks_sql import ClickHouseHooks
from dpone_provider.errors import DponeError
from dpone_provider.load.ports import HookRunner
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import Sql
from tests.wirelab import TcpProxy


@pytest.fixture
def table(database: str, sql: Sql) -> str:
    sql(f"CREATE TABLE {database}.t (a Int64) ENGINE = MergeTree ORDER BY a")
    return f"{database}.t"


@pytest.fixture
def hooks(endpoint: Endpoint, wire: DirectWire) -> HookRunner:
    return ClickHouseHooks(endpoint, wire)


def failure(hooks: HookRunner, statements: list[str], when: Any = "pre") -> DponeError:
    with pytest.raises(DponeError) as caught:
        hooks.run(statements, when)
    assert caught.value.code == "DPONE_HOOK_FAILED"
    assert caught.value.__cause__ is None
    assert not any(statement in str(caught.value) for statement in statements)
    return caught.value


@pytest.mark.contract("X3", "X4")
def test_statements_run_in_their_order(hooks: HookRunner, wire: DirectWire, table: str, sql: Sql) -> None:
    hooks.run([f"INSERT INTO {table} VALUES (1)", f"INSERT INTO {table} SELECT max(a) + 1 FROM {table}"], "pre")
    hooks.run([f"ALTER TABLE {table} DELETE WHERE a = 1 SETTINGS mutations_sync = 1", "SELECT 1 -- the end"], "post")
    hooks.run([], "post")
    assert sql(f"SELECT a FROM {table}") == [(2,)]
    assert wire.counts == {"hook": 4}


@pytest.mark.contract("X3")
def test_the_first_failure_ends_the_list_and_is_named(hooks: HookRunner, table: str, sql: Sql) -> None:
    statements = [f"INSERT INTO {table} VALUES (1)", "SELECT throwIf(1, 'secret')", f"INSERT INTO {table} VALUES (3)"]
    for when, boundary in (("pre", "pre_commit"), ("post", "post_commit")):
        error = failure(hooks, statements, when)
        assert f"Statement 2 of sink.{when}_sql was refused (server error 395)" in error.message
        assert (error.context, error.boundary) == ({"hook": 2, "when": when}, boundary)
        assert not error.retryable
        assert "secret" not in str(error)
    assert sql(f"SELECT a FROM {table}") == [(1,), (1,)]


@pytest.mark.contract("A4")
@pytest.mark.parametrize(("action", "arrived"), [("refuse", 0), ("lose_reply", 1)])
@pytest.mark.parametrize("when", ["pre", "post"])
def test_a_statement_without_an_answer_is_sent_once_and_may_have_run(
    endpoint: Endpoint, native: TcpProxy, wire: DirectWire, table: str, sql: Sql, action: Any, arrived: int, when: Any
) -> None:
    native.rule(action, match=b"INSERT INTO")
    hooks = ClickHouseHooks(attrs.evolve(endpoint, native_port=native.port), wire)
    error = failure(hooks, [f"INSERT INTO {table} SELECT 1", f"INSERT INTO {table} SELECT 2"], when)
    assert "Statement 1" in error.message
    assert "may have been carried out or not" in error.message
    assert "Find out whether" in error.next_step
    assert not error.retryable
    assert (native.seen(b"INSERT INTO"), sql(f"SELECT count() FROM {table}")) == (1, [(arrived,)])


def test_what_a_statement_sets_is_seen_by_the_next_ones_of_its_list_only(hooks: HookRunner) -> None:
    looks = "SELECT throwIf(getSetting('max_threads') != 7)"
    hooks.run(["SET max_threads = 7", looks], "pre")
    assert "Statement 1" in failure(hooks, [looks], "post").message


def test_an_insert_has_happened_when_it_is_acknowledged(hooks: HookRunner, table: str) -> None:
    check = f"SELECT throwIf(count() != 1) FROM {table}"
    hooks.run(["SET async_insert = 1, wait_for_async_insert = 0", f"INSERT INTO {table} VALUES (1)", check], "pre")


def test_rows_that_a_statement_returns_are_bounded(hooks: HookRunner, table: str) -> None:
    hooks.run([f"INSERT INTO {table} SELECT number FROM numbers(20000)"], "pre")
    assert "server error 396" in failure(hooks, [f"SELECT * FROM {table}"]).message


@pytest.mark.parametrize("statement", ["SELECT 1; SELECT 2", "", "-- nothing", "SELECT {x:String}"])
def test_what_is_not_one_statement_is_refused(hooks: HookRunner, statement: str) -> None:
    with pytest.raises(DponeError, match="DPONE_HOOK_FAILED"):
        hooks.run([statement], "pre")


def test_a_percent_sign_and_braces_are_the_authors_own(hooks: HookRunner, table: str, sql: Sql) -> None:
    text = "'%s %(a)s {}'"
    hooks.run([f"INSERT INTO {table} SELECT length({text})"], "pre")
    assert sql(f"SELECT a FROM {table}") == [(11,)]


def test_a_server_that_is_not_there_is_told_before_a_load_and_fails_the_hook_after_it(
    endpoint: Endpoint, wire: DirectWire
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    hooks = ClickHouseHooks(attrs.evolve(endpoint, native_port=port), wire)
    with pytest.raises(DponeError, match="DPONE_SERVER_UNREACHABLE"):
        hooks.run(["SELECT 1"], "pre")
    failure(hooks, ["SELECT 1"], "post")
