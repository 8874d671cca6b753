"""Two servers on one real ZooKeeper."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from clickhouse_driver.errors import ServerException

from dpone_provider.clickhouse.keeper_map import ONCE
from dpone_provider.errors import DponeError
from dpone_provider.sandbox import zookeeper as module
from tests.sandbox_fixture import SandboxPair, ask, servers_on

STRICT = {"keeper_map_strict_mode": 1}


def test_a_row_written_by_one_server_is_read_by_the_other(sandbox_pair: SandboxPair) -> None:
    ask(sandbox_pair.first, "INSERT INTO pair.cell SETTINGS keeper_map_strict_mode = 1 VALUES ('read', 1)")
    assert ask(sandbox_pair.second, "SELECT v FROM pair.cell WHERE k = 'read'") == [(1,)]


def test_a_strict_insert_on_the_others_key_is_refused(sandbox_pair: SandboxPair) -> None:
    insert = "INSERT INTO pair.cell SETTINGS keeper_map_strict_mode = 1 VALUES ('once', 1)"
    ask(sandbox_pair.first, insert)
    with pytest.raises(ServerException) as caught:
        ask(sandbox_pair.second, insert)
    assert caught.value.code == 999


def test_strict_updates_from_both_servers_lose_nothing(sandbox_pair: SandboxPair) -> None:
    ask(sandbox_pair.first, "INSERT INTO pair.cell SETTINGS keeper_map_strict_mode = 1 VALUES ('sum', 0)")
    applied = {"first": 0, "second": 0}
    refused: set[int] = set()

    def hammer(name: str) -> None:
        server = getattr(sandbox_pair, name)
        for _ in range(40):
            try:
                ask(server, "ALTER TABLE pair.cell UPDATE v = v + 1 WHERE k = 'sum'", settings=STRICT)
            except ServerException as error:
                refused.add(error.code)  # the other one was first: nothing was written
            else:
                applied[name] += 1

    threads = [threading.Thread(target=hammer, args=(name,)) for name in applied]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(applied.values())
    assert refused <= {999}
    assert ask(sandbox_pair.second, "SELECT v FROM pair.cell WHERE k = 'sum'") == [(sum(applied.values()),)]


def test_other_servers_on_the_same_zookeeper_end_no_session(sandbox_pair: SandboxPair, tmp_path: Path) -> None:
    """The nil UUID of an embedded server would: the write after it had begun was refused with 999."""
    with servers_on(sandbox_pair.zookeeper, tmp_path / "beside") as beside:
        for number, server in enumerate((*sandbox_pair.servers, *beside.servers)):
            ask(server, f"INSERT INTO pair.cell {ONCE} VALUES ('beside {number}', 1)")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JARS", (tmp_path / "none.jar", tmp_path / "none.jar"))
    monkeypatch.setattr(module.shutil, "which", lambda _name: "/usr/bin/java")
    with pytest.raises(DponeError, match="apt-get install zookeeper"), module.zookeeper(tmp_path / "z"):
        pytest.fail("it started without its package")
