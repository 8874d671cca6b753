"""The edge of the command line: usage, exit codes, what is never repeated."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_provider import __version__
from dpone_provider.cli import check
from dpone_provider.cli.emit import MAX_LINE, Terminated, error_line, exit_code
from dpone_provider.cli.main import COMMANDS, build_parser
from dpone_provider.errors import DponeError
from tests.cli.conftest import Desk

CANARY = "p@ss'w/rd"


@pytest.mark.contract("O1")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DponeError("DPONE_MANIFEST_INVALID"), 2),
        (DponeError("DPONE_SELECTOR_UNKNOWN"), 2),
        (DponeError("DPONE_CONNECTION_UNKNOWN"), 2),
        (DponeError("DPONE_CONNECTION_INVALID"), 2),
        (DponeError("DPONE_SERVER_UNREACHABLE"), 1),
        (DponeError("DPONE_SOURCE_NOT_FOUND"), 1),
        (ZeroDivisionError(), 1),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.contract("O1")
def test_wrong_usage_gives_a_document_too_and_repeats_no_value(paper: Desk) -> None:
    ran = paper.dpone("run", paper.manifest, "--format", "json", f"--password={CANARY}", CANARY)
    assert ran.code == 2
    assert ran.document["error_code"] == "DPONE_USAGE"
    assert not ran.says(CANARY)
    assert "--password" in ran.err


@pytest.mark.contract("O1")
@pytest.mark.parametrize(
    "arguments",
    [("run", "m", "--map-index", CANARY), ("check", "m", "--format", CANARY), (CANARY,), ("run", "m", "--dag", "x")],
)
def test_a_wrong_value_is_named_by_its_option_and_not_repeated(paper: Desk, arguments: tuple[str, ...]) -> None:
    ran = paper.dpone(*arguments)
    assert ran.code == 2
    assert not ran.says(CANARY)


@pytest.mark.contract("O1")
def test_an_unexpected_error_is_named_by_its_class_alone(paper: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(args: argparse.Namespace) -> int:
        raise ValueError(CANARY) from OSError(CANARY)

    monkeypatch.setattr(check, "run", broken)
    ran = paper.dpone("check", "m")
    assert ran.code == 1
    assert "DPONE_INTERNAL: Unexpected ValueError." in ran.err
    assert len(ran.err) < MAX_LINE
    assert "Traceback" not in ran.err
    monkeypatch.setenv("DPONE_DEBUG", "1")
    traced = paper.dpone("check", "m")
    assert "in broken" in traced.err
    assert "OSError" in traced.err
    assert not traced.says(CANARY)


@pytest.mark.contract("O1")
def test_the_error_line_is_one_bounded_line_without_control_characters() -> None:
    line = error_line(DponeError("DPONE_SOURCE_INVALID", "a\nb\x1b[31m" + "x" * 5000))
    assert len(line) <= MAX_LINE + 100
    assert line.isprintable()


@pytest.mark.contract("O5")
def test_no_command_or_option_clears_or_forces_anything() -> None:
    text = "".join(parser.format_help().lower() for parser in _parsers(build_parser(set(COMMANDS) - {"demo"})))
    for word in ("force", "unlock", "reset", "--clear", "--yes", "skip", "repair "):
        assert word not in text.replace("never create or repair it", "")


@pytest.mark.contract("O6")
def test_help_tells_the_real_default_of_the_run_id(paper: Desk) -> None:
    ran = paper.dpone("run", "--help")
    assert ran.code == 0
    assert "a fresh manual-<uuid4 hex>, which is printed" in " ".join(ran.out.split())
    paper.write_manifest()
    found = {paper.dpone("run", paper.manifest, "--format", "json").document["run_id"] for _ in range(2)}
    assert len(found) == 2
    assert all(len(run_id) == len("manual-") + 32 and run_id.startswith("manual-") for run_id in found)


@pytest.mark.contract("O6")
def test_the_overview_and_the_commands_themselves_say_the_same() -> None:
    names = set(COMMANDS) - {"demo"}
    assert build_parser(names).format_help() == build_parser(()).format_help()


def test_version(paper: Desk) -> None:
    ran = paper.dpone("--version")
    assert (ran.code, ran.out) == (0, f"dpone {__version__}\n")


def test_a_reader_that_goes_away_ends_the_command_quietly(paper: Desk) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "dpone_provider.cli.main", "check", paper.manifest],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    inside = [
        choice
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action.choices.values()
    ]
    return [parser, *(found for child in inside for found in _parsers(child))]
