"""What quality costs, client and server together: ``python -m benchmarks.quality [--rounds 3] [--times 3] [--quick]``.

One load without the selector, with one policy after another (``benchmarks.policies``): every run in a fresh child
process and a database of its own, alternating; medians of CPU seconds, and how many times those of the load that asks
for nothing. The last line is all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import json

from benchmarks import data
from benchmarks.load import Median, middle, one_run
from benchmarks.policies import POLICIES, WORDS
from benchmarks.server import Server, started


def measure(server: Server, rounds: int, times: int) -> list[Median]:
    """All policies, alternating."""
    file, rows = data.make_apart(times), times * data.FLIGHTS
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in POLICIES}
    one_run(server, "quality_none", rounds, file, rows)  # the first load on a new server costs more
    for number in range(rounds):
        for name, found in runs.items():
            found.append(one_run(server, name, number, file, rows))
    return [middle(name, rows, found) for name, found in runs.items()]


def table(medians: list[Median]) -> str:
    """The policies, one a line."""
    least = medians[0].cpu
    lines = [f"{'':<58}{'CPU s':>8}{'client':>8}{'server':>8}{'ratio':>8}{'wall s':>8}{'RSS MiB':>9}"]
    lines += [
        f"{WORDS[one.name]:<58}{one.cpu:>8.2f}{one.client_cpu:>8.2f}{one.server_cpu:>8.2f}{one.cpu / least:>8.2f}"
        f"{one.wall:>8.2f}{one.peak_rss:>9.0f}"
        for one in medians
    ]
    return "\n".join(lines)


def main() -> None:
    """Run, print the table, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of every policy (default: 3)")
    parser.add_argument("--times", type=int, default=3, help="the flights so many times (default: 3, a million rows)")
    parser.add_argument("--quick", action="store_true", help="one round over the flights once, to see that all works")
    args = parser.parse_args()
    rounds, times = (1, data.FEW_TIMES) if args.quick else (max(1, args.rounds), max(1, args.times))
    with started() as server:
        medians = measure(server, rounds, times)
    print(f"{medians[0].rows:,} rows x {len(data.ORDER)} columns from Parquet, selector off; medians of {rounds}")
    print(table(medians))
    figures = {
        one.name.removeprefix("quality_"): {
            "ratio": round(one.cpu / medians[0].cpu, 3),
            "client_cpu": round(one.client_cpu, 3),
            "server_cpu": round(one.server_cpu, 3),
            "peak_rss": round(one.peak_rss, 1),
        }
        for one in medians
    }
    print(json.dumps({"benchmark": "quality", "rounds": rounds, "rows": medians[0].rows, "figures": figures}))


if __name__ == "__main__":
    main()
