"""What partitions bring: ``python -m benchmarks.partitions [--rounds 3] [--rows 10000000] [--quick]``.

A ClickHouse table is loaded into another one in 16 partitions, each time by ``dpone run`` in a process of its own:
with one worker, with two, and again after one of the 16 lost its checkpoints, as after a crash before its commit. Wall
seconds with interpreter and imports, medians. The last line is all figures as one line of JSON.
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
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.server import Server, started
from dpone_provider.native.journal import CHECKPOINTS

PARTITIONS: Final = 16
ROWS: Final = 10_000_000
FASTER, RESUMED = 1.5, 1 / 8
COLUMNS: Final = (
    "id Int64, customer Int32, title String, price Decimal(12, 2), weight Float64, placed DateTime('UTC'), note String"
)
FILL: Final = """INSERT INTO bench_source.orders SELECT number, number % 1000, concat('order ', toString(number)),
 toDecimal64(number % 100000 / 100, 2), number / 7, toDateTime('2024-01-01', 'UTC') + number,
 concat('note ', toString(number % 50)) FROM numbers({rows})"""


def manifest(size: int, workers: int) -> dict[str, Any]:
    """The load; JSON is YAML."""
    source = {
        "type": "clickhouse",
        "connection_ref": "bench",
        "table": {"schema": "bench_source", "name": "orders"},
        "partitions": {"range": {"column": "id", "size": size}, "workers": workers, "folder": "transfers"},
    }
    sink = {
        "type": "clickhouse",
        "connection_ref": "bench",
        "table": {"schema": "bench_target", "name": "orders"},
        "strategy": {"mode": "partition_replace"},
        "options": {"physical_design": {"storage": {"clickhouse": {"order_by": ["id"]}}}},
    }
    gates = [{"id": "rows", "type": "row_count_reconciliation"}, {"id": "some", "type": "min_rows", "threshold": 1}]
    return {
        "kind": "dpone.batch.v1",
        "defaults": {"name": "orders", "source": source, "sink": sink},
        "quality": {"gates": gates},
        "schemas": {"bench_target": {"tables": ["orders"]}},
    }


def run(server: Server, folder: Path, name: str) -> float:
    """One ``dpone run`` of the manifest in ``folder`` as run ``name``; its wall seconds."""
    at = server.running
    login = {"host": at.host, "port": at.tcp_port, "login": at.user, "password": at.password}
    address = json.dumps({"conn_type": "dpone_clickhouse", **login, "extra": {"http_port": at.http_port}})
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "dpone_provider.cli.main", "run", "load.yaml", "--run-id", name, "--format", "json"],
        cwd=folder,
        env={**os.environ, "AIRFLOW_CONN_BENCH": address},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def forget_one(folder: Path) -> None:
    """Take one partition's checkpoints and artefact away."""
    [journal] = folder.glob(f"transfers/**/{CHECKPOINTS}")
    lines = journal.read_text().splitlines(keepends=True)
    gone = json.loads(lines[-1])["partition_id"]
    journal.write_text("".join(line for line in lines if json.loads(line)["partition_id"] != gone))
    for artifact in journal.parent.glob(f"**/{gone}*"):
        artifact.unlink()


def measure(server: Server, rows: int, rounds: int) -> dict[str, float]:
    """Medians of the three, alternating; every load is counted."""
    size = -(-rows // PARTITIONS)
    found: dict[str, list[float]] = {"one worker": [], "two workers": [], "resume of 1 of 16": []}
    for number in range(-1, rounds):  # the first round warms up
        for workers, name in ((1, "one worker"), (2, "two workers")):
            with _folder(size, workers) as folder:
                server.ask("TRUNCATE TABLE bench_target.orders SYNC")
                server.settle()
                walls = {name: run(server, folder, "bench")}
                if workers == 2:
                    forget_one(folder)
                    walls["resume of 1 of 16"] = run(server, folder, "bench")
            counted = server.ask("SELECT count(), uniqExact(id), sum(id) FROM bench_target.orders").split("\t")
            if counted != [str(rows), str(rows), str(rows * (rows - 1) // 2)]:
                raise ValueError(f"{name} left other rows than it was given: {counted}")
            for each, wall in walls.items() if number >= 0 else ():
                found[each].append(wall)
    return {name: median(walls) for name, walls in found.items()}


class _folder:
    """A folder with the manifest, removed at the end."""

    def __init__(self, size: int, workers: int) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="dpone_bench_"))
        (self._path / "load.yaml").write_text(json.dumps(manifest(size, workers)))

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


def targets(walls: dict[str, float]) -> Iterator[dict[str, Any]]:
    """What was promised, what was measured, and whether it is met."""
    faster = walls["one worker"] / walls["two workers"]
    resumed = walls["resume of 1 of 16"] / walls["two workers"]
    yield {
        "target": "two workers, times as fast as one",
        "value": round(faster, 3),
        "bound": FASTER,
        "met": faster >= FASTER,
    }
    yield {
        "target": "resume of 1 of 16, share of a full load",
        "value": resumed,
        "bound": RESUMED,
        "met": resumed <= RESUMED,
    }


def main() -> None:
    """Run, print the table and the targets, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: 3)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the source (default: {ROWS:,})")
    parser.add_argument("--quick", action="store_true", help="one round over 160,000 rows, to see that all works")
    args = parser.parse_args()
    rounds, rows = (1, 160_000) if args.quick else (max(1, args.rounds), max(PARTITIONS, args.rows))
    with started() as server:
        for name in ("bench_source", "bench_target"):
            server.ask(f"CREATE DATABASE {name} ENGINE = Atomic")
        server.ask(f"CREATE TABLE bench_source.orders ({COLUMNS}) ENGINE = MergeTree ORDER BY id")
        server.ask(FILL.format(rows=rows))
        key = f"intDiv(id, {-(-rows // PARTITIONS)})"
        server.ask(f"CREATE TABLE bench_target.orders ({COLUMNS}) ENGINE = MergeTree PARTITION BY {key} ORDER BY id")
        walls = measure(server, rows, rounds)
    print(f"{rows:,} rows x {COLUMNS.count(',')} columns in {PARTITIONS} partitions; medians of {rounds}")
    for name, wall in walls.items():
        print(f"{name:<24}{wall:>8.2f} s{rows / wall / 1e6:>8.2f} M rows/s")
    checked = list(targets(walls))
    figures = {name: round(wall, 3) for name, wall in walls.items()}
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']} (target {one['bound']:g})")
    print(
        json.dumps({"benchmark": "partitions", "rounds": rounds, "rows": rows, "figures": figures, "targets": checked})
    )


if __name__ == "__main__":
    main()
