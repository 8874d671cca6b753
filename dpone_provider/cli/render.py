"""A screen as rich renderables: pure, so that ``dpone run``, ``dpone status`` and ``dpone demo`` look the same.

Imported only when something is shown on a terminal.
"""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dpone_provider.cli.emit import printable
from dpone_provider.cli.screen import MARKS, Fact, Grid, Screen, Tone

STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "open": "yellow", "plain": "", "quiet": "dim"}


def render(screen: Screen) -> RenderableType:
    """One panel: verdicts, grids, details."""
    parts: list[RenderableType] = [_facts(screen.facts), Text()]
    for grid in screen.grids:
        parts += [_grid(grid)]
    if screen.details:
        parts += [_facts(screen.details, quiet=True)]
    title = Text(f"{MARKS[screen.tone]} {printable(screen.title)}", style=f"bold {STYLES[screen.tone]}")
    return Panel(Group(*parts), title=title, title_align="left", border_style=STYLES[screen.tone], padding=(1, 2))


def _facts(facts: tuple[Fact, ...], *, quiet: bool = False) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim" if quiet else "bold", no_wrap=True)
    table.add_column(style="dim" if quiet else "", overflow="fold")
    for fact in facts:
        mark = f"{MARKS[fact.tone]} " if fact.tone in ("good", "bad", "open") else ""
        table.add_row(Text(printable(fact.label)), Text(mark + printable(fact.value), style=STYLES[fact.tone]))
    return table


def _grid(grid: Grid) -> Table:
    table = Table(
        title=Text(grid.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
    )
    for index, column in enumerate(grid.columns):
        table.add_column(column, justify="right" if index in grid.numeric else "left", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(printable(cell)) for cell in row.cells), style=STYLES[row.tone])
    return table
