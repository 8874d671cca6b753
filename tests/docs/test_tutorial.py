"""The tutorial, typed in from top to bottom: every command runs and says what the document shows (D1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import SandboxServer
from tests.docs.markdown import DOCS, blocks
from tests.docs.shell import Step, environment, missing, run, steps, write_files

TUTORIAL = DOCS / "tutorial.md"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; the sandbox in it is stopped in any case."""
    try:
        yield tmp_path
    finally:
        try:
            SandboxServer().stop(tmp_path / ".dpone" / "sandbox")
        except DponeError as error:
            assert error.code == "DPONE_SANDBOX_NOT_RUNNING"  # the tutorial has stopped it


@pytest.mark.contract("D1")
def test_every_command_of_the_tutorial_runs_and_says_what_is_shown(folder: Path) -> None:
    found = blocks(TUTORIAL)
    todo = list(steps(found))
    assert len(todo) > 15
    write_files(found, folder)
    run(todo, folder, environment())


@pytest.mark.parametrize(
    ("shown", "said", "found"),
    [
        (("a …", "…", "c"), "x\na 1\nb\nc\n", None),
        (("c", "a"), "a\nc\n", "a"),
        (("a",), "a b\n", "a"),
        (("1 (x)",), "1 (x)  \n", None),
    ],
)
def test_shown_output_is_compared_in_order(shown: tuple[str, ...], said: str, found: str | None) -> None:
    assert missing(Step(command="", expected=shown, line=0), said) == found
