"""Arguments that several commands share, and the values that they become (protocol 1; O6)."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from dpone_provider.errors import DponeError

if TYPE_CHECKING:
    from dpone_provider.load.outcome import RunIdentity
    from dpone_provider.manifest.spec import LoadSpec

MANUAL_DAG = "manual"
NAMESPACE_VARIABLE = "AIRFLOW__DPONE__NAMESPACE"


def add_format(parser: argparse.ArgumentParser) -> None:
    """``--format``."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: text)")


def add_process(parser: argparse.ArgumentParser) -> None:
    """The manifest and which of its processes."""
    parser.add_argument("manifest", metavar="PATH", help="the manifest file")
    parser.add_argument(
        "--selector",
        metavar="SCHEMA.TABLE",
        help="the process to take, as `dpone check` lists it (default: the only one of the manifest)",
    )


def add_connections(parser: argparse.ArgumentParser) -> None:
    """``--connections``."""
    parser.add_argument(
        "--connections",
        metavar="FILE",
        help=(
            "connections as `airflow connections export` writes them, .json, .yaml or .env "
            "(default: the environment's AIRFLOW_CONN_<ID>)"
        ),
    )


def add_identity(parser: argparse.ArgumentParser, *, without_run_id: str) -> None:
    """Who runs. ``without_run_id``: what a missing --run-id means for this command."""
    parser.add_argument("--dag-id", metavar="ID", default=MANUAL_DAG, help=f"the DAG's id (default: {MANUAL_DAG})")
    parser.add_argument("--run-id", metavar="ID", help=f"the DAG run's id (default: {without_run_id})")
    parser.add_argument("--task-id", metavar="ID", help="the task's id (default: the name of the process)")
    parser.add_argument(
        "--map-index", metavar="N", type=_map_index, default=-1, help="index of a mapped task (default: -1, not mapped)"
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help=f"the deployment's name (default: ${NAMESPACE_VARIABLE}, else 'default')",
    )


def identity_of(args: argparse.Namespace, spec: LoadSpec, run_id: str) -> RunIdentity:
    """The run identity that the arguments name. The same values as in Airflow give the same operation (I1)."""
    from dpone_provider.load.outcome import RunIdentity

    texts = {
        "--run-id": run_id,
        "--dag-id": args.dag_id,
        "--task-id": args.task_id or spec.process,
        "--namespace": namespace(args),
    }
    for option, value in texts.items():
        if not value or len(value) > 250 or not value.isprintable():
            raise DponeError("DPONE_USAGE", f"{option} must be 1 to 250 printable characters.")
    return RunIdentity(
        run_id=run_id,
        dag_id=args.dag_id,
        task_id=texts["--task-id"],
        namespace=texts["--namespace"],
        map_index=args.map_index,
    )


def namespace(args: argparse.Namespace) -> str:
    """The deployment's name: argument, environment, or ``default``."""
    return args.namespace or os.environ.get(NAMESPACE_VARIABLE) or "default"


def _map_index(text: str) -> int:
    if text != "-1" and not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("a map index is -1, 0, 1, …")
    return int(text)
