"""The tutorial, typed in from top to bottom: every command runs and says what the document shows (D1)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import SandboxServer
from tests.docs.markdown import DOCS, Block, blocks

TUTORIAL = DOCS / "tutorial.md"
SHELL = {"console", "sh", "bash"}
_MARK = "@@ step "


@attrs.frozen(kw_only=True)
class Step:
    """One command of the tutorial, and the lines that the document shows under it."""

    command: str
    expected: tuple[str, ...]
    line: int


def steps(found: list[Block]) -> Iterator[Step]:
    """Every command of the shell blocks. In a console block it starts with ``$``; what follows is its output."""
    for block in found:
        if block.language not in SHELL:
            continue
        lines = block.text.splitlines()
        assert lines[0].startswith("$ "), f"line {block.line}: a shell block that does not start with a command"
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                shown = lines[number + 1 :]
                end = next((index for index, later in enumerate(shown) if later.startswith("$ ")), len(shown))
                yield Step(command=line[2:], expected=tuple(shown[:end]), line=block.line + number)


def missing(step: Step, said: str) -> str | None:
    """The first shown line that the output does not have after the ones before it; ``…`` stands for anything."""
    lines = iter(said.splitlines())
    for shown in step.expected:
        if shown == "…":
            continue
        pattern = re.escape(shown.rstrip()).replace("…", ".*").replace(r"\ ", " +")
        if not any(re.fullmatch(pattern, line.rstrip()) for line in lines):
            return shown
    return None


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


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DPONE_", "COLUMNS"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", "")))
    quiet = {"PYTHONWARNINGS": "ignore", "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False"}
    return {**kept, **quiet, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}


@pytest.mark.contract("D1")
def test_every_command_of_the_tutorial_runs_and_says_what_is_shown(folder: Path) -> None:
    """One shell for all of them, as a reader has; the first command that fails ends it."""
    found = blocks(TUTORIAL)
    todo = list(steps(found))
    (folder / "dags").mkdir()
    for block in found:
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
    script = "".join(f"echo '{_MARK}{number}'\n{step.command}\n" for number, step in enumerate(todo))
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\nexec 2>&1\n{script}"],
        cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    said = re.split(rf"^{_MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert done.returncode == 0, f"line {todo[len(said) - 1].line}: {todo[len(said) - 1].command}\n{said[-1][-4000:]}"
    assert len(said) == len(todo) > 15
    for step, output in zip(todo, said, strict=True):
        line = missing(step, output)
        assert line is None, f"line {step.line}: {step.command}\nis shown to say: {line}\nand says:\n{output[-4000:]}"


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
