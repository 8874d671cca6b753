"""What a load costs, client and server together: ``python -m benchmarks.load [--rounds 5] [--quick]``.

Every contender loads the same Parquet file (``benchmarks.data``) in a fresh child process, one after another in every
round, each into a database of its own; medians are shown. CPU seconds are the measure, wall time stands beside them:
on a shared machine it is noise. The last line is all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs

from benchmarks import data
from benchmarks.server import Server, started
from benchmarks.task import TABLE

ROUND: Final = ("bare", "governed", "governed_distinct", "plain", "insert_arrow", "dlt")
WORDS: Final = {
    "bare": "bare: streamed ArrowStream + EXCHANGE",
    "governed": "governed: gates, observations, authority, proof",
    "observed": "governed + the live target observed by a child",
    "governed_distinct": "governed + exact distinct of id, both sides",
    "plain": "selector off: gates, observations, no authority",
    "insert_arrow": "clickhouse-connect insert_arrow, 250k batches",
    "driver_rows": "rows through clickhouse-driver (scaled, see below)",
    "dlt": "dlt, Parquet, replace",
    "governed_twice": "governed, twice the rows",
}
SPEED, DISTINCT_SPEED, MEMORY, GROWTH = 0.85, 0.6, 512.0, 1.10


@attrs.frozen(kw_only=True)
class Median:
    """One contender over its runs: seconds, MiB, million rows."""

    name: str
    rows: int
    runs: int
    cpu: float
    client_cpu: float
    server_cpu: float
    process_cpu: float
    wall: float
    peak_rss: float


def one_run(server: Server, name: str, number: int, file: Path, rows: int) -> dict[str, float]:
    """One contender once, in a process of its own; its table is counted. Raises ``ValueError`` when it is wrong."""
    with server.task(f"bench_{name}_{number}", file, rows) as task:
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.contenders", name],
            input=task.dump(),
            capture_output=True,
            text=True,
            check=False,
        )
        if child.returncode:
            raise ValueError(f"{name} failed:\n{child.stderr}")
        table = f"dlt___{TABLE}" if name == "dlt" else TABLE
        found = server.ask(f"SELECT count(), uniqExact(id), sum(id) FROM {task.database}.{table}").split("\t")
        if found != [str(rows), str(rows), str(rows * (rows + 1) // 2)]:
            raise ValueError(f"{name} left other rows than it was given: {found}")
    figures: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    figures["cpu"] = figures["client_cpu"] + figures["server_cpu"]
    return figures


def middle(name: str, rows: int, runs: list[dict[str, float]], scale: int = 1) -> Median:
    """The medians of a contender's runs, times and rows multiplied by ``scale``."""
    found = {key: median(run[key] for run in runs) for key in runs[0]}
    times = {key: found[key] * scale for key in ("cpu", "client_cpu", "server_cpu", "process_cpu", "wall")}
    return Median(name=name, rows=rows * scale, runs=len(runs), peak_rss=found["peak_rss"], **times)


def measure(server: Server, rounds: int, names: Iterable[str], times: int) -> list[Median]:
    """All contenders, alternating; then those apart: Python rows on the flights once, governed with twice the rows."""
    file, rows = data.make_apart(times), times * data.FLIGHTS
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name, found in runs.items():
            found.append(one_run(server, name, number, file, rows))
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {rounds}: {name:<20}", end="", file=sys.stderr, flush=True)
    few, more = data.make_apart(data.FEW_TIMES), data.make_apart(2 * times)
    rowwise = one_run(server, "driver_rows", 0, few, data.FLIGHTS)
    twice = [one_run(server, "governed", rounds + number, more, 2 * rows) for number in range(min(rounds, 3))]
    print("\r" if sys.stderr.isatty() else "", end="", file=sys.stderr)
    return [
        *(middle(name, rows, found) for name, found in runs.items()),
        middle("driver_rows", data.FLIGHTS, [rowwise], scale=times),
        middle("governed_twice", 2 * rows, twice),
    ]


def table(medians: list[Median]) -> str:
    """The contenders, one a line; ratios are multiples of bare's cost for a row."""
    bare = medians[0]
    lines = [
        f"{'':<50}{'n':>3}{'M rows/s':>10}{'CPU s':>8}{'client':>8}{'server':>8}{'x bare':>8}{'+start':>8}"
        f"{'wall s':>8}{'x bare':>8}{'RSS MiB':>9}"
    ]
    for one in medians:
        share = bare.rows / one.rows
        lines.append(
            f"{WORDS[one.name]:<50}{one.runs:>3}{one.rows / one.wall / 1e6:>10.2f}{one.cpu:>8.2f}{one.client_cpu:>8.2f}"
            f"{one.server_cpu:>8.2f}{one.cpu * share / bare.cpu:>8.2f}"
            f"{one.process_cpu + one.server_cpu:>8.2f}{one.wall:>8.2f}"
            f"{one.wall * share / bare.wall:>8.2f}{one.peak_rss:>9.0f}"
        )
    return "\n".join(lines)


def targets(medians: list[Median]) -> list[dict[str, Any]]:
    """What was promised, what was measured, and whether it is met."""
    by = {one.name: one for one in medians}
    bare, governed = by["bare"], by["governed"]
    growth = by["governed_twice"].peak_rss / governed.peak_rss
    figures = (
        ("governed speed, share of bare (CPU)", bare.cpu / governed.cpu, ">=", SPEED),
        ("with exact distinct, share of bare (CPU)", bare.cpu / by["governed_distinct"].cpu, ">=", DISTINCT_SPEED),
        ("governed peak client RSS, MiB", governed.peak_rss, "<=", MEMORY),
        ("peak RSS with twice the rows, times", growth, "<=", GROWTH),
    )
    return [
        {
            "target": words,
            "value": round(value, 3),
            "bound": f"{sign} {bound:g}",
            "met": value >= bound if sign == ">=" else value <= bound,
        }
        for words, value, sign, bound in figures
    ]


def main() -> None:
    """Run, print the table and the targets, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of every contender (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one round over the flights once, to see that all works")
    args = parser.parse_args()
    rounds, times = (1, data.FEW_TIMES) if args.quick else (max(1, args.rounds), data.TIMES)
    names = [name for name in ROUND if name != "dlt" or importlib.util.find_spec("dlt")]
    if "dlt" not in names:
        print("dlt is left out: it is not installed (pip install 'dlt[clickhouse]').")
    with started() as server:
        medians = measure(server, rounds, names, times)
    checked = targets(medians)
    print(
        f"{medians[0].rows:,} rows x {len(data.ORDER)} columns from Parquet; medians of {rounds}; background merges off"
    )
    print(table(medians))
    print(f"rows through clickhouse-driver: one run of {data.FLIGHTS:,} rows, its times multiplied by {times}")
    print("x bare: cost of a row; +start: CPU s with interpreter, imports and preparation; RSS: peak of the client")
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']} (target {one['bound']})")
    figures = {one.name: {key: round(value, 3) for key, value in _numbers(one).items()} for one in medians}
    print(json.dumps({"benchmark": "load", "rounds": rounds, "figures": figures, "targets": checked}))


def _numbers(one: Median) -> dict[str, float]:
    return {key: value for key, value in attrs.asdict(one).items() if key != "name"}


if __name__ == "__main__":
    main()
