"""Writes what comes out of the code: pages of the catalogue, the parser and the declarations, and ``schemas/``.

``python -m docs.generate`` writes them; ``--check`` writes nothing and exits with 1 when one is out of date. The output
is the same on every terminal and in every environment.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from docs import reference, schemas
from dpone_provider.cli.main import build_parser
from dpone_provider.errors import CATALOGUE, CodeInfo

FOLDER = Path(__file__).parent
WIDTH = "100"
_PROBLEMS = ("DPONE_YAML_", "DPONE_MANIFEST_", "DPONE_REPLAY_SELECTOR_", "DPONE_ROUTE_")
_SECTIONS: Mapping[str, tuple[str, str]] = {
    "authoring": (
        "Before anything runs",
        "The command line, the manifest or the operator's arguments. No server was asked.",
    ),
    "admission": (
        "Admission",
        "Connections, servers, the target and the authority are looked at. Nothing was changed.",
    ),
    "pre_commit": (
        "Before the commit",
        "Source, staging, gates, observations. The live table was not touched.",
    ),
    "post_commit": (
        "At and after the commit",
        "The switch of the table was permitted. Read what the error says of the commit; never assume.",
    ),
    "resume_validation": (
        "When a stored operation is looked at again",
        "A retry or a replay found a record that it must not follow. Nothing was changed.",
    ),
}


def errors_page() -> str:
    """docs/errors.md: every code of the catalogue, by where it can happen."""
    problems = {code: info for code, info in CATALOGUE.items() if _is_problem(code, info)}
    lines = [
        "# Errors",
        "",
        reference.NOTICE,
        "",
        "Every failure has a code, one safe sentence and a next step. No message holds SQL, row values or credentials.",
        "*Retry* says whether the same operation may be tried again without a change. An error can know better than",
        "the table: `failure_context.retryable` of the outcome, and Airflow's own retry, follow the error.",
        "What is true about the table and what to do then is in [operating.md](operating.md).",
    ]
    for boundary, (title, words) in _SECTIONS.items():
        codes = {code: info for code, info in CATALOGUE.items() if info.boundary == boundary and code not in problems}
        lines += ["", f"## {title}", "", words, "", *_table(codes)]
    lines += [
        "",
        "## Single problems of a manifest",
        "",
        "`DPONE_MANIFEST_INVALID` lists these, each with file, line, column and path. None can be retried.",
        "",
        *_table(problems),
    ]
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """docs/cli.md: the help of every command, as the parser prints it at a fixed width."""
    lines = [
        "# Command line",
        "",
        reference.NOTICE,
        "",
        "What the commands do to a table is in [operating.md](operating.md); a first walk: [tutorial.md](tutorial.md).",
    ]
    for name, text in _helps():
        lines += ["", f"## {name}", "", "```text", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


PAGES = {
    "errors.md": errors_page,
    "cli.md": cli_page,
    "schemas.md": reference.schemas_page,
    "configuration.md": reference.configuration_page,
}


def stale(folder: Path = FOLDER) -> list[str]:
    """The generated documents that differ from what the code would write."""
    return [name for name, page in PAGES.items() if _text(folder / name) != page()]


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the documents; 0 = up to date now."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when one is out of date")
    check = parser.parse_args(argv).check
    names = stale()
    for name in names:
        if check:
            sys.stderr.write(f"docs/{name} is out of date: run `python -m docs.generate`\n")
        else:
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
            sys.stdout.write(f"docs/{name} written\n")
    old = schemas.stale()
    for name in old:
        if check:
            sys.stderr.write(f"schemas/{name} is out of date: run `python -m docs.generate`\n")
        else:
            schemas.write(name)
            sys.stdout.write(f"schemas/{name} written\n")
    return 1 if check and (names or old) else 0


def _is_problem(code: str, info: CodeInfo) -> bool:
    return info.boundary == "authoring" and code.startswith(_PROBLEMS) and code != "DPONE_MANIFEST_INVALID"


def _table(codes: Mapping[str, CodeInfo]) -> Iterator[str]:
    yield "| code | what it means | what to do | retry |"
    yield "|---|---|---|---|"
    for code, info in codes.items():
        cells = (f"`{code}`", info.meaning, info.remedy, "yes" if info.retryable else "no")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _helps() -> Iterator[tuple[str, str]]:
    """``dpone`` and every command below it, with its help."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR")}
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    try:
        yield from list(_walk(build_parser()))
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _walk(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    yield parser.prog, parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _walk(command)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
