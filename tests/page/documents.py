"""Evidence documents of every state that a person can find, for tests and for the pictures of the docs."""

from __future__ import annotations

from typing import Any

import attrs

from dpone_provider.page.document import (
    MILESTONES,
    Attempt,
    Count,
    Evidence,
    Failure,
    Gate,
    Generation,
    Milestone,
    Next,
    Outcome,
    Replica,
    State,
    Step,
)

UUID = "7c1e4f0a-93c2-4d51-8a57-1f0f2c9b6e11"
OLD = "1b22ce90-5f1e-4c0e-9a6e-2d7c33f0a001"
ROWS = 1_284_307
OPERATION = {
    "version": 1, "namespace": "production", "dag_id": "warehouse_nightly",
    "run_id": "scheduled__2026-11-29T04:00:00+00:00",
    "task_id": "orders", "map_index": -1, "process": "orders", "cluster": "", "database": "shop", "table": "orders",
}  # fmt: skip


def steps(done: int, *, kept: int = 0, then: State = "never", minute: int = 7, told: bool = True) -> tuple[Step, ...]:
    """``done`` milestones, those from the second to the ``kept``-th kept, and what became of the next."""
    found = []
    for index, name in enumerate(MILESTONES):
        state: State = "kept" if 0 < index < kept else "done" if index < done else then if index == done else "never"
        at = (
            f"2026-11-29T13:{minute:02d}:{47 + index:02d}.120Z"
            if state == "done" or (state == "failed" and told)
            else None
        )
        found.append(Step(step=name, state=state, at=at))
    return tuple(found)


def attempt(number: int, outcome: Outcome, line: tuple[Step, ...], *, reads: int = 1, sent: int = 1) -> Attempt:
    return Attempt(
        number=number, epoch=number, outcome=outcome, source_reads=reads, inserted_rows=reads * ROWS,
        publications=sent, steps=line,
    )  # fmt: skip


def counts(*, lost: int = 0, target: bool = True) -> tuple[Count, ...]:
    named = {"rows": ROWS, "NULLs in email": 412, "NULLs in shipped_at": 90_114, "distinct order_id": ROWS}
    found = []
    for metric, count in named.items():
        changed = count - lost if metric in ("rows", "distinct order_id") else count
        found.append(Count(metric=metric, source=count, staged=count, target=changed if target else None))
    return tuple(sorted(found, key=lambda each: each.agrees))


GATES = (
    Gate(
        id="no_row_is_lost", type="row_count_reconciliation", severity="error", status="passed", code="rows_reconciled",
        metrics={"source_rows": ROWS, "target_rows": ROWS, "difference_rows": 0, "allowed_rows": 0},
    ),
    Gate(
        id="enough_orders", type="min_rows", severity="error", status="passed", code="rows_reach_threshold",
        metrics={"rows": ROWS, "threshold_rows": 1_000_000},
    ),
    Gate(id="fresh", type="freshness", severity="warn", status="passed", code="fresh", metrics={"seconds": 912}),
)  # fmt: skip


def evidence(**changes: Any) -> Evidence:
    """A document, with some of its fields changed."""
    values: dict[str, Any] = {
        "operation_id": "6252fc158d27" + "4" * 52,
        "operation": OPERATION,
        "target": "shop.orders",
        "connection": "ch_dwh",
        "target_commit": "proven",
        "governance": "complete",
        "step": "released",
        "attempt": 1,
        "extracted_rows": ROWS,
        "next": Next(
            title="Nothing to do",
            text="The table is live and its proof is complete. Downstream tasks may run.",
        ),
        "generation": Generation(uuid=UUID, replicas=(Replica(name="single", predecessor=OLD, live=UUID),)),
        "gates": GATES,
        "counts": counts(),
        "attempts": (attempt(1, "succeeded", steps(7)),),
        "digests": {"core": "a" * 64, "admission": "sha256:" + "b" * 64},
        "target_observation": "observed",
        "recorded_at": "2026-11-29T13:07:59.412Z",
        "recorded_by_try": 1,
    }
    return Evidence(**{**values, **changes})


def proven() -> Evidence:
    """A second try finished what the first left."""
    first = attempt(1, "stopped", steps(4, then="failed", told=False))
    second = attempt(2, "succeeded", steps(7, kept=4, minute=9), reads=0, sent=0)
    return evidence(
        attempt=2, extracted_rows=0, attempts=(first, second), recorded_by_try=2, recorded_at="2026-11-29T13:09:54.019Z"
    )


def replayed() -> Evidence:
    """A cleared success."""
    second = attempt(2, "succeeded", steps(7, kept=6, minute=30), reads=0, sent=0)
    first = attempt(1, "succeeded", steps(7))
    return evidence(replayed=True, attempt=2, extracted_rows=0, attempts=(first, second), recorded_by_try=2)


