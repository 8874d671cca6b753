"""A real ``dpone run`` by partitions, killed by SIGKILL at many moments; the same command again finishes it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.sandbox_fixture import ask

ROOT = Path(__file__).parents[2]
KILLS, PARTS, SIZE = 8, 8, 2_000
MANIFEST = """
kind: dpone.batch.v1
defaults:
  source:
    type: clickhouse
    connection_ref: both
    query: SELECT id, run FROM {database}.s
    partitions: {{range: {{column: id, size: {size}}}}}
  sink: {{type: clickhouse, connection_ref: both, table: {{schema: {database}}}, strategy: {{mode: {mode}}}}}
quality:
  gates: [{{id: rows, type: row_count_reconciliation}}]
schemas:
  s: {{tables: [t]}}
"""


def start(sandbox: RunningSandbox, folder: Path, run_id: str) -> subprocess.Popen[str]:
    command = ["-m", "dpone_provider.cli.main", "run", "m.yaml", "--run-id", run_id, "--format", "json"]
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "AIRFLOW_CONN_BOTH": connection_json(sandbox), "PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return dict(json.loads(output)["result"]["details"])


@pytest.mark.slow
@pytest.mark.contract("N1", "N2", "N4", "N5", "N6")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_a_killed_transfer_is_finished_by_the_same_command(
    sandbox: RunningSandbox, database: str, tmp_path: Path, mode: str
) -> None:
    for name in ("s", "t"):
        ask(
            sandbox,
            f"CREATE TABLE {database}.{name} (id UInt64, run UInt64) ENGINE = MergeTree "
            f"PARTITION BY intDiv(id, {SIZE}) ORDER BY id",
        )
    (tmp_path / "m.yaml").write_text(MANIFEST.format(database=database, size=SIZE, mode=mode), encoding="utf-8")

    def live() -> list[tuple[Any, ...]]:
        return ask(
            sandbox, f"SELECT intDiv(id, {SIZE}) AS p, run, count() FROM {database}.t GROUP BY p, run ORDER BY p"
        )

    def write(run: int) -> None:
        ask(sandbox, f"TRUNCATE TABLE {database}.s")
        ask(sandbox, f"INSERT INTO {database}.s SELECT number, {run} FROM numbers({PARTS * SIZE})")

    write(0)
    started = time.monotonic()
    finish(start(sandbox, tmp_path, "first"))
    whole, moments = time.monotonic() - started, random.Random(8)
    for run in range(1, KILLS + 1):
        write(run)
        process = start(sandbox, tmp_path, f"run_{run}")
        time.sleep(moments.uniform(0.4, 1.0) * whole)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen = live()
        assert [(part, count) for part, _, count in seen] == [(part, SIZE) for part in range(PARTS)]
        assert {was for _, was, _ in seen} <= {run - 1, run}, "a partition is the old one or the new one"
        assert mode == "partition_replace" or len({was for _, was, _ in seen}) == 1
        details = finish(start(sandbox, tmp_path, f"run_{run}"))
        assert live() == [(part, run, SIZE) for part in range(PARTS)]
        report = json.loads((tmp_path / ".dpone/transfers" / details["operation_id"] / "report.json").read_text())
        assert (report["passed"], report["rows"], report["committed_count"]) == (True, PARTS * SIZE, PARTS)
