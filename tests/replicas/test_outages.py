"""A replica that is killed around its switch, and a Keeper that stands still at a write, on servers of their own."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from dpone_provider.sandbox.process import SandboxServer
from dpone_provider.sandbox.zookeeper import missing_package, zookeeper
from tests.replicas.bench import PairBench, servers
from tests.replicas.shell import Shell
from tests.replicas.stage import PairStage
from tests.sandbox_fixture import FIRST, SECOND, SandboxPair, ask, servers_on
from tests.scenarios.stage import Cue

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
STILL_SECONDS = 12.0
WRITES = ("create", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE", "release")


@attrs.frozen
class Grounds:
    """Two servers, and the process of their ZooKeeper."""

    pair: SandboxPair
    keeper: psutil.Process


@pytest.fixture
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grounds]:
    package = missing_package()
    if package is not None:
        pytest.skip(f"needs the Debian package {package}")
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        mine = [child for child in psutil.Process().children() if child.name() == "java"]
        port = int(address.rpartition(":")[2])
        keeper = next(one for one in mine if any(c.laddr.port == port for c in one.net_connections()))
        with servers_on(address, tmp_path_factory.mktemp("pair")) as pair:
            yield Grounds(pair, keeper)


def stage_of(grounds: Grounds, folder: Path) -> PairStage:
    name = f"o_{secrets.token_hex(6)}"
    for server in servers(grounds.pair):
        ask(server, f"CREATE DATABASE {name} ENGINE = Atomic")
    folder.mkdir(exist_ok=True)
    bench = PairBench(sandbox=grounds.pair.first, database=name, folder=folder, pair=grounds.pair)
    bench.provision()
    stage = PairStage(bench)
    stage.publish()
    return stage


@pytest.mark.contract("P3", "P4", "P6", "O5")
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_replica_killed_around_its_switch_is_finished_once_it_is_back(
    grounds: Grounds, tmp_path: Path, moment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = stage_of(grounds, tmp_path / "source")
    shell = Shell(stage.bench, capsys)
    second = grounds.pair.second
    stage.look = lambda: None  # type: ignore[method-assign]  # one of the two cannot be looked at

    def kill() -> None:
        os.kill(second.pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(second.pid)] if psutil.pid_exists(second.pid) else [], timeout=5)

    moments: dict[str, dict[str, Callable[[], object]]] = {
        "before": {"before": kill},
        "during": {"before": lambda: threading.Timer(0.001, kill).start()},
        "after": {"after": kill},
    }
    assert told(shell)["live_is"] == "nothing sealed"
    took = stage.attempt("later", Cue("exchange", nth=2, **moments[moment]))  # type: ignore[arg-type]
    took.expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    assert took.error is not None
    assert (took.error.target_commit, took.error.retryable) == ("unknown", True)
    assert stage.bench.record().phase == "DISPATCHING"
    silent = told(shell)
    assert silent["live_is"] == "unknown"
    assert silent["replicas"][FIRST] == {"answers": True, "live": silent["sealed"]}
    assert silent["replicas"][SECOND] == {"answers": False, "live": None}
    stage.attempt("later").expect("SERVER_UNREACHABLE").read_no_source().published_nothing()
    ports = {"tcp_port": second.tcp_port, "http_port": second.http_port}
    SandboxServer().start(attrs.evolve(grounds.pair.configs[1], **ports))
    back, lives = told(shell), stage.bench.lives()
    assert tuple(replica["live"] for replica in back["replicas"].values()) == lives
    assert back["live_is"] == ("generation" if set(lives) == {back["sealed"]} else "some")
    if moment != "during":
        assert back["live_is"] == {"before": "some", "after": "generation"}[moment]
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()
    assert told(shell)["live_is"] == "generation"


def told(shell: Shell) -> dict[str, Any]:
    """What ``dpone status`` says of the generation."""
    _, document = shell.dpone("status")
    generation: dict[str, Any] = document["generation"]
    return generation


@pytest.mark.contract("A2", "A3", "P2", "G5", "G6")
def test_a_keeper_that_stands_still_at_a_write_is_no_false_success_and_no_brick(
    grounds: Grounds, tmp_path: Path
) -> None:
    for write in WRITES:
        stage = stage_of(grounds, tmp_path / write)

        def still() -> None:
            grounds.keeper.suspend()
            threading.Timer(STILL_SECONDS, grounds.keeper.resume).start()

        kind, what, nth = {
            "create": ("authority_create", "", 1),
            "release": ("authority_cas", "COMPLETE", 2),
        }.get(write, ("authority_cas", write, 1))
        began = time.monotonic()
        took = stage.attempt("later", Cue(kind, what, nth=nth, before=still))  # type: ignore[arg-type]
        time.sleep(max(0.0, STILL_SECONDS + 1 - (time.monotonic() - began)))
        if took.result == "success":
            stage.settled()
            continue
        assert took.error is not None
        assert took.error.retryable, took.result
        results = [took.result]
        for _ in range(5):
            results.append(stage.attempt("later").result)
            if results[-1] == "success":
                break
            time.sleep(2)
        assert results[-1] == "success", (write, results)
        stage.settled()
