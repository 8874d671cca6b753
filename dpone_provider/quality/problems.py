"""What is wrong with an authored quality block: problems as data, and the strict readers that collect them (Q1, X1).

The readers take plain values (mapping, list, str, bool, int, float) as YAML 1.2 or Python gives them, never guess and
never raise for bad input: they note a problem and hand back ``None``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

import attrs

from dpone_provider.canonical import MAX_INTEGER

Path = tuple[str | int, ...]
# Controls but newline and tab, and halves of characters, which no encoding can carry.
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
Number = TypeVar("Number", int | float, int | float | None)


@attrs.frozen(kw_only=True)
class FieldProblem:
    """One thing to correct. ``path``: keys and 0-based list positions from the root; ``code``: a catalogue code."""

    path: Path
    code: str
    message: str
    remedy: str

    @property
    def field_path(self) -> str:
        """The path as people write it: ``quality.gates[0].tolerance.value``."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text


@attrs.define(kw_only=True)
class Reader:
    """Strict reading of one block under one code; ``problems`` in document order."""

    code: str
    problems: list[FieldProblem] = attrs.field(factory=list)

    def note(self, path: Path, message: str, remedy: str) -> None:
        """Add a problem."""
        self.problems.append(FieldProblem(path=path, code=self.code, message=message, remedy=remedy))

    def mapping(self, raw: object, path: Path, fields: Iterable[str]) -> Mapping[str, Any] | None:
        """A mapping with no other keys than ``fields``; unknown keys are noted and the known ones still read."""
        allowed = tuple(fields)
        if not isinstance(raw, Mapping):
            self.note(path, "This must be a mapping.", f"Use the fields {', '.join(allowed)}.")
            return None
        for key in raw:
            if key not in allowed:
                self.note((*path, str(key)), "Unknown field.", f"The fields here are {', '.join(allowed)}.")
        return raw

    def flag(self, raw: object, path: Path) -> bool | None:
        """Exactly true or false."""
        if type(raw) is bool:
            return raw
        self.note(path, "This must be exactly true or false.", "Write true or false, without quotes.")
        return None

    def choice(self, raw: object, path: Path, choices: Iterable[str]) -> str | None:
        """One of some words, spelled exactly."""
        allowed = tuple(choices)
        if type(raw) is str and raw in allowed:
            return raw
        self.note(path, "This is not one of the allowed words.", f"Use one of {', '.join(allowed)}.")
        return None

    def name(self, raw: object, path: Path) -> str | None:
        """A name: 1 to 128 printable characters, not blank at either end."""
        if type(raw) is str and 1 <= len(raw) <= 128 and raw.isprintable() and raw == raw.strip():
            return raw
        self.note(path, "This must be a name of 1 to 128 printable characters.", "Write a short name.")
        return None

    def text(self, raw: object, path: Path, *, most: int) -> str | None:
        """Text of at most ``most`` characters, not blank, without control characters but newline and tab."""
        if is_text(raw, most):
            return raw
        message = f"This must be text of at most {most} characters, without control characters."
        self.note(path, message, "Write one expression or statement, as the type of gate asks.")
        return None

    def number(self, raw: object, path: Path) -> int | float | None:
        """A finite number, zero or more, at most 2**64-1."""
        if is_measure(raw):
            return plain(raw)
        self.note(path, "This must be a finite number of zero or more.", "Write a number such as 0 or 0.5.")
        return None

    def integer(self, raw: object, path: Path) -> int | None:
        """A whole number, zero or more, at most 2**64-1."""
        if is_count(raw):
            return raw
        self.note(path, "This must be a whole number of zero or more.", "Write a number such as 1000.")
        return None


def is_text(value: object, most: int) -> TypeGuard[str]:
    """Is it text of at most ``most`` characters, not blank, without control characters but newline and tab?"""
    return type(value) is str and len(value) <= most and bool(value.strip()) and not _NOT_TEXT.search(value)


def is_count(value: object) -> TypeGuard[int]:
    """Is it a whole number of 0 to 2**64-1, and no bool?"""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def is_measure(value: object) -> TypeGuard[int | float]:
    """Is it an int or float (never a bool) that is finite, not negative and at most 2**64-1?"""
    return isinstance(value, int | float) and type(value) in (int, float) and 0 <= value <= MAX_INTEGER


def plain(value: Number) -> Number:
    """The one form of a number: ``2.0`` becomes ``2`` and ``-0.0`` ``0``, so that equal policies have equal digests."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
