"""``dpone demo``: a load that is killed after its commit, finished by Airflow's retry, and checked on the server."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from dpone_provider.cli.emit import DONE
from dpone_provider.errors import DponeError

HOME = ".dpone/demo"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``demo``; returns its parser."""
    parser = subparsers.add_parser(
        "demo",
        help="see a load survive a kill, on a server of your own",
        description=(
            "Start an embedded ClickHouse and a real Airflow, load 336,776 flights through a DAG whose first try is "
            "killed by SIGKILL after the commit and before completion, let the retry finish it, and check on the "
            "server what is true. Takes about a minute and leaves nothing running."
        ),
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help=f"a folder of its own (default: {HOME})")
    parser.add_argument("--keep", action="store_true", help="leave ClickHouse running afterwards, to look around")
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when every claim that is shown was found to be true on the server."""
    from dpone_provider.cli.interrupt import terminable
    from dpone_provider.cli.outcome_screen import outcome_screen
    from dpone_provider.cli.show import show
    from dpone_provider.sandbox.demo import story

    home = (args.folder or Path(HOME)).expanduser().absolute()
    started = time.monotonic()

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - started:5.1f} s  {line}\n")
        sys.stdout.flush()

    with terminable():
        story.prepare(home)
        with story.server(home, tell, keep=args.keep) as running:
            tries = story.load_through_airflow(home, running, tell)
            evidence = story.look(home, running)
            checks = story.claims(home, tries, evidence)
    show(outcome_screen(evidence.outcome.document()))
    for claim, true in checks:
        tell(f"{'checked' if true else 'NOT TRUE'}: {claim}")
    if args.keep:
        place = f"--folder {home / 'clickhouse'}"
        sys.stdout.write(
            "\nClickHouse is still running. Look around, then stop it:\n"
            f"  dpone sandbox sql {place} 'SELECT carrier, count() FROM demo.flights GROUP BY carrier'\n"
            f"  dpone sandbox stop {place}\n"
        )
    if not all(true for _, true in checks):
        raise DponeError("DPONE_DEMO_FAILED", "A claim of the demo is not true.", remedy=f"Look into {home}.")
    if not args.keep:
        sys.stdout.write("\nNothing is left running. Next: `dpone demo --keep`, or the example in dags_examples/.\n")
    return DONE
