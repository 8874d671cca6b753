"""Start, find and stop a sandbox server: a process of its own, in a session of its own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import http.client
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import LOOPBACK, SandboxConfig, SandboxUser, render_config, render_users
from dpone_provider.sandbox.folder import RunningSandbox, SandboxFolder
from dpone_provider.sandbox.wheel import locate_wheel

__all__ = ["RunningSandbox", "SandboxServer", "SandboxStatus"]

_POLL_SECONDS = 0.02
_CHILD_LOCK = 3  # the descriptor under which the child knows its lock
_ENDED = re.compile(r"Code: \d+\. DB::Exception: .*|^\w*Error: .*", re.MULTILINE)


@attrs.frozen(kw_only=True)
class SandboxStatus:
    """``running``: it answers; ``silent``: a process holds the folder and does not answer (yet); ``stopped``."""

    state: Literal["running", "silent", "stopped"]
    folder: Path
    running: RunningSandbox | None = None


@attrs.frozen(kw_only=True)
class SandboxServer:
    """Starts and stops servers. Durations are seconds; ``clock`` is monotonic."""

    start_seconds: float = 30.0
    stop_seconds: float = 10.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def start(self, config: SandboxConfig) -> RunningSandbox:
        """Start a server and return once it answers.

        Raises: DponeError with DPONE_SANDBOX_WHEEL_MISSING, _FOLDER_HELD, _PORT_TAKEN or _START_FAILED.
        Guarantees: after an error no process of this start is left; data of earlier servers in the folder stays.
        """
        began = self.clock()
        package = locate_wheel()
        folder = SandboxFolder(path=config.folder)
        folder.prepare()
        lock = folder.acquire(until=began + 0.3, clock=self.clock, pause=self.pause)
        try:
            for port in (config.tcp_port, config.http_port):
                _refuse_taken(port)
            user = config.main_user(secrets.token_urlsafe(24))
            folder.forget()
            folder.write(".gitignore", "*\n")
            folder.write("config.xml", render_config(config))
            folder.write("users.xml", render_users((user, *(one for one in config.users if one.name != user.name))))
            pid = _spawn(folder, package, lock, bound=config.bound_to_starter)
        finally:
            os.close(lock)
        ready = False
        try:
            running = self._await_ready(folder, user, pid, began)
            folder.write_state(running)
            ready = True
        finally:
            if not ready:
                self._end(folder, pid, signal.SIGKILL)
        return running

    def stop(self, folder: Path) -> int:
        """Stop the server in ``folder`` and return the pid it had: SIGTERM, and SIGKILL after ``stop_seconds``.

        Raises: DponeError DPONE_SANDBOX_NOT_RUNNING. Guarantees: the process is gone afterwards.
        """
        place = SandboxFolder(path=folder)
        pid = place.holder()
        if pid is None:
            raise DponeError("DPONE_SANDBOX_NOT_RUNNING")
        self._end(place, pid, signal.SIGTERM)
        place.forget()
        return pid

    def status(self, folder: Path) -> SandboxStatus:
        """What stands in ``folder`` now; never raises for a folder without a server."""
        place = SandboxFolder(path=folder)
        running = place.read_state()
        if running is not None and _answers(running.host, running.http_port):
            return SandboxStatus(state="running", folder=place.path, running=running)
        return SandboxStatus(state="silent" if place.held() else "stopped", folder=place.path)

    def load(self, folder: Path) -> RunningSandbox:
        """How to reach the server in ``folder``.

        Raises: DponeError DPONE_SANDBOX_NOT_RUNNING when none runs, or none that is ready.
        """
        running = SandboxFolder(path=folder).read_state()
        if running is None:
            raise DponeError("DPONE_SANDBOX_NOT_RUNNING")
        return running

    def _await_ready(self, folder: SandboxFolder, user: SandboxUser, pid: int, began: float) -> RunningSandbox:
        deadline = began + self.start_seconds
        while self.clock() < deadline:
            if not folder.held():
                raise _ended(folder, "The server ended before it was ready")
            ports = _read_ports(folder.ports)
            version = _version(ports[1], user) if ports else None
            if ports and version:
                return RunningSandbox(
                    host=LOOPBACK,
                    tcp_port=ports[0],
                    http_port=ports[1],
                    user=user.name,
                    password=user.password,
                    pid=pid,
                    folder=folder.path,
                    version=version,
                    started_seconds=round(self.clock() - began, 3),
                )
            self.pause(_POLL_SECONDS)
        raise _ended(folder, f"The server was not ready within {self.start_seconds:g} s")

    def _end(self, folder: SandboxFolder, pid: int, first: signal.Signals) -> None:
        """Signal the holder and wait until it is gone; a free lock before a signal means that the pid is not ours."""
        for number in dict.fromkeys((first, signal.SIGKILL)):
            if folder.holder() == pid or first is signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = self.clock() + self.stop_seconds
            while self.clock() < deadline:
                if not folder.held() and _gone(pid):
                    return
                self.pause(_POLL_SECONDS)
        raise TimeoutError(f"process {pid} did not end {self.stop_seconds:g} s after SIGKILL")


def _spawn(folder: SandboxFolder, package: Path, lock: int, *, bound: bool) -> int:
    """Start the child as leader of a new session, with the lock and nothing else of ours; return its pid."""
    server = Path(__file__).with_name("server.py")
    starter = os.getpid() if bound else 0
    command = [sys.executable, "-I", str(server), str(folder.path), str(package), str(_CHILD_LOCK), str(starter)]
    output = str(folder.log / "process.log")
    spare = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, 10)  # above every descriptor that the actions below replace
    try:
        return os.posix_spawn(
            sys.executable,
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, spare, _CHILD_LOCK),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    finally:
        os.close(spare)


def _gone(pid: int) -> bool:
    """Whether the process is gone; our own child is reaped by asking. Another's dead child counts as gone."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True  # not our child: its free lock, asked before, has said it


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise DponeError("DPONE_SANDBOX_PORT_TAKEN", f"Port {port} is taken or not allowed.") from error


