"""What is wrong with a manifest: problems as values, a log that collects, one error that carries them all (M11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from dpone_provider.errors import CATALOGUE, DponeError

Path = tuple[str | int, ...]
_IN_MESSAGE = 20


@attrs.frozen(kw_only=True)
class At:
    """Where something was written: 1-based ``line`` and ``column`` (0, 0 for values that came as Python arguments).

    ``file``: the file that it stands in, "" for the one that the log is of.
    """

    line: int
    column: int
    path: Path = ()
    file: str = ""

    def child(self, step: str | int) -> At:
        """The same position, one step further down."""
        return attrs.evolve(self, path=(*self.path, step))


@attrs.frozen(kw_only=True)
class Problem:
    """One thing to correct: place, ``code`` (a key of ``errors.CATALOGUE``), one sentence, and what to do about it."""

    file: str
    line: int
    column: int
    path: str
    code: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """``file:line:column: CODE path: message (remedy)``."""
        path = f" {self.path}" if self.path else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.file}:{self.line}:{self.column}: {self.code}{path}: {self.message}{remedy}"

    def as_json(self) -> dict[str, Any]:
        """The same as a flat strict-JSON mapping."""
        return attrs.asdict(self)


class ManifestError(DponeError):
    """DPONE_MANIFEST_INVALID with every problem of the file in ``problems``; the first few stand in the message."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[:_IN_MESSAGE]]
        if len(self.problems) > _IN_MESSAGE:
            shown.append(f"… and {len(self.problems) - _IN_MESSAGE} more")
        count = f"{len(self.problems)} problem{'' if len(self.problems) == 1 else 's'}"
        super().__init__(
            "DPONE_MANIFEST_INVALID",
            "\n".join([f"The manifest has {count}.", *shown, ""]),
            context={"problems": [problem.as_json() for problem in self.problems[:_IN_MESSAGE]]},
        )


class ProblemLog:
    """Collects the problems of one manifest; the same problem met again (shared defaults) is kept once.

    ``file``: its file, for problems at a place that names no other. ``reports`` counts every report, repeated ones too:
    it tells a process that something it uses is bad. ``part``: what is not written may stand in another file.
    """

    part = False

    def __init__(self, file: str) -> None:
        self.file = file
        self.reports = 0
        self._found: dict[Problem, None] = {}

    def add(self, at: At, code: str, message: str, remedy: str = "") -> None:
        """Note one problem. Without a ``remedy``, the catalogue's for ``code`` is used."""
        self.reports += 1
        problem = Problem(
            file=at.file or self.file,
            line=at.line,
            column=at.column,
            path=render_path(at.path),
            code=code,
            message=message,
            remedy=remedy or CATALOGUE[code].remedy,
        )
        self._found.setdefault(problem)

    def problems(self) -> tuple[Problem, ...]:
        """All problems, in the order of the file; those of its fragments follow, file by file."""

        def place(problem: Problem) -> tuple[bool, str, int, int, str]:
            return problem.file != self.file, problem.file, problem.line, problem.column, problem.code

        return tuple(sorted(self._found, key=place))


def render_path(path: Path) -> str:
    """``schemas.main.tables[0].overrides``; a key that is no plain word is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            word = step if step.replace("_", "a").replace("-", "a").isalnum() else f'"{shorten(step)}"'
            text += f".{word}" if text else word
    return text


def shorten(text: str, limit: int = 60) -> str:
    """An authored word for a message: one line, bounded, control characters replaced."""
    line = "".join(char if char.isprintable() else "�" for char in text[: limit + 1])
    return line if len(line) <= limit else line[:limit] + "…"
