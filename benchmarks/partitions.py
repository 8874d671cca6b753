"""What partitions bring: ``python -m benchmarks.partitions [--rounds 3] [--quick]``.

The flights of ``benchmarks.data`` 32 times (10.8 million rows of 20 columns) in 16 partitions, each time by ``dpone
run`` in a process of its own. Out of 16 Parquet files by ``full_refresh``, and out of a ClickHouse table on the same
server by ``partition_replace``: with one worker, with two. Out of the table once more after one of the 16 lost its
checkpoints, as after a crash before its commit. Wall seconds with interpreter and imports, medians; background merges
off. The last line is all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
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

from benchmarks import data
from benchmarks.server import Server, started
from benchmarks.task import QUIET_MERGES
from dpone_provider.native.journal import CHECKPOINTS

PARTITIONS: Final = 16
TIMES: Final = 2
FASTER, RESUMED = 1.5, 1 / 8
FILES, TABLE, RESUME = "files", "table", ", resume 1 of 16"


def make_files(folder: Path, times: int, most: int | None) -> int:
    """A file for each partition, the flights so many times in it, ids from 0 on; the rows of one, ``most`` at most."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    once = pq.read_table(data.make(data.FEW_TIMES)).drop_columns(["id"])
    flights = pa.concat_tables([once] * times).slice(0, most)
    for number in range(PARTITIONS):
        ids = pa.array(range(number * flights.num_rows, (number + 1) * flights.num_rows), pa.int64())
        field = pa.field("id", pa.int64(), nullable=False)
        pq.write_table(flights.append_column(field, ids), folder / f"flights_{number:02}.parquet")
    return int(flights.num_rows)


def manifest(kind: str, files: Path, size: int, workers: int) -> dict[str, Any]:
    """The load; JSON is YAML. ``size``: rows of a partition."""
    kept: dict[str, Any] = {"workers": workers, "folder": "transfers"}
    source: dict[str, Any] = {
        "type": "clickhouse",
        "connection_ref": "bench",
        "table": {"schema": "bench", "name": "source"},
        "partitions": {"range": {"column": "id", "size": size}, **kept},
    }
    if kind == FILES:
        pattern = str(files / "flights_*.parquet")
        source = {"type": "file", "format": "parquet", "path": pattern, "partitions": {"file": True, **kept}}
    sink = {
        "type": "clickhouse",
        "connection_ref": "bench",
        "table": {"schema": "bench", "name": "target"},
        "strategy": {"mode": "full_refresh" if kind == FILES else "partition_replace"},
        "options": {"physical_design": {"storage": {"clickhouse": {"order_by": ["id"], "settings": QUIET_MERGES}}}},
    }
    gates = [{"id": "rows", "type": "row_count_reconciliation"}, {"id": "some", "type": "min_rows", "threshold": 1}]
    return {
        "kind": "dpone.batch.v1",
        "defaults": {"source": source, "sink": sink},
        "quality": {"gates": gates},
        "schemas": {"bench": {"tables": ["target"]}},
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


def measure(server: Server, files: Path, size: int, rounds: int) -> dict[str, float]:
    """Medians of all, alternating; every load is counted."""
    found: dict[str, list[float]] = {}
    rows = PARTITIONS * size
    for number in range(-1, rounds):  # the first round warms up
        for kind, workers in ((FILES, 1), (FILES, 2), (TABLE, 1), (TABLE, 2)):
            name = f"{kind}, {('one worker', 'two workers')[workers - 1]}"
            with _folder(manifest(kind, files, size, workers)) as folder:
                create_target(server, size)
                server.settle()
                walls = {name: run(server, folder, "bench")}
                if kind == TABLE:
                    forget_one(folder)
                    walls[f"{name}{RESUME}"] = run(server, folder, "bench")
            counted = server.ask("SELECT count(), uniqExact(id), sum(id) FROM bench.target").split("\t")
            if counted != [str(rows), str(rows), str(rows * (rows - 1) // 2)]:
                raise ValueError(f"{name} left other rows than it was given: {counted}")
            for each, wall in walls.items() if number >= 0 else ():
                found.setdefault(each, []).append(wall)
    return {name: median(walls) for name, walls in found.items()}


def create_target(server: Server, size: int) -> None:
    """An empty target in partitions of the source's size."""
    merges = ", ".join(f"{name} = {value}" for name, value in QUIET_MERGES.items())
    server.ask("DROP TABLE IF EXISTS bench.target SYNC")
    design = f"ENGINE = MergeTree PARTITION BY intDiv(id, {size}) ORDER BY id SETTINGS {merges}"
    server.ask(f"CREATE TABLE bench.target ({columns()}) {design}")


def columns() -> str:
    """The columns of source and target, as DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in data.clickhouse_columns())


@contextlib.contextmanager
def _folder(load: dict[str, Any]) -> Iterator[Path]:
    """A folder with the manifest, removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="dpone_bench_"))
    try:
        (path / "load.yaml").write_text(json.dumps(load))
        yield path
    finally:
        shutil.rmtree(path)


def targets(walls: dict[str, float]) -> Iterator[dict[str, Any]]:
    """What was promised, what was measured, and whether it is met."""
    faster = walls["files, one worker"] / walls["files, two workers"]
    one, two = (walls[f"{name}{RESUME}"] / walls[name] for name in ("table, one worker", "table, two workers"))
    for target, value, bound, met in (
        ("files: two workers, times as fast as one", faster, FASTER, faster >= FASTER),
        ("table: resume of 1 of 16, share of a full load, one worker", one, RESUMED, one <= RESUMED),
        ("table: the same, two workers", two, RESUMED, two <= RESUMED),
    ):
        yield {"target": target, "value": round(value, 3), "bound": bound, "met": met}


def main() -> None:
    """Run, print the table and the targets, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one round over 160,000 rows, to see that all works")
    args = parser.parse_args()
    rounds = 1 if args.quick else max(1, args.rounds)
    with started() as server, _folder({}) as files:
        size = make_files(files, TIMES, 10_000 if args.quick else None)
        server.ask("CREATE DATABASE bench ENGINE = Atomic")
        server.ask(
            f"CREATE TABLE bench.source ({columns()}) ENGINE = MergeTree ORDER BY id", data_type_default_nullable="0"
        )
        for file in sorted(files.glob("*.parquet")):
            server.insert(file, "INSERT INTO bench.source FORMAT Parquet")
        walls = measure(server, files, size, rounds)
    print(f"{PARTITIONS * size:,} rows x {len(data.ORDER)} columns in {PARTITIONS} partitions; medians of {rounds}")
    for name, wall in walls.items():
        print(f"{name:<36}{wall:>8.2f} s{PARTITIONS * size / wall / 1e6:>8.2f} M rows/s")
    checked = list(targets(walls))
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']} (target {one['bound']:g})")
    figures = {name: round(wall, 3) for name, wall in walls.items()}
    document = {"benchmark": "partitions", "rounds": rounds, "rows": PARTITIONS * size}
    print(json.dumps({**document, "figures": figures, "targets": checked}))


if __name__ == "__main__":
    main()
