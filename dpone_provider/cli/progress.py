"""Telling a person how far a load is, on stderr: a moving line on a terminal, plain lines elsewhere, nothing for JSON.

``Told`` keeps what was announced last, so that an interrupted load can say how far it came.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import attrs

from dpone_provider.load.known import Known

STEPS = {
    "claim": "asking for the target's slot",
    "claimed": "slot claimed",
    "reader": "proving that a reader can be started and stopped here",
    "stage": "opening the source",
    "create": "creating the private generation",
    "rows": "staging",
    "plan": "planning the partitions",
    "planned": "partitions planned",
    "partition": "moving partitions",
    "resume": "validating what is committed",
    "replace": "replacing partitions of the live table",
    "verify": "counting what is staged, checking gates",
    "unanswered": "a gate has no answer",
    "collect": "opening the source",
    "append": "adding the rows to the table",
    "appended": "the server has acknowledged the rows",
    "advance": "advancing the source's mark",
    "hook": "running the author's statements",
    "seal": "sealing the proof",
    "permit": "publication permitted",
    "publish": "switching the table",
    "fence": "fencing an uncertain switch",
    "committed": "the new table is live",
    "complete": "completing the proof",
    "pending": "recording that the live table is still to be observed",
    "observe": "observing the live table",
    "released": "slot released",
}
MOVING = frozenset({"rows", "partition"})
"""Steps that come again and again while rows move."""
PLAIN_EVERY_SECONDS = 5.0


class Show(Protocol):
    """Shows one announced step. ``facts`` are the load's; ``seconds`` since the first rows."""

    def __call__(self, step: str, facts: Mapping[str, Any], seconds: float) -> None: ...


class Told:
    """Receives ``notify(step, facts)`` of a load, keeps what is ``known`` by it, passes it on to ``show``."""

    def __init__(self, show: Show, clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._first_rows: float | None = None
        self.known = Known()

    def notify(self, step: str, facts: Mapping[str, Any]) -> None:
        """One announced step."""
        self.known = self.known.after(step, facts)
        if step in MOVING:
            self._first_rows = self._clock() if self._first_rows is None else self._first_rows
        self._show(step, facts, 0.0 if self._first_rows is None else self._clock() - self._first_rows)


@attrs.frozen(kw_only=True)
class Pace:
    """How a staging goes: ``line`` for people, ``done`` of 1.0 when the total is known."""

    line: str
    done: float | None


def pace(facts: Mapping[str, Any], seconds: float) -> Pace:
    """Partitions, rows, bytes, rate and, when the total is known, the time left."""
    rows, total, size = facts.get("rows", 0), facts.get("total"), facts.get("bytes", 0)
    moved, planned = facts.get("partitions", 0), facts.get("planned")
    parts = [f"{rows:,} rows", _bytes(size)]
    if planned is not None:
        parts.insert(0, f"{moved} of {planned} partitions")
    rate = rows / seconds if seconds >= 0.5 else 0.0
    if rate:
        parts.append(f"{rate:,.0f} rows/s")
    done = min(1.0, rows / total) if total else moved / planned if planned else None
    if rate and done is not None and 0.0 < done < 1.0:
        left = round(seconds / done - seconds)
        parts.append(f"{left // 60}:{left % 60:02d} left")
    return Pace(line=" · ".join(parts), done=done)


@contextmanager
def shown(form: str) -> Iterator[Show]:
    """The right way to show progress here."""
    if form == "json":
        yield _nothing
    elif sys.stderr.isatty():
        with _moving() as show:
            yield show
    else:
        yield PlainSteps(sys.stderr.write)


def _nothing(step: str, facts: Mapping[str, Any], seconds: float) -> None:
    return None


class PlainSteps:
    """One line a step; while rows come, one every few seconds."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write = write
        self._next = PLAIN_EVERY_SECONDS

    def __call__(self, step: str, facts: Mapping[str, Any], seconds: float) -> None:
        if step == "replace" and facts["partition"] > 1:
            return
        if step not in MOVING:
            self._write(f"{STEPS.get(step, step)}\n")
        elif seconds >= self._next:
            self._next = seconds + PLAIN_EVERY_SECONDS
            self._write(f"staging: {pace(facts, seconds).line}\n")


@contextmanager
def _moving() -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    line = TextColumn("{task.fields[line]}", markup=False)
    with Progress(*columns, line, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None, line="")

        def show(step: str, facts: Mapping[str, Any], seconds: float) -> None:
            now = pace(facts, seconds) if step in MOVING else _replaced(facts)
            total, done = (None, 0.0) if now.done is None else (1.0, now.done)
            progress.update(task, description=STEPS.get(step, step), line=now.line, total=total, completed=done)

        yield show


def _replaced(facts: Mapping[str, Any]) -> Pace:
    """How far the replacement of partitions is; of every other step nothing is known."""
    if "partition" not in facts:
        return Pace(line="", done=None)
    number, planned = facts["partition"], facts["planned"]
    return Pace(line=f"{number} of {planned}", done=(number - 1) / planned)


def _bytes(size: int) -> str:
    if size < 1_000_000:
        return f"{size / 1e3:,.1f} kB"
    return f"{size / 1e6:,.1f} MB" if size < 1_000_000_000 else f"{size / 1e9:,.2f} GB"
