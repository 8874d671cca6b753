"""What a screen says, before anyone decides how it looks: facts, grids and notes as values.

``render`` makes rich renderables of a screen, ``plain`` makes lines. A verdict always has a word, never a colour alone.
"""

from __future__ import annotations

from typing import Literal

import attrs

Tone = Literal["good", "bad", "open", "plain", "quiet"]
MARKS: dict[Tone, str] = {"good": "✔", "bad": "✘", "open": "!", "plain": " ", "quiet": "·"}


@attrs.frozen(kw_only=True)
class Fact:
    """One labelled sentence."""

    label: str
    value: str
    tone: Tone = "plain"


@attrs.frozen(kw_only=True)
class Row:
    """One row of a grid: as many cells as the grid has columns."""

    cells: tuple[str, ...]
    tone: Tone = "plain"


@attrs.frozen(kw_only=True)
class Grid:
    """A table. ``numeric``: indexes of columns that are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    numeric: frozenset[int] = frozenset()


@attrs.frozen(kw_only=True)
class Screen:
    """One answer on one screen. ``facts`` first, then ``grids``, then ``details``."""

    title: str
    tone: Tone
    facts: tuple[Fact, ...]
    grids: tuple[Grid, ...] = ()
    details: tuple[Fact, ...] = ()


def counted(number: int, what: str) -> str:
    """``1 row``, ``336,776 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
