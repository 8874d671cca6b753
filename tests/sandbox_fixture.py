"""Pytest plugin: a real ClickHouse server for the test session, and what tests need around it.

Every server is bound to the pytest process: it stops by itself even when pytest is killed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.sandbox.zookeeper import missing_package, zookeeper

Sql = Callable[..., list[tuple[Any, ...]]]


@attrs.frozen(kw_only=True)
class SandboxPair:
    """Two servers on one ZooKeeper with one KeeperMap namespace. ``table`` exists on both: (k String, v UInt64)."""

    first: RunningSandbox
    second: RunningSandbox
    zookeeper: str
    table: str = "pair.cell"


def ask(running: RunningSandbox, statement: str, *arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own (native protocol) and return its rows."""
    from clickhouse_driver import Client

    database = options.pop("database", "default")
    client = Client(
        running.host, port=running.tcp_port, user=running.user, password=running.password, database=database
    )
    try:
        rows = client.execute(statement, *arguments, **options)
    finally:
        client.disconnect()
    return rows if isinstance(rows, list) else []


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """One server for the whole test session."""
    server = SandboxServer()
    running = server.start(SandboxConfig(folder=tmp_path_factory.mktemp("sandbox"), bound_to_starter=True))
    try:
        yield running
    finally:
        server.stop(running.folder)


@pytest.fixture
def database(sandbox: RunningSandbox) -> Iterator[str]:
    """The name of a new Atomic database, dropped after the test."""
    name = f"t_{secrets.token_hex(6)}"
    ask(sandbox, f"CREATE DATABASE {name} ENGINE = Atomic")
    try:
        yield name
    finally:
        _drop(sandbox, name)


def _drop(sandbox: RunningSandbox, name: str) -> None:
    """Drop a database; a statement that a test left under way may still make a table in it (code 219)."""
    from clickhouse_driver.errors import ServerException

    for left in reversed(range(5)):
        try:
            ask(sandbox, f"DROP DATABASE IF EXISTS {name} SYNC")
            return
        except ServerException as error:
            if error.code != 219 or not left:
                raise
            time.sleep(0.5)


@pytest.fixture
def sql(sandbox: RunningSandbox) -> Sql:
    """``sql(statement, *arguments, database=..., **options of clickhouse-driver) -> rows``."""

    def run(statement: str, *arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
        return ask(sandbox, statement, *arguments, **options)

    return run


@pytest.fixture(scope="session")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``HOST:PORT`` of a ZooKeeper of this test session; skips where Java or ZooKeeper is missing."""
    package = missing_package()
    if package is not None:
        pytest.skip(f"needs the Debian package {package}")
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture(scope="session")
def sandbox_pair(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxPair]:
    """Two servers that share one KeeperMap table (see SandboxConfig for why they differ in their paths)."""
    server = SandboxServer()
    common = SandboxConfig(folder=tmp_path_factory.mktemp("first"), zookeeper=zookeeper_address, bound_to_starter=True)
    create = "CREATE TABLE pair.cell (k String, v UInt64) ENGINE = KeeperMap('/pair_cell') PRIMARY KEY k"
    started: list[RunningSandbox] = []
    try:
        for config in (
            attrs.evolve(common, keeper_map_prefix="/share/keeper_map"),
            attrs.evolve(common, folder=tmp_path_factory.mktemp("second"), keeper_root="/share"),
        ):
            started.append(server.start(config))
            ask(started[-1], "CREATE DATABASE pair ENGINE = Atomic")
            ask(started[-1], create)
        yield SandboxPair(first=started[0], second=started[1], zookeeper=zookeeper_address)
    finally:
        for running in started:
            server.stop(running.folder)