def pending() -> Evidence:
    """Live, but its observation ran out of time."""
    return evidence(
        governance="blocked",
        step="observe",
        target_observation=None,
        counts=counts(target=False),
        attempts=(attempt(1, "failed", steps(5, then="failed")),),
        error=Failure(
            code="DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE", boundary="post_commit", retryable=True,
            meaning="The live table could not be observed (deadline).",
        ),
        next=Next(
            title="Retry this task",
            text="Retry the same operation: it finishes what is missing and repeats nothing.",
        ),
    )  # fmt: skip


def failed() -> Evidence:
    """Live, and somebody else wrote to it."""
    return evidence(
        governance="blocked",
        step="observe",
        target_observation=None,
        counts=counts(lost=1),
        attempts=(attempt(1, "failed", steps(5, then="failed")),),
        error=Failure(
            code="DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH", boundary="post_commit", retryable=False,
            meaning="The live table does not count what it counted when it was staged (row_count): "
            "something wrote to it since.",
        ),
        next=Next(
            title="Look at the table, then load again as a new run",
            text="Find the other writer in system.query_log, then start a new run: it reads the source again.",
        ),
    )  # fmt: skip


def refused() -> Evidence:
    """A gate failed before anything was published."""
    gate = attrs.evolve(
        GATES[1], status="failed", code="rows_below_threshold", metrics={"rows": 812_440, "threshold_rows": 1_000_000}
    )
    return evidence(
        target_commit="not_started",
        governance="blocked",
        step="verify",
        generation=None,
        gates=(gate, GATES[0]),
        counts=(),
        digests={},
        target_observation=None,
        attempts=(attempt(1, "failed", steps(1, then="failed"), sent=0),),
        error=Failure(
            code="DPONE_QUALITY_GATES_FAILED", boundary="pre_commit", retryable=False,
            meaning="Blocking gates failed: enough_orders (rows_below_threshold).",
        ),
        next=Next(
            title="Correct the cause, then clear this task",
            text="Look at the listed gates; correct the source or the gate.",
        ),
    )  # fmt: skip


def uncertain() -> Evidence:
    """The switch was sent and nobody answered."""
    return evidence(
        target_commit="unknown",
        governance="blocked",
        step="publish",
        generation=Generation(uuid=UUID, replicas=(Replica(name="single", predecessor=OLD),)),
        counts=counts(target=False),
        target_observation=None,
        attempts=(attempt(1, "failed", steps(3, then="failed")),),
        error=Failure(
            code="DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE", boundary="post_commit", retryable=True,
            meaning="The switch of the table could not be confirmed.",
        ),
        next=Next(
            title="Retry this task",
            text="Retry the same operation: it finishes what is missing and repeats nothing.",
        ),
    )  # fmt: skip


def running(done: Milestone = "staged") -> Evidence:
    """At work."""
    reached = MILESTONES.index(done)
    return evidence(
        target_commit="not_started" if reached < 3 else "unknown" if reached < 4 else "proven",
        governance="blocked",
        step="stage",
        generation=None,
        gates=(),
        counts=(),
        digests={},
        target_observation=None,
        attempts=(attempt(1, "running", steps(reached), sent=0),),
        next=Next(
            title="Wait", text="The load is at work. What stands here is true of the last step that it announced."
        ),
    )


def plain() -> Evidence:
    """Without the authority: loaded, nothing kept."""
    own = ("staged", "dispatched", "proven")
    line = tuple(Step(step=step.step, state="done", at=step.at) for step in steps(7) if step.step in own)
    return evidence(
        durable=False,
        generation=None,
        digests={},
        counts=counts(target=False),
        target_observation="not_requested",
        attempts=(attempt(1, "succeeded", line),),
        next=Next(
            title="Nothing to do",
            text="The table is live and its gates passed; no proof is stored. Downstream tasks may run.",
        ),
    )


def appended() -> Evidence:
    """An append whose rows were sent, and whose task died."""
    own = ("staged", "dispatched", "proven")
    line = tuple(step for step in steps(3) if step.step in own)
    return attrs.evolve(
        plain(),
        adds=True,
        target_commit="unknown",
        governance="blocked",
        step="append",
        gates=(),
        counts=(),
        attempts=(attempt(1, "running", line, sent=0),),
        next=running().next,
    )


DOCUMENTS = {
    "proven": proven(),
    "replayed": replayed(),
    "pending": pending(),
    "failed": failed(),
    "refused": refused(),
    "uncertain": uncertain(),
    "running": running(),
    "plain": plain(),
    "appended": appended(),
}
