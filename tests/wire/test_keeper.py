"""A ClickHouse server and a real ZooKeeper between which the reply, or the request, of one chosen ``multi`` is lost.

Field report B13. The server's own retries are off, so it asks Keeper once, and reading back decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.sandbox.zookeeper import missing_package, zookeeper
from dpone_provider.wire import DirectWire
from tests.loads import Bench
from tests.sandbox_fixture import ask
from tests.wire.readers import publications
from tests.wirelab.keeper import KeeperProxy, Lost

OLD, NEW = list(range(100, 105)), list(range(200, 207))
OWNED, FREE = b"\x20", b"\x00"  # the length of the owner's name, which follows the phase in the stored row
WRITES = (
    *((phase, OWNED) for phase in ("CLAIMED", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE")),
    ("COMPLETE", FREE),
)
_OWN_ID = re.compile(rb'"write_id":"([0-9a-f]{32})"\}[^,\]]')


@attrs.frozen(kw_only=True)
class Laboratory:
    """A server whose Keeper is behind a proxy."""

    server: RunningSandbox
    keeper: KeeperProxy


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    package = missing_package()
    if package is not None:
        pytest.skip(f"needs the Debian package {package}")
    server = SandboxServer()
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address, KeeperProxy(address) as keeper:
        config = SandboxConfig(
            folder=tmp_path_factory.mktemp("server"), zookeeper=keeper.address, bound_to_starter=True
        )
        running = server.start(config)
        try:
            yield Laboratory(server=running, keeper=keeper)
        finally:
            server.stop(running.folder)


@pytest.mark.contract("A2", "A3", "A4", "P2", "P6", "G5", "G6")
@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("first", [True, False], ids=["first load", "second load"])
def test_every_write_survives_a_lost_multi(laboratory: Laboratory, tmp_path: Path, lost: Lost, first: bool) -> None:
    database = f"k_{lost}_{'first' if first else 'second'}"
    ask(laboratory.server, f"CREATE DATABASE {database} ENGINE = Atomic")
    seen = 0
    for number, (phase, owner) in enumerate(WRITES):
        folder = tmp_path / str(number)
        folder.mkdir()
        bench = Bench(sandbox=laboratory.server, database=database, folder=folder, table=f"t{number}")
        if number == 0:
            bench.provision()
        if not first:
            bench.write(OLD[0], len(OLD))
            bench.run("earlier")
        bench.write(NEW[0], len(NEW))
        loss = laboratory.keeper.lose(lost, bytes([len(phase)]) + phase.encode() + owner)
        meet(laboratory, bench, lost, [] if first else OLD)
        assert loss.fired.is_set()
        seen += 1
    assert seen == 6


def meet(laboratory: Laboratory, bench: Bench, lost: Lost, old: list[int]) -> None:
    """One load whose one write meets the loss. A lost reply is read back; a lost request ends the attempt."""
    before = len(laboratory.keeper.multis)
    wire = DirectWire()
    try:
        bench.run("later", wire=wire)
        result = "success"
    except DponeError as error:
        result = error.code
        assert error.retryable
        assert bench.ids() in (old, NEW)
    assert result == ("success" if lost == "reply" else "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    assert wire.counts["exchange"] + wire.counts["publish_first"] <= 1
    writes = Counter(_OWN_ID.findall(b"".join(laboratory.keeper.multis[before:])))
    assert set(writes.values()) == {1}, "a write went to Keeper twice"
    assert len(writes) == wire.counts["authority_create"] + wire.counts["authority_cas"]
    if result != "success":
        bench.run("later")
    record = bench.record()
    assert (record.phase, record.owner, bench.live()) == ("COMPLETE", "", record.generation)
    assert bench.ids() == NEW
    assert bench.private() == []
    assert publications(bench) == (1 if old == [] else 2)
