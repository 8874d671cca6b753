"""A desk at which the command line is used: a folder with a manifest, a source and connections."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.cli.main import main
from dpone_provider.sandbox.process import RunningSandbox

MANIFEST = """\
kind: dpone.batch.v1
defaults:
  source: {{type: file, format: csv, path: {path}}}
  sink:
    type: clickhouse
    connection_ref: wh
    table: {{schema: {database}, name: t}}
    strategy: {{mode: full_refresh, max_source_bytes: 100000000}}
    columns: {{id: UInt64, name: Nullable(String)}}
    options:
      durable_quality_replay: {durable}
      physical_design: {{storage: {{clickhouse: {{engine: MergeTree, order_by: [id]}}}}}}
quality:
  gates:
    - {{id: rows, type: row_count_reconciliation, severity: error, tolerance: {{mode: absolute, value: 0}}}}
    - {{id: some, type: min_rows, severity: error, threshold: {min_rows}}}
  acceptance:
    enabled: true
    mode: required
    capture: {{source: true, staged: true, target: false}}
    checks: {{row_count: true, null_counts: [name], distinct_counts: [id]}}
schemas:
  main: {{tables: [t]}}
"""


@attrs.frozen(kw_only=True)
class Ran:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as exactly one JSON document."""
        value = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert isinstance(value, dict)
        return value

    def says(self, text: str) -> bool:
        """Whether a text stands anywhere in the output."""
        return text in self.out or text in self.err


@attrs.frozen(kw_only=True)
class Desk:
    """Writes files into ``folder`` and runs the command there."""

    folder: Path
    database: str
    capture: Any = attrs.field(repr=False)

    @property
    def manifest(self) -> str:
        return str(self.folder / "m.yaml")

    @property
    def connections(self) -> str:
        return str(self.folder / "connections.json")

    def write_manifest(self, *, durable: str = "true", path: str = "source.csv", min_rows: int = 1) -> str:
        text = MANIFEST.format(database=self.database, durable=durable, path=path, min_rows=min_rows)
        Path(self.manifest).write_text(text, encoding="utf-8")
        return self.manifest

    def write_csv(self, *lines: str, header: str = "id,name") -> None:
        (self.folder / "source.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")

    def connect(self, sandbox: RunningSandbox, **changes: Any) -> None:
        """Write the connection ``wh`` to the sandbox, with some fields changed."""
        fields = {
            "conn_type": "dpone_clickhouse",
            "host": sandbox.host,
            "port": sandbox.tcp_port,
            "login": sandbox.user,
            "password": sandbox.password,
            "extra": {"http_port": sandbox.http_port},
        }
        Path(self.connections).write_text(json.dumps({"wh": fields | changes}), encoding="utf-8")

    def dpone(self, *arguments: str) -> Ran:
        """Run the command in this process."""
        self.capture.readouterr()
        code = main(list(arguments))
        out, err = self.capture.readouterr()
        return Ran(code=code, out=out, err=err)

    def load(self, *arguments: str, run_id: str | None = "r1", form: str = "json") -> Ran:
        """``dpone run`` of the desk's manifest."""
        named = ("--run-id", run_id, "--dag-id", "d1") if run_id is not None else ()
        return self.dpone("run", self.manifest, *named, *self._where, "--format", form, *arguments)

    def status(self, *arguments: str, run_id: str | None = "r1", form: str = "json") -> Ran:
        """``dpone status`` of the desk's manifest."""
        named = ("--run-id", run_id, "--dag-id", "d1") if run_id is not None else ()
        return self.dpone("status", self.manifest, *named, *self._where, "--format", form, *arguments)

    def provision(self) -> None:
        """Create the authority."""
        ran = self.dpone("provision", self.manifest, *self._where, "--apply")
        assert ran.code == 0, ran

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "dpone_provider.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONFAULTHANDLER": "1"},
        )

    def start_load(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``dpone run`` of the desk's manifest."""
        return self.start("run", self.manifest, "--run-id", "r1", "--dag-id", "d1", *self._where, *arguments)

    @property
    def _where(self) -> tuple[str, ...]:
        return ("--connections", self.connections)


@pytest.fixture
def paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk without a server."""
    desk = Desk(folder=tmp_path, database="demo", capture=capsys)
    desk.write_manifest()
    return desk


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], sandbox: RunningSandbox, database: str) -> Desk:
    """A desk with a provisioned database, a manifest and three rows."""
    made = Desk(folder=tmp_path, database=database, capture=capsys)
    made.write_manifest()
    made.write_csv("1,a", "2,b", "3,c")
    made.connect(sandbox)
    made.provision()
    return made


Stop = Callable[[subprocess.Popen[str], int], Ran]


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Send a signal to a started command and wait for it; nothing is left running."""
    started: list[subprocess.Popen[str]] = []

    def send(process: subprocess.Popen[str], number: int) -> Ran:
        started.append(process)
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler tells where it hangs
            pytest.fail(f"did not stop: {process.communicate()[1][-3000:]}")
        return Ran(code=process.returncode, out=out, err=err)

    yield send
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
