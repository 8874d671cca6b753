"""``dpone sandbox start|stop|status|sql``. Nothing heavy is imported until a command needs it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpone_provider.sandbox.folder import RunningSandbox

CONNECTION_ID = "dpone_sandbox"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``sandbox`` with its four sub-commands; returns its parser."""
    parser = subparsers.add_parser(
        "sandbox",
        help="a ClickHouse server of your own on this machine, for trying and testing",
        description="Run a real ClickHouse server out of the wheel chdb-core, on loopback, for trying and testing.",
    )
    add_commands(parser)
    return parser


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the four sub-commands to ``parser``."""
    commands = parser.add_subparsers(dest="sandbox_command", required=True, metavar="start|stop|status|sql")
    start = _command(commands, "start", "start a server in the background and print how to reach it")
    start.add_argument("--tcp-port", type=_port, default=0, metavar="PORT", help="native port (default: any free one)")
    start.add_argument("--http-port", type=_port, default=0, metavar="PORT", help="HTTP port (default: any free one)")
    start.add_argument(
        "--zookeeper",
        type=_address,
        metavar="HOST:PORT",
        help="use this ZooKeeper (default: a Keeper in memory, gone at stop)",
    )
    start.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="give up after this time (default: 30)"
    )
    _command(commands, "stop", "stop the server; its data stays in the folder")
    _command(commands, "status", "say whether a server runs; exit code 0 when it does, 1 when not")
    sql = _command(commands, "sql", "run one statement and print its result")
    sql.add_argument("statement", metavar="STATEMENT", help="the SQL; '-' reads it from standard input")
    sql.add_argument("--database", default="default", help="database of unqualified names (default: default)")


def run(args: argparse.Namespace) -> int:
    """Run the parsed command and return its exit code: 0 done, 1 not.

    Raises: DponeError DPONE_SANDBOX_*; the command line's edge renders it.
    """
    commands = {"start": _start, "stop": _stop, "status": _status, "sql": _sql}
    return commands[args.sandbox_command](args, _folder(args.folder))


def connection_json(running: RunningSandbox) -> str:
    """The Airflow connection of a sandbox as JSON, as ``AIRFLOW_CONN_<ID>`` takes it."""
    fields = {
        "conn_type": "dpone_clickhouse",
        "host": running.host,
        "port": running.tcp_port,
        "login": running.user,
        "password": running.password,
        "extra": {"http_port": running.http_port},
    }
    return json.dumps(fields, separators=(",", ":"))


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="the sandbox's folder (default: $DPONE_SANDBOX_HOME, else .dpone/sandbox)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: text)")
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError("a port is a whole number from 0 to 65535")
    return int(text)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host:
        raise argparse.ArgumentTypeError("give HOST:PORT")
    _port(port)
    return text


def _folder(chosen: Path | None) -> Path:
    return (chosen or Path(os.environ.get("DPONE_SANDBOX_HOME") or ".dpone/sandbox")).expanduser().absolute()


def _start(args: argparse.Namespace, folder: Path) -> int:
    from dpone_provider.sandbox.config import SandboxConfig
    from dpone_provider.sandbox.process import SandboxServer

    config = SandboxConfig(folder=folder, tcp_port=args.tcp_port, http_port=args.http_port, zookeeper=args.zookeeper)
    running = SandboxServer(start_seconds=args.timeout).start(config)
    _print(args.format, _facts(running) | {"state": "running"}, _text(running))
    return 0


def _stop(args: argparse.Namespace, folder: Path) -> int:
    from dpone_provider.sandbox.process import SandboxServer

    pid = SandboxServer().stop(folder)
    _print(
        args.format, {"state": "stopped", "pid": pid}, f"stopped (it was process {pid}); the data stays in the folder"
    )
    return 0


def _status(args: argparse.Namespace, folder: Path) -> int:
    from dpone_provider.sandbox.process import SandboxServer

    status = SandboxServer().status(folder)
    text = {
        "stopped": "stopped: start it with `dpone sandbox start`",
        "silent": "silent: a process holds the folder and does not answer (yet)",
    }
    if status.running is None:
        _print(args.format, {"state": status.state}, text[status.state])
        return 1
    _print(args.format, _facts(status.running) | {"state": status.state}, _text(status.running))
    return 0


def _facts(running: RunningSandbox) -> dict[str, Any]:
    return {
        "host": running.host,
        "tcp_port": running.tcp_port,
        "http_port": running.http_port,
        "user": running.user,
        "pid": running.pid,
        "folder": str(running.folder),
        "version": running.version,
        "started_seconds": running.started_seconds,
        "connection_id": CONNECTION_ID,
        "connection": json.loads(connection_json(running)),
    }


def _text(running: RunningSandbox) -> str:
    export = f"export AIRFLOW_CONN_{CONNECTION_ID.upper()}={shlex.quote(connection_json(running))}"
    return (
        f"ClickHouse {running.version} runs as process {running.pid}\n"
        f"  host    {running.host}\n"
        f"  native  {running.tcp_port}\n"
        f"  HTTP    {running.http_port}\n"
        f"  user    {running.user}\n"
        f"  folder  {running.folder}\n"
        f"Use it as connection {CONNECTION_ID}:\n{export}"
    )


def _print(form: str, facts: dict[str, Any], text: str) -> None:
    print(json.dumps(facts, indent=2) if form == "json" else text)


def _sql(args: argparse.Namespace, folder: Path) -> int:
    from dpone_provider.sandbox.statement import print_result

    statement = sys.stdin.read() if args.statement == "-" else args.statement
    return print_result(folder, statement, database=args.database, form=args.format)
