"""What starting costs: ``python -m benchmarks.startup [--runs 9]``.

A committed retry (``dpone run`` of a load that is already published and proven, ``--format json``), ``dpone check``
and ``import dpone_provider``, each as a process of its own, alternating with a bare interpreter start. Medians of wall
time; CPU seconds beside it. The retry must read no source, insert nothing, publish nothing, and leave Arrow, the bulk
driver and Airflow unimported. The last line is all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.server import Server, started
from dpone_provider.sandbox.command import connection_json

DATABASE: Final = "bench_startup"
MANIFEST: Final = """\
kind: dpone.batch.v1
defaults:
  source: {type: file, format: csv, path: source.csv}
  sink:
    type: clickhouse
    connection_ref: warehouse
    table: {schema: bench_startup, name: t}
    strategy: {mode: full_refresh, max_source_bytes: 1000000}
    columns: {id: UInt64, name: Nullable(String)}
    options:
      durable_quality_replay: true
      physical_design: {storage: {clickhouse: {engine: MergeTree, order_by: [id]}}}
quality:
  gates:
    - {id: rows, type: row_count_reconciliation, severity: error, tolerance: {mode: absolute, value: 0}}
    - {id: some, type: min_rows, severity: error, threshold: 1}
  acceptance:
    enabled: true
    mode: required
    capture: {source: true, staged: true, target: true}
    checks: {row_count: true, null_counts: [name], distinct_counts: [id]}
schemas:
  main: {tables: [t]}
"""
NOTHING: Final = {"source_reads": 0, "inserts": 0, "exchanges": 0, "renames": 0}
HEAVY: Final = ("pyarrow", "clickhouse_connect", "airflow", "pandas", "rich")
RETRY, CHECK, IMPORT = 0.5, 0.3, 0.03


class Bench:
    """A folder with a manifest, a small source and a connection."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder
        connections = {"warehouse": json.loads(connection_json(server.running))}
        (folder / "connections.json").write_text(json.dumps(connections), encoding="utf-8")
        (folder / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
        (folder / "source.csv").write_text("id,name\n1,a\n2,b\n3,\n", encoding="utf-8")
        server.ask(f"CREATE DATABASE {DATABASE} ENGINE = Atomic")
        self._where = ("manifest.yaml", "--connections", "connections.json")
        self.retry = self._dpone("run", *self._where, "--dag-id", "d", "--run-id", "r1", "--format", "json")
        self.check = self._dpone("check", "manifest.yaml", "--format", "json")
        self.package = [sys.executable, "-c", "import dpone_provider"]
        self.interpreter = [sys.executable, "-c", "pass"]

    def load(self) -> None:
        """Provision the authority and load once, so that whatever follows is a committed retry."""
        self.run(self._dpone("provision", *self._where, "--apply"))
        self.run(self.retry)

    def run(self, command: list[str]) -> tuple[float, float, str]:
        """Wall seconds, CPU seconds and stdout of a command. Raises ``ValueError`` when it fails."""
        before, began = os.times(), time.perf_counter()
        child = subprocess.run(
            command, capture_output=True, text=True, cwd=self._folder, check=False, env={**os.environ, **_path()}
        )
        wall, after = time.perf_counter() - began, os.times()
        if child.returncode:
            raise ValueError(f"{command[1:]} failed:\n{child.stdout}{child.stderr}")
        used = after.children_user - before.children_user + after.children_system - before.children_system
        return wall, used, child.stdout

    def require_nothing_repeated(self) -> None:
        """A committed retry did no work, and imported nothing heavy. Raises ``ValueError`` otherwise."""
        effects = json.loads(self.run(self.retry)[2])["effects"]
        if not NOTHING.items() <= effects.items():
            raise ValueError(f"the retry was not a committed one: {effects}")
        probe = (
            "import sys; from dpone_provider.cli.main import main; code = main(sys.argv[1:]); "
            f"sys.stdout.write('\\n' + ' '.join(name for name in {HEAVY!r} if name in sys.modules)); sys.exit(code)"
        )
        arguments = self.retry[self.retry.index("run") :]
        imported = self.run([sys.executable, "-c", probe, *arguments])[2].splitlines()[-1].strip()
        if imported:
            raise ValueError(f"the retry imported {imported}")

    @staticmethod
    def _dpone(*arguments: str) -> list[str]:
        beside = Path(sys.executable).parent / "dpone"
        found = str(beside) if beside.exists() else shutil.which("dpone")
        return [*([found] if found else [sys.executable, "-m", "dpone_provider.cli.main"]), *arguments]


def _path() -> dict[str, str]:
    """The work tree on the child's path, for a package that is not installed."""
    return {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])}


def measure(bench: Bench, runs: int) -> dict[str, dict[str, float]]:
    """Medians of wall and CPU seconds; ``over`` and ``cpu_over`` are what stands above the bare interpreter."""
    commands = {
        "interpreter": bench.interpreter,
        "retry": bench.retry,
        "check": bench.check,
        "import": bench.package,
    }
    found: dict[str, list[tuple[float, float, str]]] = {name: [] for name in commands}
    for command in commands.values():
        bench.run(command)  # bytecode and page cache
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(bench.run(command))
    wall = {name: median(run[0] for run in all_runs) for name, all_runs in found.items()}
    cpu = {name: median(run[1] for run in all_runs) for name, all_runs in found.items()}
    return {
        name: {
            "wall": wall[name],
            "over": wall[name] - wall["interpreter"],
            "cpu": cpu[name],
            "cpu_over": cpu[name] - cpu["interpreter"],
        }
        for name in commands
    }


def targets(figures: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """What was promised, what was measured, and whether it is met; seconds."""
    rows = (
        ("committed retry, over the interpreter's start", figures["retry"]["over"], RETRY),
        ("dpone check, whole process", figures["check"]["wall"], CHECK),
        ("import dpone_provider, over the interpreter's start", figures["import"]["over"], IMPORT),
    )
    return [
        {"target": words, "value": round(value, 4), "bound": f"<= {bound:g} s", "met": value <= bound}
        for words, value, bound in rows
    ]


def main() -> None:
    """Run, print the table and the targets, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="runs of every command (default: 9)")
    runs = max(5, parser.parse_args().runs)
    folder = Path(tempfile.mkdtemp(prefix="dpone_bench_"))
    try:
        with started() as server:
            bench = Bench(folder, server)
            bench.load()
            bench.require_nothing_repeated()
            figures = measure(bench, runs)
    finally:
        shutil.rmtree(folder)
    checked = targets(figures)
    print(f"medians of {runs}, seconds")
    print(f"{'':<34}{'wall':>8}{'over':>8}{'CPU':>8}{'over':>8}")
    for name, one in figures.items():
        print(f"{name:<34}{one['wall']:>8.3f}{one['over']:>8.3f}{one['cpu']:>8.3f}{one['cpu_over']:>8.3f}")
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']} (target {one['bound']})")
    rounded = {name: {key: round(value, 4) for key, value in one.items()} for name, one in figures.items()}
    print(json.dumps({"benchmark": "startup", "runs": runs, "figures": rounded, "targets": checked}))


if __name__ == "__main__":
    main()
