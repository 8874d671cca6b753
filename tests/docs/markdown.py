"""The pages that people read, and their fenced blocks."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHELL = ("console", "sh", "bash")
_REFUSED = "refused: "
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]+)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'(?: title="([^"]+)")?')


@attrs.frozen(kw_only=True)
class Block:
    """One fenced block.

    ``file``: the name that the document tells to save it under, "" = none; ``refused``: the code of the one problem
    that it shows, "" = none. Both are written as the block's title. ``line``: its first.
    """

    language: str
    file: str
    refused: str
    text: str
    line: int


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, in order; indented ones (in a list) too."""
    text = document.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("text")) + 1
        info = _TITLE.fullmatch(fence["info"])
        assert info is not None, f'{document.name}:{line - 1}: write ```{fence["language"]} title="…", or no title'
        title = info[1] or ""
        refused = title.removeprefix(_REFUSED) if title.startswith(_REFUSED) else ""
        file = "" if refused else title
        inside = textwrap.dedent(fence["text"])
        found.append(Block(language=fence["language"], file=file, refused=refused, text=inside, line=line))
    return found


def documents() -> list[Path]:
    """Every page of the product that people read: the README first."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(document: Path) -> str:
    """A page's path from the project's root."""
    return str(document.relative_to(ROOT))
