"""Pytest plugin: a real ClickHouse server for the test session, and what tests need around it.

Every server is bound to the pytest process: it stops by itself even when pytest is killed.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import MAIN_USER, SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.sandbox.zookeeper import missing_package, zookeeper

Sql = Callable[..., list[tuple[Any, ...]]]
FIRST, SECOND, THIRD = HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
"""What the clusters call their replicas: nothing listens there, and no resolver is asked (a name costs up to 5 s)."""
CLUSTERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "main": ((SECOND, FIRST),),
    "three": ((THIRD, FIRST, SECOND),),
    "moved": ((FIRST, THIRD),),
    "alone": ((FIRST,),),
    "shards": ((FIRST,), (SECOND,)),
    "twice": ((FIRST, FIRST),),
    "outer": ((FIRST, SECOND),),  # the only one without internal replication
}
"""Shards of replicas, by cluster."""


def elements(replica: str) -> str:
    """The clusters, and a replica's own name, as elements of a server's configuration."""
    lines = []
    for name, shards in CLUSTERS.items():
        lines.append(f"<{name}>")
        for shard in shards:
            listed = "".join(f"<replica><host>{host}</host><port>9000</port></replica>" for host in shard)
            internal = str(name != "outer").lower()
            lines.append(f"<shard><internal_replication>{internal}</internal_replication>{listed}</shard>")
        lines.append(f"</{name}>")
    macros = f"<macros><replica>{replica}</replica></macros>"
    return f'<remote_servers replace="1">{"".join(lines)}</remote_servers>{macros}'


@attrs.frozen(kw_only=True)
class SandboxPair:
    """Two servers, or as many as asked, on one ZooKeeper with one KeeperMap namespace.

    ``table`` exists on all: (k String, v UInt64). All list the clusters of ``CLUSTERS``; at the addresses of their
    replicas nothing listens.
    """

    servers: tuple[RunningSandbox, ...]
    zookeeper: str
    configs: tuple[SandboxConfig, ...]
    table: str = "pair.cell"

    @property
    def first(self) -> RunningSandbox:
        return self.servers[0]

    @property
    def second(self) -> RunningSandbox:
        return self.servers[1]


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
    """Two servers that share one KeeperMap table."""
    with servers_on(zookeeper_address, tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.fixture(scope="module")
def sandbox_trio(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxPair]:
    """Three of them."""
    with servers_on(zookeeper_address, tmp_path_factory.mktemp("trio"), number=3) as trio:
        yield trio


@contextlib.contextmanager
def servers_on(
    zookeeper_address: str, folder: Path, *, number: int = 2, users: tuple[SandboxUser, ...] = ()
) -> Iterator[SandboxPair]:
    """Servers on one ZooKeeper, beside other groups of servers there.

    ``users`` come beside the main one, on each.
    """
    server = SandboxServer()
    user = SandboxUser(name=MAIN_USER, password=secrets.token_urlsafe(24))  # a cluster's servers know the same users
    group = f"/{folder.name}"
    common = SandboxConfig(
        folder=folder,
        zookeeper=zookeeper_address,
        keeper_map_prefix=f"{group}/keeper_map",
        users=(user, *users),
        bound_to_starter=True,
    )
    configs = tuple(
        attrs.evolve(
            common,
            folder=folder / name,
            keeper_sessions=f"{group}/sessions/{name}",
            elements=elements(host),
        )
        for name, host in zip(("first", "second", "third")[:number], HOSTS, strict=False)
    )
    create = "CREATE TABLE pair.cell (k String, v UInt64) ENGINE = KeeperMap('/pair_cell') PRIMARY KEY k"
    started: list[RunningSandbox] = []
    try:
        for config in configs:
            started.append(server.start(config))
            ask(started[-1], "CREATE DATABASE pair ENGINE = Atomic")
            ask(started[-1], create)
        yield SandboxPair(servers=tuple(started), zookeeper=zookeeper_address, configs=configs)
    finally:
        for running in started:
            with contextlib.suppress(DponeError):  # a test may have killed it
                server.stop(running.folder)
