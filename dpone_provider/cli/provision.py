"""``dpone provision``: the authority table as text, or created once where it is missing (A7, O5)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from dpone_provider.cli import arguments
from dpone_provider.cli.emit import DONE, one_document, plain_failure, write_document, write_lines
from dpone_provider.errors import DponeError

if TYPE_CHECKING:
    from dpone_provider.clickhouse.endpoint import Endpoint


@attrs.frozen(kw_only=True)
class Place:
    """One authority to provision: a connection id, "" when nothing is connected to, and a database."""

    connection: str
    database: str


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``provision``; returns its parser."""
    parser = subparsers.add_parser(
        "provision",
        help="print or create the authority table",
        description=(
            "Print the DDL of the authority table; with --apply create it where it is missing. What is there already "
            "is compared and never changed. For the platform owner: loads themselves never create or repair it."
        ),
    )
    parser.add_argument(
        "manifest", metavar="PATH", nargs="?", help="take connections and databases from this manifest's processes"
    )
    parser.add_argument(
        "--connection", metavar="ID", help="the connection id of the server (with --apply, or without --database)"
    )
    parser.add_argument(
        "--database",
        metavar="NAME",
        help="the database (default: the connection's authority_database, else its own database)",
    )
    parser.add_argument(
        "--keeper-path", metavar="PATH", default="", help="literal path in Keeper (default: /dpone/<database>)"
    )
    parser.add_argument(
        "--create-database", action="store_true", help="create the database too, Atomic, where it is missing"
    )
    parser.add_argument("--apply", action="store_true", help="create what is missing (default: print only)")
    arguments.add_connections(parser)
    arguments.add_format(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when printed, created or exactly there; raises otherwise."""
    with one_document(args.format, plain_failure):
        answers = [_one(args, place) for place in _places(args)]
    if args.format == "json":
        write_document({"passed": True, "applied": args.apply, "authorities": answers})
    else:
        write_lines(_lines(answers, applied=args.apply))
    return DONE


def _one(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    from dpone_provider.clickhouse.provision import default_path, provision_statements

    path = args.keeper_path or default_path(place.database)
    try:
        statements = provision_statements(place.database, path=path, create_database=args.create_database)
    except ValueError:
        raise DponeError("DPONE_USAGE", "--keeper-path must start with / and hold no { or }.") from None
    answer: dict[str, Any] = {"database": place.database, "keeper_path": path, "statements": list(statements)}
    if args.apply:
        answer["state"] = _apply(args, place, path)
    return answer


def _apply(args: argparse.Namespace, place: Place, path: str) -> str:
    from dpone_provider.clickhouse.control import ControlClient
    from dpone_provider.clickhouse.provision import apply
    from dpone_provider.runtime.compose import REPLICA
    from dpone_provider.wire import DirectWire

    client = ControlClient(_endpoint(args, place.connection), DirectWire())
    try:
        done = apply({REPLICA: client}, place.database, path=path, create_database=args.create_database)
    finally:
        client.close()
    return done[REPLICA]


def _places(args: argparse.Namespace) -> list[Place]:
    """What to provision, each once. Raises DPONE_USAGE when the arguments do not say."""
    if args.manifest is not None:
        if args.connection or args.database:
            raise DponeError("DPONE_USAGE", "Give a manifest, or --connection and --database, not both.")
        return _of_manifest(args)
    if args.connection is None and (args.apply or args.database is None):
        raise DponeError("DPONE_USAGE", "Give a manifest, or --connection (and --database).")
    if args.database is not None:
        return [Place(connection=args.connection or "", database=args.database)]
    endpoint = _endpoint(args, args.connection)
    database = endpoint.authority_database or endpoint.database
    if not database:
        raise DponeError("DPONE_USAGE", "The connection names no database: give --database.")
    return [Place(connection=args.connection, database=database)]


def _of_manifest(args: argparse.Namespace) -> list[Place]:
    from dpone_provider.manifest.problems import ManifestError
    from dpone_provider.manifest.read import check_file

    checked = check_file(args.manifest)
    if checked.problems:
        raise ManifestError(checked.problems)
    sinks = [spec.sink for spec in checked.processes if spec.sink.durable_quality_replay]
    if not sinks:
        message = "No process of the manifest sets durable_quality_replay: there is nothing to provision."
        raise DponeError("DPONE_USAGE", message)
    places = []
    for sink in sinks:
        database = _endpoint(args, sink.connection_ref).authority_database or sink.table.database
        places.append(Place(connection=sink.connection_ref, database=database))
    return list(dict.fromkeys(places))


def _endpoint(args: argparse.Namespace, ref: str) -> Endpoint:
    from dpone_provider.runtime.connections import StaticConnections

    return StaticConnections(args.connections).endpoint(ref)


def _lines(answers: list[dict[str, Any]], *, applied: bool) -> Iterator[str]:
    for answer in answers:
        if applied:
            yield f"{answer['database']}.dpone_replay_authority: {answer['state']}"
        else:
            yield from (f"{statement};" for statement in answer["statements"])
