"""Debian's ZooKeeper on a free loopback port, for tests that need one Keeper for two servers."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import LOOPBACK

JARS = (Path("/usr/share/java/zookeeper.jar"), Path("/usr/share/java/slf4j-simple.jar"))
_PEER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def missing_package() -> str | None:
    """The Debian package that is missing for ZooKeeper; None when all is there."""
    if shutil.which("java") is None:
        return "default-jre-headless"
    if not JARS[0].exists():
        return "zookeeper"
    return None if JARS[1].exists() else "libslf4j-java"


@contextlib.contextmanager
def zookeeper(folder: Path, *, start_seconds: float = 30.0) -> Iterator[str]:
    """Run ZooKeeper in ``folder`` (made when missing) for the length of the block; yields ``HOST:PORT``.

    Raises: DponeError DPONE_SANDBOX_START_FAILED when a package is missing or it is not ready in time.
    """
    package = missing_package()
    if package is not None:
        raise DponeError(
            "DPONE_SANDBOX_START_FAILED",
            f"ZooKeeper needs the Debian package {package}.",
            remedy=f"apt-get install {package}",
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = _free_port()
    (folder / "zoo.cfg").write_text(_settings(folder, port), "utf-8")
    classes = os.pathsep.join(str(path) for path in (folder, *JARS))
    with (folder / "zookeeper.log").open("wb") as log:
        peer = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", classes, _PEER, str(folder / "zoo.cfg")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_ready(peer, port, time.monotonic() + start_seconds)
        yield f"{LOOPBACK}:{port}"
    finally:
        _end(peer)


def _settings(folder: Path, port: int) -> str:
    lines = {
        "tickTime": 500,
        "dataDir": folder / "data",
        "clientPort": port,
        "clientPortAddress": LOOPBACK,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "maxClientCnxns": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _await_ready(peer: subprocess.Popen[bytes], port: int, deadline: float) -> None:
    """Return once it says `imok`; ``deadline`` is absolute, of ``time.monotonic``."""
    while time.monotonic() < deadline and peer.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1) as line:
            line.sendall(b"ruok")
            if line.recv(16) == b"imok":
                return
        time.sleep(0.05)
    raise DponeError(
        "DPONE_SANDBOX_START_FAILED",
        "ZooKeeper ended before it was ready." if peer.poll() is not None else "ZooKeeper was not ready in time.",
        remedy="Look into zookeeper.log in its folder.",
    )


def _end(peer: subprocess.Popen[bytes]) -> None:
    peer.terminate()
    try:
        peer.wait(5)
    except subprocess.TimeoutExpired:
        peer.kill()
        peer.wait()
