"""``dpone check PATH…``: every problem of every manifest, without network and without secrets (M10, M11, O5)."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dpone_provider.cli.emit import DONE, REFUSED, one_document, plain_failure, write_document, write_lines
from dpone_provider.errors import DponeError

if TYPE_CHECKING:
    from dpone_provider.manifest.read import CheckResult
    from dpone_provider.manifest.spec import LoadSpec

_KIND = re.compile(rb"""^(?:\{\s*)?["']?kind["']?\s*:\s*["']?(?:dpone\.|etl-config\b)""", re.MULTILINE)
_LOOK_AT = 1 << 20


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``check``; returns its parser."""
    parser = subparsers.add_parser(
        "check",
        help="check manifests without running anything",
        description=(
            "Check manifests: every problem with file, line and column. Nothing is connected to and no connection is "
            "looked up, so a pass is no certificate that a server, a source or the data can do what is asked."
        ),
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a manifest, or a folder that is searched for *.yaml and *.yml with a kind of ours (dpone.…, etl-config)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: text)")
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when all is well, 2 when there is a problem."""
    from dpone_provider.manifest.read import check_file, check_json

    with one_document(args.format, plain_failure):
        results = _once([check_file(path) for path in manifests(args.paths)])
    if args.format == "json":
        write_document(check_json(results))
    else:
        write_lines(_lines(results))
    return DONE if all(result.passed for result in results) else REFUSED


def _once(results: list[CheckResult]) -> list[CheckResult]:
    """The results without fragments that a flow among them has read already."""
    read = {os.path.realpath(path) for result in results for path in result.fragments}
    return [result for result in results if not (result.part and os.path.realpath(result.file) in read)]


def manifests(paths: Iterable[str]) -> list[str]:
    """The files to check, each once, in order. Raises DPONE_MANIFEST_UNREADABLE for a folder without a manifest."""
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):
            found.setdefault(path)
            continue
        inside = sorted(_inside(path))
        if not inside:
            message = "A folder to check holds no manifest: no *.yaml or *.yml with a kind of ours."
            raise DponeError("DPONE_MANIFEST_UNREADABLE", message)
        found.update(dict.fromkeys(inside))
    return list(found)


def _inside(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = os.path.join(here, name)
            if name.endswith((".yaml", ".yml")) and _is_manifest(path):
                yield path


def _is_manifest(path: str) -> bool:
    """Whether a file claims to be ours; one that cannot be read is kept, so that it is reported."""
    try:
        with open(path, "rb") as stream:
            return _KIND.search(stream.read(_LOOK_AT)) is not None
    except OSError:
        return True


def _lines(results: list[CheckResult]) -> Iterator[str]:
    from dpone_provider.manifest.read import notes

    for result in results:
        for problem in result.problems:
            yield str(problem)
        if result.part and result.passed:
            yield f"{result.file}: a well-formed part of a flow"
        elif result.passed:
            listed = ", ".join(map(_listed, result.processes[:5]))
            more = f", and {len(result.processes) - 5} more" if len(result.processes) > 5 else ""
            yield f"{result.file}: well-formed: {listed}{more}"
    problems = sum(len(result.problems) for result in results)
    bad = sum(not result.passed for result in results)
    yield ""
    yield f"{_count(len(results), 'manifest')}, {_count(problems, 'problem')}" + (f" in {bad}" if bad else "")
    yield notes(results)


def _listed(spec: LoadSpec) -> str:
    if spec.source.partitions is None:
        return spec.selector
    from dpone_provider.manifest.partitions import said

    parts = said(spec.source.partitions)
    what = f"by {parts['by']}" + (f" of {parts['column']}" if parts["column"] else "")
    return f"{spec.selector} ({what}, {parts['workers']} at a time, kept in {parts['folder']})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
