"""The command ``dpone``: its parser, and the one edge where every error becomes an exit code and a line.

Nothing is imported before the command is known; a command imports what it needs when it runs (O5).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from dpone_provider import __version__
from dpone_provider.cli.emit import (
    PIPE_CLOSED,
    REFUSED,
    error_line,
    exit_code,
    plain_failure,
    printable,
    write_document,
)
from dpone_provider.errors import DponeError

COMMANDS = {
    "check": ("dpone_provider.cli.check", "check manifests without running anything"),
    "plan": ("dpone_provider.cli.plan", "say what a load would do, offline"),
    "run": ("dpone_provider.cli.run", "run one load to its proven end"),
    "provision": ("dpone_provider.cli.provision", "print or create the tables that loads need"),
    "status": ("dpone_provider.cli.status", "say what is true about a target, read-only"),
    "doctor": ("dpone_provider.cli.doctor", "say what would refuse a load, before the first one"),
    "sandbox": (
        "dpone_provider.sandbox.command",
        "a ClickHouse server of your own on this machine, for trying and testing",
    ),
    "demo": ("dpone_provider.cli.demo", "see a load survive a kill, on a server of your own"),
}
_EPILOG = """exit codes: 0 done; 1 failed while running; 2 wrong usage, manifest or connection, no server was asked;
130 interrupted; 143 terminated; 141 the reader of the output went away.
DPONE_DEBUG=1 adds the traceback of an error."""


class Parser(argparse.ArgumentParser):
    """argparse that guesses no abbreviation and repeats no value of the command line in an error."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise DponeError("DPONE_USAGE", _without_values(message), remedy=f"See `{self.prog} --help`.")


def build_parser(only: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser. Commands outside ``only`` stand there with their name and help line, without their module."""
    parser = Parser(
        prog="dpone",
        description="Declarative ClickHouse loads that are safe to retry and cannot report success without proof.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpone {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        if name in only:
            importlib.import_module(module).add_parser(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (``cli.emit`` lists them). The one broad edge of the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _tolerate_any_encoding()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_gone()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge
        return _ended(error)


def _run(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    try:
        args = build_parser({name}).parse_args(arguments)
    except DponeError as error:
        if _asks_for_json(arguments):
            write_document(plain_failure(error))
        raise
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else REFUSED
    code: int = importlib.import_module(COMMANDS[args.command][0]).run(args)
    return code


def _ended(error: BaseException) -> int:
    try:
        sys.stdout.flush()
        problems = getattr(error, "problems", ())
        sys.stderr.writelines(printable(str(problem)) + "\n" for problem in problems)
        sys.stderr.write((f"dpone: {_to_correct(len(problems))}" if problems else error_line(error)) + "\n")
        if os.environ.get("DPONE_DEBUG") == "1":
            sys.stderr.write(_frames(error))
        sys.stderr.flush()
    except BrokenPipeError:
        return _reader_gone()
    return exit_code(error)


def _to_correct(number: int) -> str:
    return f"{number} problem{'' if number == 1 else 's'} to correct"


def _frames(error: BaseException) -> str:
    """The traceback of an error and of what caused it: frames and class names, never a text."""
    import traceback

    lines: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        lines += [*traceback.format_tb(seen.__traceback__), f"{type(seen).__name__}\n"]
        seen = seen.__cause__ or seen.__context__
    return "".join(lines)


def _without_values(message: str) -> str:
    """argparse's message without the words that it repeats, except option names."""
    head, found, rest = message.partition("unrecognized arguments:")
    if found:
        options = [word.partition("=")[0] for word in rest.split() if re.match(r"--[a-z]", word)]
        return f"Unknown arguments{': ' + ', '.join(options) if options else ''}."
    return (
        re.sub(r"(invalid [a-z_ ]+): (?:'[^']*'|\"[^\"]*\"|.*?)(?= \(choose|$)", r"\1", head[:1].upper() + head[1:])
        + "."
    )


def _asks_for_json(arguments: Sequence[str]) -> bool:
    return "--format=json" in arguments or ("--format", "json") in itertools.pairwise(arguments)


def _tolerate_any_encoding() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _reader_gone() -> int:
    """Nobody reads stdout any more: let the interpreter's own flush at exit go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return PIPE_CLOSED


if __name__ == "__main__":
    sys.exit(main())
