"""One line an attempt: which milestones it passed itself, which were kept, where it stopped. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import attrs

from dpone_provider.page.document import Attempt, Step

Look = Literal["done", "kept", "failed", "stopped", "now", "never"]
_OUTCOMES = {"running": "at work", "succeeded": "succeeded", "failed": "failed", "stopped": "did not finish"}


@attrs.frozen(kw_only=True)
class Mark:
    """A milestone in a line. ``clock``: the time of day, UTC, or ""."""

    step: str
    look: Look
    clock: str = ""
    note: str = ""


@attrs.frozen(kw_only=True)
class Bar:
    """The line of an attempt. ``repeated``: what it did not do again, or ""."""

    number: int
    outcome: str
    look: Look
    marks: tuple[Mark, ...]
    repeated: str


def bars(attempts: Sequence[Attempt], *, died: bool, retryable: bool = False) -> tuple[Bar, ...]:
    """The lines, oldest first. ``died``: the last one is not at work any more, whatever it said; ``retryable``: what
    ended it can be finished by another.
    """
    last = attempts[-1] if attempts else None
    return tuple(_bar(each, died=died and each is last, retryable=retryable and each is last) for each in attempts)


def _bar(attempt: Attempt, *, died: bool, retryable: bool) -> Bar:
    stopped = attempt.outcome == "stopped" or (died and attempt.outcome == "running")
    outcome = "stopped" if stopped else attempt.outcome
    marks: list[Mark] = []
    for step in attempt.steps:
        look: Look = step.state
        if look == "failed" and (stopped or retryable):
            look = "stopped"
        elif look == "never" and outcome in ("stopped", "running") and _open(marks):
            look = "stopped" if stopped else "now"
        note = (
            "failed here" if look == "failed" else "no word after this" if look == "stopped" else _note(step, attempt)
        )
        marks.append(Mark(step=step.step, look=look, clock=_clock(step.at), note=note))
    seconds = _seconds(attempt.steps)
    kept = any(step.state == "kept" for step in attempt.steps)
    did = (attempt.source_reads, attempt.inserted_rows, attempt.publications)
    looks: dict[str, Look] = {"succeeded": "done", "failed": "failed", "stopped": "stopped", "running": "now"}
    return Bar(
        number=attempt.number,
        outcome=_OUTCOMES[outcome] + (f", {seconds:,.1f} s" if seconds is not None else ""),
        look=looks[outcome],
        marks=tuple(marks),
        repeated="nothing repeated: 0 source reads, 0 inserts, 0 switches" if kept and did == (0, 0, 0) else "",
    )


def _open(marks: Sequence[Mark]) -> bool:
    """Is the next milestone the one after the last that was passed?"""
    return all(mark.look in ("done", "kept") for mark in marks)


def _note(step: Step, attempt: Attempt) -> str:
    if step.state != "done":
        return ""
    match step.step:
        case "claimed":
            return f"epoch {attempt.epoch}" if attempt.epoch else ""
        case "staged":
            return f"{attempt.inserted_rows:,} rows".replace(",", "\u202f")
        case "dispatched":
            return f"{attempt.publications} switch{'' if attempt.publications == 1 else 'es'}"
    return {"proven": "own catalog", "observed": "counted", "complete": "released"}.get(step.step, "")


def _clock(at: str | None) -> str:
    moment = _moment(at)
    return f"{moment:%H:%M:%S}" if moment is not None else ""


def _seconds(steps: Sequence[Step]) -> float | None:
    moments = [found for found in map(_moment, (step.at for step in steps)) if found is not None]
    return (max(moments) - min(moments)).total_seconds() if len(moments) > 1 else None


def _moment(at: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(at) if at is not None else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
