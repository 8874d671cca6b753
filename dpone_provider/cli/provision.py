"""``dpone provision``: the authority, or the load tables, as text or created once where they are missing (A7, O5)."""

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
    from dpone_provider.clickhouse.provision import Provisioned, Wanted
    from dpone_provider.manifest.spec import SinkSpec


@attrs.frozen(kw_only=True)
class Place:
    """One database to provision: a connection id, "" when nothing is connected to, and a database.

    ``cluster``: on each of whose replicas, "" = on the one server.
    """

    connection: str
    database: str
    cluster: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``provision``; returns its parser."""
    parser = subparsers.add_parser(
        "provision",
        help="print or create the tables that loads need",
        description=(
            "Print the DDL of the authority table, or with --load-tables of the tables of load steps and of source "
            "state; with --apply create what is missing. What is there already is compared and never changed. For the "
            "platform owner: loads themselves never create them."
        ),
    )
    parser.add_argument(
        "manifest", metavar="PATH", nargs="?", help="take connections and databases from this manifest's processes"
    )
    parser.add_argument(
        "--load-tables",
        action="store_true",
        help="the tables dpone_load_steps and dpone_source_state, for loads that append or read by cursor",
    )
    parser.add_argument(
        "--connection", metavar="ID", help="the connection id of the server (with --apply, or without --database)"
    )
    parser.add_argument(
        "--database",
        metavar="NAME",
        help="the database (default: the connection's own; of the authority its authority_database before that)",
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        default="",
        help="provision every replica of this cluster of one shard (default: the one server of the connection)",
    )
    parser.add_argument(
        "--attestation",
        metavar="TEXT",
        default="",
        help="who says that all replicas use one Keeper service: kept as the comment of a new authority table",
    )
    parser.add_argument(
        "--keeper-path",
        metavar="PATH",
        default="",
        help="literal path in Keeper (default: /dpone/<database>; of source state /dpone_source_state/<database>)",
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
        found = "load_tables" if args.load_tables else "authorities"
        write_document({"passed": True, "applied": args.apply, found: answers})
    else:
        write_lines(_lines(answers))
    return DONE


def _one(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    from dpone_provider.clickhouse.provision import authority, database_ddl, default_path, load_tables, marks_path

    path = args.keeper_path or (marks_path if args.load_tables else default_path)(place.database)
    try:
        tables = (
            load_tables(place.database, path)
            if args.load_tables
            else (authority(place.database, path, args.attestation),)
        )
    except ValueError:
        raise DponeError("DPONE_USAGE", "--keeper-path must start with / and hold no { or }.") from None
    statements = [database_ddl(place.database)] if args.create_database else []
    statements += [table.ddl for table in tables]
    answer: dict[str, Any] = {"database": place.database, "keeper_path": path, "statements": statements}
    if args.apply:
        states = _apply(args, place, tables)
        answer |= {"replicas": states} if place.cluster else {"states": next(iter(states.values()))}
    return answer


def _apply(args: argparse.Namespace, place: Place, tables: tuple[Wanted, ...]) -> dict[str, dict[str, Provisioned]]:
    """What was done, by replica and table."""
    from dpone_provider.clickhouse.provision import provision
    from dpone_provider.runtime.compose import reached
    from dpone_provider.wire import DirectWire

    with reached(_endpoint(args, place.connection), place.cluster, DirectWire()) as (_, _, clients):
        return {
            name: provision(client, place.database, tables, replica=name, create_database=args.create_database)
            for name, client in clients.items()
        }


def _places(args: argparse.Namespace) -> list[Place]:
    """What to provision, each once. Raises DPONE_USAGE when the arguments do not say."""
    if args.manifest is not None:
        if args.connection or args.database or args.cluster:
            raise DponeError("DPONE_USAGE", "Give a manifest, or --connection, --database and --cluster, not both.")
        return _of_manifest(args)
    if args.connection is None and (args.apply or args.database is None):
        raise DponeError("DPONE_USAGE", "Give a manifest, or --connection (and --database).")
    if args.database is not None:
        return [Place(connection=args.connection or "", database=args.database, cluster=args.cluster)]
    endpoint = _endpoint(args, args.connection)
    database = endpoint.database if args.load_tables else endpoint.authority_database or endpoint.database
    if not database:
        raise DponeError("DPONE_USAGE", "The connection names no database: give --database.")
    return [Place(connection=args.connection, database=database, cluster=args.cluster)]


def _of_manifest(args: argparse.Namespace) -> list[Place]:
    from dpone_provider.manifest.problems import ManifestError
    from dpone_provider.manifest.read import check_file

    checked = check_file(args.manifest)
    if checked.problems:
        raise ManifestError(checked.problems)
    if args.load_tables:
        specs = [spec for spec in checked.processes if spec.sink.strategy.mode == "append" or spec.source.cursor]
        places = [Place(connection=spec.sink.connection_ref, database=spec.sink.table.database) for spec in specs]
        problem = "appends or reads by cursor"
    else:
        sinks = [spec.sink for spec in checked.processes if spec.sink.durable_quality_replay]
        places = [
            Place(connection=sink.connection_ref, database=_authority(args, sink), cluster=sink.cluster)
            for sink in sinks
        ]
        problem = "sets durable_quality_replay"
    if not places:
        raise DponeError("DPONE_USAGE", f"No process of the manifest {problem}: there is nothing to provision.")
    return list(dict.fromkeys(places))


def _authority(args: argparse.Namespace, sink: SinkSpec) -> str:
    return _endpoint(args, sink.connection_ref).authority_database or sink.table.database


def _endpoint(args: argparse.Namespace, ref: str) -> Endpoint:
    from dpone_provider.runtime.connections import StaticConnections

    return StaticConnections(args.connections).endpoint(ref)


def _lines(answers: list[dict[str, Any]]) -> Iterator[str]:
    for answer in answers:
        on = answer.get("replicas", {"": answer.get("states", {})})
        states = [(name, table, state) for name, tables in on.items() for table, state in tables.items()]
        if states:
            yield from (
                f"{answer['database']}.{table}{f' on {name}' if name else ''}: {state}" for name, table, state in states
            )
        else:
            yield from (f"{statement};" for statement in answer["statements"])
