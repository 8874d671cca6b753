"""The evidence that a task keeps while it runs: pushed before each step acts, so a dead try leaves its last true word.

One strict-JSON XCom under ``KEY``, at most 8 000 bytes; it says what is known, never more (F4, F8, protocol 8).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load import evidence as pieces
from dpone_provider.load.known import Known
from dpone_provider.load.timeline import Line, at_text, recorded
from dpone_provider.page.document import KEY, KIND, MILESTONES, Next, Original
from dpone_provider.page.document import Evidence as Document
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.tenure import Fenced

if TYPE_CHECKING:
    from dpone_provider.load.outcome import LoadOutcome

__all__ = ["KEY", "KIND", "Evidence"]
_RUNNING = Next(title="Wait", text="The load is at work. What stands here is true of the last step that it announced.")


class Evidence:
    """``push(key, document)`` keeps a document; every step is told ``further`` afterwards.

    ``try_number``: Airflow's; ``now``: Unix seconds.
    """

    def __init__(
        self,
        push: Callable[[str, dict[str, Any]], None],
        further: Callable[[str, dict[str, Any]], None],
        *,
        try_number: int = 1,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._push = push
        self._further = further
        self._now = now
        self._known = Known()
        self._line = Line()
        self._document = Document(
            operation_id="", target="", target_commit=None, governance="blocked", next=_RUNNING, recorded_at="",
            recorded_by_try=try_number,
        )  # fmt: skip

    def about(
        self,
        operation: Operation,
        *,
        connection: str = "",
        durable: bool = True,
        observes: bool = True,
        adds: bool = False,
        resumes: bool = False,
    ) -> None:
        """From here on the evidence names this operation. ``observes``: its live table is observed by the authority's
        reader; ``adds``: its rows are added to the live table; ``resumes``: checkpoints tell a retry what is left.
        """
        passes = [name for name in MILESTONES if durable or name in ("staged", "dispatched", "proven")]
        self._line = Line(passes=tuple(name for name in passes if observes or name != "observed"))
        self._set(
            operation_id=operation.operation_id,
            operation=operation.payload(),
            target=pieces.short(str(operation.target), 250),
            connection=pieces.short(connection),
            durable=durable,
            adds=adds,
            resumes=resumes,
        )

    @property
    def repeats(self) -> bool:
        """Whether rows are, or may be, in the table that another try would add again."""
        return self._known.repeats

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        """One announced step, before it acts. Rows alone are no news, nor is one replacement after the first."""
        self._known = self._known.after(step, facts)
        self._line = self._line.after(step, facts, self._at())
        if "record" in facts:
            self._proof(facts)
        if step not in ("rows", "partition") and facts.get("partition", 1) == 1:
            self._keep()
        self._further(step, facts)

    def failed(self, error: DponeError) -> None:
        """How it ended: the error's own claim, and what to do. A fenced try leaves the word to the newer one."""
        if isinstance(error, Fenced):
            return
        self._line = self._line.failed(self._at())
        context = error.context
        gates = pieces.gates_of(context.get("quality_gates")) or self._document.gates
        self._set(error=pieces.failure_of(error), next=pieces.next_of_error(error), gates=gates)
        if "target_observation" in context:
            self._set(counts=pieces.with_target(self._document.counts, context["target_observation"]))
        self._keep("failed", target_commit=error.target_commit)

    def succeeded(self, outcome: LoadOutcome) -> None:
        """The proven end. ``target_observation``: of the live table; ``replayed_from``: which staging was proven."""
        replay = outcome.quality_replay if outcome.replayed else None
        self._line = self._line.succeeded(self._at())
        self._keep(
            "succeeded",
            governance="complete",
            next=pieces.next_of_success(durable=outcome.durable),
            target_commit=outcome.target_commit,
            replayed=outcome.replayed,
            replayed_from=Original(**replay["replayed_from"]) if replay is not None else None,
            target_observation=_observation(outcome.acceptance),
            gates=pieces.gates_of(outcome.gates),
            counts=pieces.counts_of(outcome.acceptance, rows=outcome.final_rows),
        )

    def _proof(self, facts: Mapping[str, Any]) -> None:
        """What the authority's record brings: earlier attempts, and the sealed proof."""
        record = facts["record"]
        proof = pieces.sealed(record)
        earlier = recorded(record, passes=self._line.passes, before=facts["attempt"]) if "attempt" in facts else ()
        self._set(
            generation=proof.generation,
            gates=proof.gates,
            counts=proof.counts,
            digests=proof.digests,
            attempts=earlier or self._document.attempts,
        )

    def _keep(self, outcome: Any = "running", **facts: Any) -> None:
        known = self._known
        facts = {"target_commit": known.target_commit, **facts}
        document = attrs.evolve(
            self._document,
            step=known.step,
            attempt=known.attempt,
            extracted_rows=known.rows,
            generation=pieces.live_on(self._document.generation, facts["target_commit"]),
            attempts=(*self._document.attempts, self._line.attempt(outcome)),
            recorded_at=self._at(),
            **facts,
        )
        self._push(KEY, pieces.fitted(document))

    def _set(self, **changes: Any) -> None:
        self._document = attrs.evolve(self._document, **changes)

    def _at(self) -> str:
        return at_text(round(self._now() * 1000))


def _observation(acceptance: Mapping[str, Any]) -> str:
    target = acceptance.get("target")
    if target is None:
        return "not_requested"
    return "unavailable" if target["warnings"] else "observed"
