"""The sandbox's folder on disk: its lock, its private files, its state.

The lock is the only truth about life: the server holds ``flock`` on ``FOLDER/lock`` through a descriptor it was born
with, so the lock is free exactly when no server runs there, however the last one ended. The lock file's text is the
holder's pid. ``state.json`` says how to reach the holder and means nothing while the lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import absolute

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


@attrs.frozen(kw_only=True)
class RunningSandbox:
    """A server that answered. ``started_seconds`` is the time from the start's call to readiness."""

    host: str
    tcp_port: int
    http_port: int
    user: str
    password: str = attrs.field(repr=False)
    pid: int
    folder: Path
    version: str
    started_seconds: float

    @property
    def endpoint(self) -> Endpoint:
        """How loads reach it."""
        return Endpoint(
            host=self.host,
            native_port=self.tcp_port,
            http_port=self.http_port,
            user=self.user,
            password=self.password,
        )


@attrs.frozen(kw_only=True)
class SandboxFolder:
    """One folder, absolute."""

    path: Path = attrs.field(converter=absolute)

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def ports(self) -> Path:
        return self.path / "ports.tsv"

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @property
    def _state(self) -> Path:
        return self.path / "state.json"

    def prepare(self) -> None:
        """Make the folder, mode 0700.

        Raises: DponeError DPONE_SANDBOX_START_FAILED when it holds something else than a sandbox or cannot be made.
        """
        try:
            self.path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            if not self._lock.exists() and any(self.path.iterdir()):
                raise DponeError(
                    "DPONE_SANDBOX_START_FAILED",
                    "The folder holds other files and is no sandbox.",
                    remedy="Choose an empty or a new folder.",
                )
            self.path.chmod(PRIVATE_FOLDER)
            self.log.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        except OSError as error:
            raise DponeError(
                "DPONE_SANDBOX_START_FAILED",
                f"The folder cannot be used: {error.strerror}.",
                remedy="Choose a folder that you may write to.",
            ) from error

    def acquire(self, *, until: float, clock: Callable[[], float], pause: Callable[[float], None]) -> int:
        """Take the lock and return its descriptor; the caller closes it. ``until`` is absolute, of ``clock``.

        It asks for a moment, because `held` of another process takes the lock for an instant.
        Raises: DponeError DPONE_SANDBOX_FOLDER_HELD.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if clock() < until:
                    pause(0.02)
                    continue
                os.close(descriptor)
                raise DponeError("DPONE_SANDBOX_FOLDER_HELD") from None
            os.ftruncate(descriptor, 0)
            return descriptor

    def held(self) -> bool:
        """Whether a server (or a start under way) holds the folder."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def holder(self) -> int | None:
        """The holder's pid; None when nobody holds the folder or the holder has not yet said it."""
        if not self.held():
            return None
        text = self._lock.read_text("ascii").strip()
        return int(text) if text.isdigit() else None

    def write(self, name: str, text: str) -> None:
        """Write a private file in one step: whole or not at all, mode 0600."""
        fresh = self.path / f"{name}.new"
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        fresh.replace(self.path / name)

    def write_state(self, running: RunningSandbox) -> None:
        """Store how to reach the server, password included."""
        self.write("state.json", json.dumps(attrs.asdict(running) | {"folder": str(self.path)}, indent=1))

    def read_state(self) -> RunningSandbox | None:
        """The state of the present holder; None when the folder is free or its holder is not ready.

        A state of another pid is one that a killed server left behind.
        """
        pid = self.holder()
        if pid is None:
            return None
        try:
            fields: dict[str, Any] = json.loads(self._state.read_text("utf-8"))
            running = RunningSandbox(**fields | {"folder": self.path})
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return running if running.pid == pid else None

    def forget(self) -> None:
        """Remove what only a running server means."""
        for path in (self._state, self.ports):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
