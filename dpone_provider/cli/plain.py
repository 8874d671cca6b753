"""A screen as plain lines: no colours, no control codes, no boxes (for pipes, logs and CI)."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_provider.cli.screen import Fact, Grid, Screen


def lines(screen: Screen) -> Iterator[str]:
    """The lines of a screen."""
    yield screen.title
    yield from _facts(screen.facts)
    for grid in screen.grids:
        yield ""
        yield from _grid(grid)
    if screen.details:
        yield ""
        yield from _facts(screen.details)


def _facts(facts: tuple[Fact, ...]) -> Iterator[str]:
    width = max((len(fact.label) for fact in facts), default=0)
    for fact in facts:
        yield f"  {fact.label:<{width}}  {fact.value}"


def _grid(grid: Grid) -> Iterator[str]:
    table = [grid.columns, *(row.cells for row in grid.rows)]
    widths = [max(len(cells[index]) for cells in table) for index in range(len(grid.columns))]
    yield f"{grid.title}:"
    for cells in table:
        padded = (
            f"{cell:>{width}}" if index in grid.numeric else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        yield f"  {'  '.join(padded)}".rstrip()