def _ended(folder: SandboxFolder, what: str) -> DponeError:
    """The error of a start that failed, with the last cause that the logs name."""
    text = ""
    for name in ("error.log", "process.log"):
        with contextlib.suppress(FileNotFoundError):
            text += (folder.log / name).read_text("utf-8", "replace")[-20_000:]
    causes = _ENDED.findall(text)
    cause = re.sub(r",? ?Stack trace.*", "", causes[-1])[:300].strip() if causes else "its log names no cause"
    if "Address already in use" in cause:
        return DponeError("DPONE_SANDBOX_PORT_TAKEN")
    return DponeError(
        "DPONE_SANDBOX_START_FAILED", f"{what}: {cause}", remedy="Look into the folder log/ of the sandbox."
    )


def _read_ports(path: Path) -> tuple[int, int] | None:
    """Both ports, native and HTTP, once the server has written the whole line."""
    with contextlib.suppress(FileNotFoundError):
        text = path.read_text("ascii")
        if text.endswith("\n"):
            tcp, http_port = text.split()
            return int(tcp), int(http_port)
    return None


def _answers(host: str, http_port: int) -> bool:
    return _fetch(host, http_port, "/ping", {}) is not None


def _version(http_port: int, user: SandboxUser) -> str | None:
    """The server's version, asked as the main user: proves listener, sign-in and execution at once."""
    login = {"X-ClickHouse-User": user.name, "X-ClickHouse-Key": user.password}
    return _fetch(LOOPBACK, http_port, "/?query=SELECT%20version()", login)


def _fetch(host: str, http_port: int, path: str, headers: dict[str, str]) -> str | None:
    connection = http.client.HTTPConnection(host, http_port, timeout=2)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.read().decode().strip() if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
