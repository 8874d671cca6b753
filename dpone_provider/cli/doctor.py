"""``dpone doctor``: everything that would refuse a load, in one table, before the first one (O5). Reads only."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dpone_provider.cli import arguments
from dpone_provider.cli.emit import DONE, FAILED, one_document, plain_failure, write_document
from dpone_provider.cli.screen import Fact, Grid, Row, Screen, Tone

if TYPE_CHECKING:
    from dpone_provider.runtime.doctor import Finding

_TONES: dict[str, Tone] = {"good": "good", "refused": "bad", "not asked": "open"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``doctor``; returns its parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what would refuse a load, before the first one",
        description=(
            "Ask the servers and this machine everything that a load asks before it begins: drivers, ports, cluster, "
            "database and table, authority and Keeper, settings, child processes. Nothing is claimed, made or "
            "changed. It says nothing of the source, and is no certificate: a load asks again."
        ),
    )
    arguments.add_process(parser)
    arguments.add_connections(parser)
    arguments.add_format(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when nothing refuses, 1 otherwise."""
    from dpone_provider.load.outcome import RunIdentity
    from dpone_provider.manifest.read import load_spec
    from dpone_provider.runtime.connections import StaticConnections
    from dpone_provider.runtime.doctor import examine

    with one_document(args.format, plain_failure):
        spec = load_spec(args.manifest, args.selector)
        nobody = RunIdentity(run_id="none", dag_id=arguments.MANUAL_DAG, task_id=spec.process)
        findings = examine(spec, nobody, StaticConnections(args.connections))
    passed = all(finding.state == "good" for finding in findings)
    if args.format == "json":
        write_document({"kind": "dpone.doctor.v1", "passed": passed, "findings": list(map(_document, findings))})
    else:
        from dpone_provider.cli.show import show

        show(_screen(f"{spec.sink.table.database}.{spec.sink.table.name}", findings))
    return DONE if passed else FAILED


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "question": finding.question,
        "state": finding.state,
        "found": finding.found,
        "code": finding.code or None,
        "remedy": finding.remedy or None,
    }


def _screen(target: str, findings: tuple[Finding, ...]) -> Screen:
    refused = [finding for finding in findings if finding.state == "refused"]
    rows = tuple(
        Row(cells=(finding.question, finding.state, finding.found), tone=_TONES[finding.state]) for finding in findings
    )
    return Screen(
        title=f"{target}: {f'{len(refused)} of {len(findings)} refuse' if refused else 'nothing refuses a load'}",
        tone="bad" if refused else "good",
        facts=tuple(Fact(label=finding.code, value=finding.remedy, tone="bad") for finding in refused),
        grids=(Grid(title="What was asked", columns=("question", "answer", "found"), rows=rows),),
    )
