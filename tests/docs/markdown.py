"""Fenced blocks of the documents."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]+)(?: (?P<file>\S+))?\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@attrs.frozen(kw_only=True)
class Block:
    """One fenced block. ``file``: the name that the document tells to save it under, "" = none. ``line``: its first."""

    language: str
    file: str
    text: str
    line: int


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, in order; indented ones (in a list) too."""
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            language=found["language"],
            file=found["file"] or "",
            text=textwrap.dedent(found["text"]),
            line=text.count("\n", 0, found.start("text")) + 1,
        )
        for found in _FENCE.finditer(text)
    ]


def documents() -> list[Path]:
    """Every document of the product that people read."""
    return sorted(DOCS.rglob("*.md"))
