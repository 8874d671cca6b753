"""A real ``dpone run`` killed by SIGKILL at many moments; the same command again finishes it (I1, P6, P7)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench

ROOT = Path(__file__).parents[2]
KILLS = 12
MANIFEST = """
kind: dpone.batch.v1
defaults:
  name: refresh
  source: {{type: file, format: csv, path: source.csv}}
  sink:
    type: clickhouse
    connection_ref: sink
    table: {{schema: {database}, name: t}}
    strategy: {{mode: full_refresh, max_source_bytes: 100000000}}
    columns: {{id: UInt64, name: String}}
    options:
      durable_quality_replay: true
      physical_design: {{storage: {{clickhouse: {{engine: MergeTree, order_by: [id]}}}}}}
quality:
  gates: [{{id: rows, type: row_count_reconciliation}}]
schemas:
  s: {{tables: [t]}}
"""


def start(bench: Bench, run_id: str) -> subprocess.Popen[str]:
    command = ["-m", "dpone_provider.cli.main", "run", "m.yaml", "--dag-id", "dag", "--run-id", run_id]
    return subprocess.Popen(
        [sys.executable, *command, "--format", "json"],
        env={**os.environ, "AIRFLOW_CONN_SINK": connection_json(bench.sandbox), "PYTHONPATH": str(ROOT)},
        cwd=bench.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, object]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    document: dict[str, object] = json.loads(output)
    return document


@pytest.mark.contract("P6", "P7", "I3")
def test_a_killed_command_is_finished_by_the_same_command(
    sandbox: RunningSandbox, database: str, tmp_path: Path
) -> None:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    (tmp_path / "m.yaml").write_text(MANIFEST.format(database=database), encoding="utf-8")
    bench.write(0, rows=20_000)
    started = time.monotonic()
    finish(start(bench, "first"))
    whole = time.monotonic() - started
    moments = random.Random(7)
    for number in range(KILLS):
        before = bench.ids()[:1]
        bench.write(number + 1, rows=20_000)
        process = start(bench, f"run_{number}")
        time.sleep(moments.uniform(0.5, 1.0) * whole)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        record = bench.record()
        committed = record.operation.run_id == f"run_{number}" and record.phase in {"COMMITTED", "COMPLETE"}
        assert bench.ids()[:1] in (before, [number + 1]), "readers see the old or the new table"
        document = finish(start(bench, f"run_{number}"))
        assert bench.ids() == list(range(number + 1, number + 20_001))
        assert bench.private() == []
        assert (bench.record().phase, bench.record().owner) == ("COMPLETE", "")
        if committed:
            assert document["result"]["extracted_rows"] == 0  # type: ignore[index]
