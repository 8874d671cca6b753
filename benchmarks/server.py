"""The benchmark's own server: a sandbox in a temporary folder, with a database a run."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import psutil

from benchmarks import data
from benchmarks.task import QUIET_MERGES, TABLE, Task, ask
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer


@contextlib.contextmanager
def started() -> Iterator[Server]:
    """A running server, stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="dpone_bench_"))
    sandbox = SandboxServer()
    try:
        running = sandbox.start(SandboxConfig(folder=folder / "server", bound_to_starter=True))
        try:
            yield Server(running=running)
        finally:
            sandbox.stop(running.folder)
    finally:
        shutil.rmtree(folder)


@attrs.frozen(kw_only=True)
class Server:
    """The server and what a run needs of it. This process stays small: a child's peak RSS starts at its parent's."""

    running: RunningSandbox

    def ask(self, statement: str, **settings: str) -> str:
        """One statement, see ``task.ask``."""
        return ask(self.running, statement, **settings)

    def insert(self, file: Path, statement: str) -> None:
        """One INSERT whose data is a file's."""
        ask(self.running, file.read_bytes(), query=statement)

    @contextlib.contextmanager
    def task(self, name: str, file: Path, rows: int) -> Iterator[Task]:
        """A database with an empty target of the file's columns, sorted by ``id``; dropped afterwards."""
        self.ask(f"CREATE DATABASE {name} ENGINE = Atomic")
        try:
            columns = ", ".join(f"`{column}` {kind}" for column, kind in data.clickhouse_columns())
            merges = ", ".join(f"{setting} = {value}" for setting, value in QUIET_MERGES.items())
            self.ask(
                f"CREATE TABLE {name}.{TABLE} ({columns}) ENGINE = MergeTree ORDER BY (id) SETTINGS {merges}",
                data_type_default_nullable="0",
            )
            self.settle()
            yield Task(
                host=self.running.host,
                native_port=self.running.tcp_port,
                http_port=self.running.http_port,
                user=self.running.user,
                password=self.running.password,
                server_pid=self.running.pid,
                database=name,
                file=str(file.absolute()),
                rows=rows,
            )
        finally:
            self.ask(f"DROP DATABASE {name} SYNC")

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until nothing is merged and the server is as good as idle, at most so many seconds."""
        process, deadline = psutil.Process(self.running.pid), time.monotonic() + seconds
        process.cpu_percent()
        while time.monotonic() < deadline:
            time.sleep(0.25)
            if process.cpu_percent() < 8 and self.ask("SELECT count() FROM system.merges") == "0":
                return
