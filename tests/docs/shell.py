"""Commands of the pages: found, run in one shell, compared with what is shown under them.

In a block of the language ``console`` a command starts with ``$`` and what follows is its output. In ``sh`` and
``bash`` every line is a command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tests.docs.markdown import SHELL, Block

_MARK = "@@ step "


@attrs.frozen(kw_only=True)
class Step:
    """One command, and the lines that the document shows under it."""

    command: str
    expected: tuple[str, ...]
    line: int


def steps(found: Iterable[Block]) -> Iterator[Step]:
    """Every command of the shell blocks."""
    for block in found:
        if block.language == "console":
            yield from _shown(block)
        elif block.language in SHELL:
            for number, line in enumerate(block.text.replace("\\\n", "").splitlines()):
                if line.strip() and not line.startswith("#"):
                    yield Step(command=line, expected=(), line=block.line + number)


def _shown(block: Block) -> Iterator[Step]:
    lines = block.text.splitlines()
    assert lines[0].startswith("$ "), f"line {block.line}: a console block that does not start with a command"
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


def run(todo: Sequence[Step], folder: Path, environment: Mapping[str, str]) -> None:
    """Run the commands in one shell, as a reader does; the first one that fails, or says something else, is told."""
    script = "".join(f"echo '{_MARK}{number}'\n{step.command}\n" for number, step in enumerate(todo))
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\nexec 2>&1\n{script}"],
        cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    said = re.split(rf"^{_MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert done.returncode == 0, f"line {todo[len(said) - 1].line}: {todo[len(said) - 1].command}\n{said[-1][-4000:]}"
    assert len(said) == len(todo)
    for step, output in zip(todo, said, strict=True):
        line = missing(step, output)
        assert line is None, f"line {step.line}: {step.command}\nis shown to say: {line}\nand says:\n{output[-4000:]}"


def write_files(found: Iterable[Block], folder: Path) -> None:
    """Save the blocks that a page tells to save."""
    for block in found:
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")


def environment(**more: str) -> dict[str, str]:
    """A reader's environment: our commands on the path, no settings of this machine's, no colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "DPONE_", "COLUMNS"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", "")))
    quiet = {"PYTHONWARNINGS": "ignore", "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False"}
    return {**kept, **quiet, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", **more}
