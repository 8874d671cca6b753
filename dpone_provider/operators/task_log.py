"""What a load says in the task's log: a folded group a phase, progress now and then, one summary at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpone_provider.errors import DponeError
from dpone_provider.load.known import REPEATS

if TYPE_CHECKING:
    from dpone_provider.load.outcome import LoadOutcome

PROGRESS_EVERY = 5.0
# A step that is named here begins a phase; the log viewer folds everything up to the next one.
_PHASES = {
    "claim": "Admission",
    "plan": "Partitions",
    "stage": "Staging",
    "replace": "Publication",
    "resume": "Validation",
    "collect": "Source",
    "append": "Target",
    "seal": "Publication",
    "complete": "Completion",
    "pending": "Completion",
}
_STEPS = {
    "claim": "Claiming the target's slot",
    "reader": "Proving that a reader can be started and stopped here",
    "stage": "Staging a new generation",
    "plan": "Planning the partitions",
    "resume": "Everything is committed: validating it",
    "verify": "Counting the staged generation",
    "collect": "Reading the source to its end",
    "append": "Adding the rows to the table",
    "appended": "The server has acknowledged the rows",
    "advance": "Advancing the source's mark",
    "hook": "Running the author's statements",
    "seal": "Sealing the proof",
    "permit": "Taking the permit to publish",
    "publish": "Publishing",
    "fence": "Fencing a switch that got no answer",
    "committed": "Committed: the new table is live",
    "complete": "Completing: checking the stored proof",
    "pending": "Recording that the live table is still to be observed",
    "observe": "Observing the live table",
    "released": "Released the slot",
}


class TaskLog:
    """Writes to a task's logger, then tells ``further``; ``clock`` is monotonic seconds."""

    def __init__(
        self,
        log: Any,
        further: Callable[[str, dict[str, Any]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._further = further
        self._clock = clock
        self._next = clock() + PROGRESS_EVERY
        self._phase = ""
        self._moving: float | None = None

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        """One step of the load; rows and partitions are told every few seconds only."""
        self._enter(_PHASES.get(step, self._phase))
        if step == "partition":
            self._moved(facts)
        elif step == "planned":
            committed = f"{facts['committed']} of them committed by an earlier attempt"
            self._log.info("Attempt %s: %s partitions, %s", facts["attempt"], facts["planned"], committed)
        elif step == "replace":
            if self._due() or facts["partition"] in (1, facts["planned"]):
                self._log.info("Replacing partition %s of %s", facts["partition"], facts["planned"])
        elif step == "rows":
            if self._due():
                of = f" of {facts['total']:,}" if facts.get("total") else ""
                self._log.info("Read %s%s rows, %.1f MB", f"{facts['rows']:,}", of, facts["bytes"] / 1e6)
        elif step == "claimed":
            self._log.info("Attempt %s, epoch %s, found in phase %s", facts["attempt"], facts["epoch"], facts["phase"])
        elif step == "unanswered":
            self._log.warning("Gate %s has no answer: %s", facts["gate"], facts["why"])
        elif step in _STEPS:
            self._log.info(_STEPS[step])
        self._further(step, facts)

    def _moved(self, facts: dict[str, Any]) -> None:
        """How far the partitions are; the time left once one of them is there."""
        self._moving = now = self._clock() if self._moving is None else self._moving
        done, planned = facts["partitions"], facts["planned"]
        if self._due() or done == planned:
            left = (
                f", about {(self._clock() - now) * (planned - done) / done:,.0f} s left" if 0 < done < planned else ""
            )
            rows, size = f"{facts['rows']:,}", facts["bytes"] / 1e6
            self._log.info("Moved %s of %s partitions, %s rows, %.1f MB%s", done, planned, rows, size, left)

    def _due(self) -> bool:
        """Whether it is time to tell progress again."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + PROGRESS_EVERY
        return True

    def succeeded(self, outcome: LoadOutcome) -> None:
        """The summary of a success."""
        self._enter("")
        spec = outcome.spec
        target = f"{spec.sink.table.database}.{spec.sink.table.name}"
        done = (
            "finished an earlier attempt: 0 rows read, 0 rows inserted"
            if outcome.replayed and not outcome.inserted_rows
            else f"{outcome.extracted_rows:,} rows read, {_counted(outcome.inserted_rows)} inserted"
        )
        self._log.info(
            "%s: commit %s, governance complete, %s; %s, generation %s, operation %s",
            target,
            outcome.target_commit,
            done,
            f"{_counted(outcome.final_rows)} are live",
            outcome.generation or "none",
            outcome.operation_id,
        )

    def failed(self, error: DponeError) -> None:
        """The summary of a failure: what is true, and what to do."""
        self._enter("")
        self._log.error(
            "%s: %s Commit: %s. Governance: blocked. %s %s",
            error.code,
            error.message,
            error.target_commit or "no claim",
            _retry(error),
            error.next_step,
        )

    def _enter(self, phase: str) -> None:
        """End the group that is open and begin another; "" begins none."""
        if phase == self._phase:
            return
        if self._phase:
            self._log.info("::endgroup::")
        if phase:
            self._log.info("::group::%s", phase)
        self._phase = phase


def _counted(rows: int | None) -> str:
    return "rows that nobody counted" if rows is None else f"{rows:,} rows"


def _retry(error: DponeError) -> str:
    if error.retryable:
        return "A retry can finish this."
    return "It is not retried by itself." if REPEATS in error.next_step else "A retry cannot help."
