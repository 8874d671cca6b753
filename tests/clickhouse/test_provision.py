"""Provisioning creates once, says when it is done already, and changes nothing that is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.clickhouse.authority_store import TABLE, ClickHouseReplayQualityStore
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.provision import apply, authority, database_ddl
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import SandboxServer
from dpone_provider.wire import DirectWire
from tests.loads import endpoint_of
from tests.sandbox_fixture import ask

Sql = Callable[..., list[tuple[Any, ...]]]
pytestmark = pytest.mark.contract("A7")


def test_the_statements_are_text_and_literal() -> None:
    assert database_ddl("ops") == "CREATE DATABASE `ops` ENGINE = Atomic"
    assert authority("ops").ddl.endswith("ENGINE = KeeperMap('/dpone/ops') PRIMARY KEY target_key")


def test_it_creates_once_and_then_says_so(client: ControlClient, wire: DirectWire, database: str, sql: Sql) -> None:
    assert apply({"r1": client}, database) == {"r1": "created"}
    ClickHouseReplayQualityStore({"r1": client}, database).admit()
    uuid = sql("SELECT uuid FROM system.tables WHERE database = %(d)s", {"d": database})
    assert apply({"r1": client}, database) == {"r1": "already provisioned"}
    assert sql("SELECT uuid FROM system.tables WHERE database = %(d)s", {"d": database}) == uuid
    assert wire.counts["create_table"] == 1


def test_it_creates_an_atomic_database_only_when_asked(client: ControlClient, database: str, sql: Sql) -> None:
    sql(f"DROP DATABASE {database}")
    with pytest.raises(DponeError, match="does not exist"):
        apply({"r1": client}, database)
    assert apply({"r1": client}, database, create_database=True) == {"r1": "created"}
    assert sql("SELECT engine FROM system.databases WHERE name = %(d)s", {"d": database}) == [("Atomic",)]


def test_a_different_table_is_an_error_and_stays(
    client: ControlClient, wire: DirectWire, database: str, sql: Sql
) -> None:
    sql(f"CREATE TABLE {database}.{TABLE} (target_key String) ENGINE = MergeTree ORDER BY target_key")
    with pytest.raises(DponeError) as caught:
        apply({"r1": client}, database, create_database=True)
    assert caught.value.code == "DPONE_REPLAY_AUTHORITY_UNSUPPORTED"
    assert "the engine MergeTree" in caught.value.message
    assert wire.counts["create_table"] == 0


def test_the_same_table_under_another_path_is_an_error(client: ControlClient, database: str) -> None:
    apply({"r1": client}, database, path=f"/elsewhere/{database}")
    with pytest.raises(DponeError, match="another Keeper path"):
        apply({"r1": client}, database)


def test_a_database_that_is_not_atomic_is_refused(
    client: ControlClient, wire: DirectWire, database: str, sql: Sql
) -> None:
    sql(f"CREATE DATABASE {database}_m ENGINE = Memory")
    with pytest.raises(DponeError, match="the engine Memory, not Atomic"):
        apply({"r1": client}, f"{database}_m")
    sql(f"DROP DATABASE {database}_m")
    assert wire.counts["create_table"] == 0


@pytest.mark.contract("A1", "A7")
def test_an_authority_that_keeper_forgot_is_named_and_nothing_is_called_provisioned(tmp_path: Path) -> None:
    """The sandbox's Keeper lives in memory: after a restart the table is listed and its data is gone."""
    folder, server = tmp_path / "sandbox", SandboxServer()
    for forgotten in (False, True):
        running = server.start(SandboxConfig(folder=folder, bound_to_starter=True))
        control = ControlClient(endpoint_of(running), DirectWire())
        try:
            if not forgotten:
                ask(running, "CREATE DATABASE d ENGINE = Atomic")
                assert apply({"one": control}, "d") == {"one": "created"}
                continue
            store = ClickHouseReplayQualityStore({"one": control}, "d")
            for use in (partial(store.read, "key"), partial(apply, {"one": control}, "d")):
                with pytest.raises(DponeError) as raised:
                    use()
                assert raised.value.code == "DPONE_REPLAY_AUTHORITY_UNSUPPORTED"
                assert "lost its data in Keeper" in raised.value.message
        finally:
            control.close()
            server.stop(folder)
