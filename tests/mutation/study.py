"""The mutation study: would the tests of a room notice a wrong line?

    python -m tests.mutation.study [--again] [ROOM ...]

mutmut makes every mutant of the room's modules and runs the room's tests that reach it. At least nine of ten must be
killed, and ``survivors.toml`` lists every other one with its reason. mutmut leaves out what is decorated (properties
among it), and cannot switch what only runs while a module is imported. ``--again`` judges what survived the last study
and what has changed since, and takes the rest as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
LEAST = 90.0
BESIDE = ("dags_examples", "docs", "schemas")  # what tests read besides the package
KILLED = frozenset({"killed", "timeout", "segfault", "caught by type check"})
ARGUMENTS = ["-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-profile=mutants"]


def rooms() -> dict[str, dict[str, list[str]]]:
    """The rooms by name, each with its modules and tests."""
    return tomllib.loads((HERE / "rooms.toml").read_text(encoding="utf-8"))


def listed(room: str) -> frozenset[str]:
    """The mutants of a room that may survive."""
    groups: list[dict[str, Any]] = tomllib.loads((HERE / "survivors.toml").read_text(encoding="utf-8")).get(room, [])
    assert all(group["why"] for group in groups)
    return frozenset(mutant for group in groups for mutant in group["mutants"])


def prepare(room: str, modules: list[str], tests: list[str]) -> Path:
    """A folder that mutmut takes for a project of its own: the tree by links, and the room's settings."""
    folder = ROOT / "build" / "mutation" / room
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("dpone_provider", "tests", "setup.cfg", *BESIDE):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(ROOT / name)
    settings = {
        "source_paths": ["dpone_provider"],
        "only_mutate": modules,
        "also_copy": BESIDE,
        "pytest_add_cli_args": ARGUMENTS,
        "pytest_add_cli_args_test_selection": tests,
        "use_git_change_detection": False,
    }
    lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(project + "\n[tool.mutmut]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


def forget_survivors(folder: Path) -> None:
    """Make mutmut judge them anew."""
    for meta in folder.glob("mutants/**/*.meta"):
        known = json.loads(meta.read_text(encoding="utf-8"))
        codes = known["exit_code_by_key"]
        known["exit_code_by_key"] = {name: code if code == 1 else None for name, code in codes.items()}
        meta.write_text(json.dumps(known), encoding="utf-8")


def verdicts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Every mutant that was made: its module, what it is, its fate."""
    os.chdir(folder)  # where mutmut reads its settings and finds its mutants
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    for meta in sorted(Path("mutants").rglob("*.meta")):
        path = meta.relative_to("mutants").with_suffix("")
        for name, code in json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"].items():
            status = status_by_exit_code[code]
            shown = name if status in KILLED else _described(name, get_diff_for_mutant(name, path=path))
            yield path.stem, shown, "killed" if status in KILLED else status


def _described(name: str, diff: str) -> str:
    """``receipt.QualityGateExecution.evaluate: old line => new line``, which outlives the numbers of mutants."""
    module, _, function = name.rpartition(".")
    qualified = function.partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    sides = {sign: " ".join(line[1:].strip() for line in diff.splitlines()[2:] if line[:1] == sign) for sign in "-+"}
    return f"{module.rpartition('.')[2]}.{qualified}: {sides['-']} => {sides['+']}"


def judge(room: str, folder: Path) -> bool:
    """Print what became of the mutants of a room. Is it as it must be?"""
    found = list(verdicts(folder))
    survivors = [shown for _, shown, fate in found if fate != "killed"]
    made = Counter(module for module, _, _ in found)
    left = Counter(module for module, _, fate in found if fate != "killed")
    unknown = sorted(set(survivors) - listed(room))
    score = 100 * (len(found) - len(survivors)) / max(len(found), 1)
    print(f"{room}: {len(found)} mutants, {len(survivors)} survive, {score:.1f} % killed")
    for module in sorted(made):
        print(f"  {module}: {made[module]} mutants, {left[module]} survive")
    for shown in unknown:
        print(f"  not listed: {shown}")
    for shown in sorted(listed(room) - set(survivors)):
        print(f"  listed, and killed or gone: {shown}")
    unfinished = [shown for _, shown, fate in found if fate in ("not checked", "check was interrupted by user")]
    return not unknown and not unfinished and score >= LEAST


def main(arguments: list[str]) -> int:
    """Study rooms, all of them when none is named. 0 = as it must be."""
    good, again = True, "--again" in arguments
    names = [name for name in arguments if name != "--again"]
    for room, settings in rooms().items():
        if names and room not in names:
            continue
        if again:
            forget_survivors(ROOT / "build" / "mutation" / room)
        else:
            shutil.rmtree(ROOT / "build" / "mutation" / room, ignore_errors=True)
        folder = prepare(room, settings["modules"], settings["tests"])
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1"]
        subprocess.run(command, cwd=folder, check=True)
        good = judge(room, folder) and good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
