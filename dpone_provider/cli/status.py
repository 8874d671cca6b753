"""``dpone status``: what is true about a target and its slot.

Reads only: nothing is cleared, forced or repaired (O5).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dpone_provider.cli import arguments
from dpone_provider.cli.emit import DONE, one_document, plain_failure, write_document
from dpone_provider.errors import DponeError

if TYPE_CHECKING:
    from dpone_provider.cli.sighting import Sighting
    from dpone_provider.replay.ports import CatalogFacts
    from dpone_provider.replay.record import Found
    from dpone_provider.runtime.compose import Composition

_NO_RUN = "none: whatever operation holds the slot"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``status``; returns its parser."""
    parser = subparsers.add_parser(
        "status",
        help="say what is true about a target, read-only",
        description=(
            "Show a target's slot, the operation in it, its proof, the live table and what is left behind, and say "
            "what to do next. Reads only. With --run-id it also says whether that operation is the one in the slot."
        ),
    )
    arguments.add_process(parser)
    arguments.add_identity(parser, without_run_id=_NO_RUN)
    arguments.add_connections(parser)
    arguments.add_format(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="also write the page that Airflow shows of a load (default: none)"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when there is an answer, whatever it says."""
    from dpone_provider.cli.status_report import report

    with one_document(args.format, plain_failure):
        saw = _look(args)
        document = report(saw)
        if args.html is not None:
            _write_page(saw, args.html)
    if args.format == "json":
        write_document(document)
    else:
        from dpone_provider.cli.show import show
        from dpone_provider.cli.status_screen import status_screen

        show(status_screen(document))
    return DONE


def _write_page(saw: Sighting, file: str) -> None:
    from pathlib import Path

    from dpone_provider.cli.status_page import page

    try:
        Path(file).write_text(page(saw), encoding="utf-8")
    except OSError:
        raise DponeError("DPONE_USAGE", "The file of --html cannot be written.") from None


def _look(args: argparse.Namespace) -> Sighting:
    from dpone_provider.manifest.read import load_spec
    from dpone_provider.runtime.compose import Surroundings, compose
    from dpone_provider.runtime.connections import StaticConnections
    from dpone_provider.wire import StatementFailed

    spec = load_spec(args.manifest, args.selector)
    identity = arguments.identity_of(args, spec, args.run_id if args.run_id is not None else "none")
    with compose(spec, identity, StaticConnections(args.connections), Surroundings()) as made:
        try:
            return _sight(made, asked=args.run_id is not None)
        except StatementFailed as failed:
            if failed.code is None:
                raise DponeError("DPONE_SERVER_UNREACHABLE", "The server stopped answering.") from None
            raise DponeError("DPONE_SERVER_REFUSED", f"A read was refused (server error {failed.code}).") from None


def _sight(made: Composition, *, asked: bool) -> Sighting:
    """Everything that is read, in one value. Only SELECTs are sent."""
    from dpone_provider.cli.sighting import Sighting
    from dpone_provider.manifest.digest import admission_digest
    from dpone_provider.replay.ports import CatalogFacts

    answering = [name for name in made.replicas if made.inventory is None or _facts(made, name) is not None]
    if not answering:
        raise DponeError("DPONE_SERVER_UNREACHABLE", "No replica of the cluster answers.")
    problem, found, archived = "", None, False
    if made.spec.sink.durable_quality_replay:
        problem, found, archived = _slot(made, answering, asked=asked)
    seen = {name: _facts(made, name) if name in answering else None for name in made.replicas}
    return Sighting(
        spec=made.spec,
        operation=made.operation if asked else None,
        admission_digest=admission_digest(made.spec),
        authority=f"{made.authority_database}.dpone_replay_authority",
        problem=problem,
        found=found,
        archived=archived,
        facts=next((facts for facts in seen.values() if facts is not None), CatalogFacts(live=None, private=())),
        replicas=seen if made.inventory is not None else {},
    )


def _facts(made: Composition, replica: str) -> CatalogFacts | None:
    """What one replica shows; None for one of several that does not answer."""
    from dpone_provider.wire import StatementFailed

    try:
        return made.catalog.facts(replica, f"{made.operation.target.table}__dpone_")
    except (DponeError, StatementFailed):
        if made.inventory is None:
            raise
        return None


def _slot(made: Composition, replicas: list[str], *, asked: bool) -> tuple[str, Found | None, bool]:
    """What is wrong with the authority ("" = nothing), the slot, whether the asked operation is archived as failed."""
    from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
    from dpone_provider.replay.record import parse_slot

    clients = {name: made.clients[name] for name in replicas}
    store = ClickHouseReplayQualityStore(clients, made.authority_database)
    key = made.operation.target.key
    try:
        store.admit()
        slot = store.read(key)
    except DponeError as error:
        if error.code != "DPONE_REPLAY_AUTHORITY_UNSUPPORTED":
            raise
        return error.message, None, False
    found = parse_slot(slot, key=key)
    archived = asked and bool(store.read(f"{key}@{made.operation.operation_id}").rows)
    return "", found, archived
