"""What every attempt of an operation did, as milestones: the own one out of its steps, earlier ones out of the history.

Pure. A milestone is ``done`` once the step after it is announced: a dead attempt never shows more than it reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import attrs

from dpone_provider.page.document import MILESTONES, Attempt, Milestone, Outcome, State, Step
from dpone_provider.replay.record import AuthorityRecord, HistoryEntry

_ENDS: Mapping[str, tuple[Milestone, ...]] = {
    "seal": ("staged",),
    "permit": ("sealed",),
    "publish": ("staged",),  # where nothing is sealed
    "replace": ("staged",),
    "fence": ("dispatched",),
    "append": ("staged",),  # where nothing is staged, the source was read
    "appended": ("dispatched", "proven"),
    "committed": ("dispatched", "proven"),
    "released": ("observed", "complete"),
}
_WORKS: Mapping[str, Milestone] = {
    "claim": "claimed",
    "reader": "claimed",
    "stage": "staged",
    "collect": "staged",
    "append": "dispatched",
    "create": "staged",
    "verify": "staged",
    "seal": "sealed",
    "permit": "dispatched",
    "publish": "dispatched",
    "plan": "staged",
    "replace": "dispatched",
    "resume": "proven",
    "fence": "proven",
    "complete": "complete",
    "pending": "observed",
    "observe": "observed",
}
_REACHED = {"CLAIMED": 1, "REJECTED": 1, "PREPARED": 3, "DISPATCHING": 3, "COMMITTED": 5, "FAILED": 5, "COMPLETE": 7}
_OUTCOMES: Mapping[str, Outcome] = {"COMPLETE": "succeeded", "FAILED": "failed", "REJECTED": "failed"}


@attrs.frozen(kw_only=True)
class Line:
    """The own attempt so far.

    ``passes``: the milestones of its route; ``working``: the one it is at; ``own``: those it began itself.
    """

    passes: tuple[Milestone, ...] = MILESTONES
    number: int = 1
    epoch: int = 0
    steps: Mapping[Milestone, Step] = attrs.field(factory=dict)
    working: Milestone | None = None
    own: frozenset[str] = frozenset()
    source_reads: int = 0
    read: int = 0
    inserted: int = 0
    publications: int = 0
    sending: bool = False

    def after(self, step: str, facts: Mapping[str, Any], at: str) -> Line:
        """The line once ``step`` is announced. What it is about to do has not happened yet."""
        match step:
            case "rows" | "partition":
                return attrs.evolve(self, read=facts.get("rows", self.read), source_reads=1)
            case "claimed":
                return self._claimed(facts, at)
            case "verify":
                return attrs.evolve(self, inserted=self.read, source_reads=1)
            case "appended":
                return attrs.evolve(self._ended(_ENDS[step], at), inserted=facts.get("rows", self.read), source_reads=1)
        works = _WORKS.get(step, self.working)
        line = attrs.evolve(self._ended(_ENDS.get(step, ()), at), working=works, own=self.own | {works or ""})
        sent = line.publications + line.sending
        return attrs.evolve(line, publications=sent, sending=step == "publish")

    def succeeded(self, at: str) -> Line:
        """Everything that its route passes is done."""
        return attrs.evolve(self.after("", {}, at)._ended(self.passes, at), working=None)

    def failed(self, at: str) -> Line:
        """It stopped at the milestone that it was working on. A statement under way counts as sent."""
        line = self.after("", {}, at)
        name = self.working
        if name is None or name not in self.passes:
            return line
        return attrs.evolve(line, steps={**line.steps, name: Step(step=name, state="failed", at=at)})

    def attempt(self, outcome: Outcome) -> Attempt:
        """As the evidence has it."""
        return Attempt(
            number=self.number,
            epoch=self.epoch,
            outcome=outcome,
            source_reads=self.source_reads,
            inserted_rows=self.inserted,
            publications=self.publications,
            steps=tuple(self.steps.get(name, Step(step=name, state="never")) for name in self.passes),
        )

    def _claimed(self, facts: Mapping[str, Any], at: str) -> Line:
        kept = MILESTONES[1 : _REACHED.get(facts.get("phase", ""), 1)]
        steps = {name: Step(step=name, state="kept") for name in self.passes if name in kept}
        steps["claimed"] = Step(step="claimed", state="done", at=at)
        number, epoch = facts.get("attempt", 1), facts.get("epoch", 0)
        return attrs.evolve(self, number=number, epoch=epoch, steps=steps, working=None)

    def _ended(self, names: Iterable[Milestone], at: str) -> Line:
        """Kept stays kept, unless this attempt began it again itself."""
        steps = dict(self.steps)
        for name in names:
            before = steps.get(name)
            if name not in self.passes or (before is not None and (before.state == "done" or name not in self.own)):
                continue
            held = name == "dispatched" and name not in self.own
            steps[name] = Step(step=name, state="kept") if held else Step(step=name, state="done", at=at)
        return attrs.evolve(self, steps=steps)


def recorded(record: AuthorityRecord, *, passes: Sequence[Milestone], before: int | None = None) -> tuple[Attempt, ...]:
    """The attempts of the record's operation that its history still knows; ``before``: only those below this number."""
    mine = (entry for entry in record.history if entry.operation_id == record.operation.operation_id)
    groups = [(number, tuple(entries)) for number, entries in groupby(mine, key=lambda entry: entry.attempt)]
    last = groups[-1][0] if groups else 0
    return tuple(
        _recorded(entries, passes, held=bool(record.owner) and number == last)
        for number, entries in groups
        if before is None or number < before
    )


def _recorded(entries: Sequence[HistoryEntry], passes: Sequence[Milestone], *, held: bool) -> Attempt:
    first, last = entries[0], entries[-1]
    steps: dict[Milestone, Step] = {}
    kept = _REACHED[first.phase] if not first.source_reads else 1
    for entry in entries:
        for name in MILESTONES[len(steps) : _REACHED[entry.phase]]:
            inherited = 0 < len(steps) < kept or (name == "dispatched" and not entry.publications)
            state: State = "kept" if inherited else "done"
            steps[name] = Step(step=name, state=state, at=None if inherited else at_text(entry.at))
    outcome = _OUTCOMES.get(last.phase, "running" if held else "stopped")
    if outcome != "running" and len(steps) < len(MILESTONES):
        name = next(name for name in MILESTONES[len(steps) :] if name in passes)
        steps[name] = Step(step=name, state="failed", at=at_text(last.at) if outcome == "failed" else None)
    return Attempt(
        number=first.attempt,
        epoch=first.epoch,
        outcome=outcome,
        source_reads=last.source_reads,
        inserted_rows=last.rows,
        publications=last.publications,
        steps=tuple(steps.get(name, Step(step=name, state="never")) for name in passes),
    )


def at_text(milliseconds: int) -> str:
    """Unix milliseconds as UTC text."""
    moment = datetime.fromtimestamp(min(milliseconds, 253_402_300_799_000) / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
