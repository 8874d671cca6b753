"""What observing the live target costs: ``python -m benchmarks.reader [--rounds 5] [--quick]``.

The child from its start to its answer on a small table, the readiness probe, and a whole durable load with the target
observed beside the plain load of the same file, alternating; medians. CPU seconds are client, child and server
together. The last line is all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks import data
from benchmarks.load import one_run
from benchmarks.server import Server, started
from dpone_provider.reader.target_reader import SupervisedTargetReader
from dpone_provider.replay.target_reader import TargetRequest
from dpone_provider.wire import DirectWire

REPLICA: Final = "single"
START, SHARE = 0.6, 0.8


def small_table(server: Server) -> TargetRequest:
    """A table of ten rows, and the request to observe it."""
    server.ask("CREATE DATABASE bench_reader ENGINE = Atomic")
    server.ask("CREATE TABLE bench_reader.t (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    server.ask("INSERT INTO bench_reader.t SELECT number, toString(number) FROM numbers(10)")
    generation, engine = server.ask(
        "SELECT toString(uuid), engine_full FROM system.tables WHERE database = 'bench_reader' AND name = 't'"
    ).split("\t")
    return TargetRequest(
        database="bench_reader",
        table="t",
        generation=generation,
        engine_full=engine,
        columns=(("id", "UInt64"), ("name", "String")),
        row_count=True,
        null_columns=("id", "name"),
        distinct_columns=("id", "name"),
        replicas=(REPLICA,),
        attempt_id=uuid.uuid4().hex,
    )


def seconds(work: Callable[[], object], times: int) -> float:
    """The median wall time of one call."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return median(took)


def figures(server: Server, rounds: int, times: int) -> dict[str, float]:
    """Everything measured: seconds, and shares of the plain load's speed."""
    request = small_table(server)
    reader = SupervisedTargetReader(
        {REPLICA: server.running.endpoint}, wire=DirectWire(), new_id=lambda: uuid.uuid4().hex
    )
    observe = seconds(lambda: reader.collect(request, deadline=time.monotonic() + 60), 9)
    probe = seconds(reader.ready, 9)
    file, rows = data.make_apart(times), times * data.FLIGHTS
    runs: dict[str, list[dict[str, float]]] = {"plain": [], "observed": []}
    for number in range(rounds):
        for name, found in runs.items():
            found.append(one_run(server, name, number, file, rows))
    cpu = {name: median(run["cpu"] for run in found) for name, found in runs.items()}
    wall = {name: median(run["wall"] for run in found) for name, found in runs.items()}
    return {
        "rows": rows,
        "observe_seconds": observe,
        "probe_seconds": probe,
        "plain_cpu": cpu["plain"],
        "observed_cpu": cpu["observed"],
        "share_cpu": cpu["plain"] / cpu["observed"],
        "share_wall": wall["plain"] / wall["observed"],
    }


def main() -> None:
    """Run, print the figures and the targets, and all as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each load (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one round over the flights once, to see that all works")
    args = parser.parse_args()
    rounds, times = (1, data.FEW_TIMES) if args.quick else (max(1, args.rounds), data.TIMES)
    with started() as server:
        found = figures(server, rounds, times)
    targets: list[dict[str, Any]] = [
        {
            "target": "child start to result on a small table, s",
            "value": found["observe_seconds"],
            "bound": f"<= {START:g}",
            "met": found["observe_seconds"] <= START,
        },
        {
            "target": "durable load with observed target, share of plain speed (CPU)",
            "value": found["share_cpu"],
            "bound": f">= {SHARE:g}",
            "met": found["share_cpu"] >= SHARE,
        },
    ]
    for name, value in found.items():
        print(f"{name:<18}{value:>14,.3f}")
    for one in targets:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']:.3f} (target {one['bound']})")
    rounded = {name: round(value, 3) for name, value in found.items()}
    print(json.dumps({"benchmark": "reader", "rounds": rounds, "figures": rounded, "targets": targets}))


if __name__ == "__main__":
    main()
