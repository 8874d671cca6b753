"""What a person is shown of one load: verdicts in words, tones and shapes, out of the evidence and Airflow's own state.

Pure. The evidence is what the task recorded; what neither says is not claimed. A retryable failure is amber, never red.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Literal

import attrs

from dpone_provider.page.adding import added, next_try
from dpone_provider.page.document import Count, Evidence, Gate, Generation, Next
from dpone_provider.page.timeline import Bar, bars
from dpone_provider.page.verdict import Tone, Verdict

Life = Literal["running", "waiting", "died", "ended"]
_AT_WORK = frozenset({"running", "deferred", "up_for_reschedule", "restarting"})
_WAITING = frozenset({"up_for_retry", "queued", "scheduled", "awaiting_input"})
REFRESH: dict[Life, int] = {"running": 5, "waiting": 15}


@attrs.frozen(kw_only=True)
class Task:
    """A task instance as Airflow has it. ``state`` None: not scheduled yet."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    state: str | None = None
    try_number: int = 1

    @property
    def command(self) -> str:
        """The command that asks ClickHouse itself."""
        names = {"--dag-id": self.dag_id, "--run-id": self.run_id, "--task-id": self.task_id}
        index = f" --map-index {self.map_index}" if self.map_index >= 0 else ""
        return "dpone status MANIFEST " + " ".join(f"{key} {shlex.quote(each)}" for key, each in names.items()) + index


@attrs.frozen(kw_only=True)
class LoadView:
    """The page of one load. ``source``: where the evidence comes from; ``task`` None: not asked of Airflow."""

    evidence: Evidence
    task: Task | None
    source: Literal["task", "authority"]
    live: Verdict
    proof: Verdict
    todo: Next
    warning: str
    bars: tuple[Bar, ...]
    refresh: int

    @property
    def tone(self) -> Tone:
        """The worst of both answers."""
        order: tuple[Tone, ...] = ("bad", "warn", "busy", "calm", "good")
        return min(self.live.tone, self.proof.tone, key=order.index)


def load_view(
    evidence: Evidence, task: Task | None, *, source: Literal["task", "authority"] = "task", warning: str = ""
) -> LoadView:
    """The page of what is known. ``warning``: of whoever read it."""
    life = _life(evidence, task)
    return LoadView(
        evidence=evidence,
        task=task,
        source=source,
        live=_live(evidence, life),
        proof=_proof(evidence, life),
        todo=_todo(evidence, task, life),
        warning=warning or _warning(evidence, task),
        bars=bars(
            evidence.attempts,
            died=life in ("died", "waiting"),
            retryable=evidence.error is not None and evidence.error.retryable,
        ),
        refresh=REFRESH.get(life, 0) if task is not None else 0,
    )


def _life(evidence: Evidence, task: Task | None) -> Life:
    if task is not None and task.state in _WAITING:
        return "waiting"
    if evidence.error is not None or evidence.governance == "complete":
        return "ended"
    if task is None:
        return "running" if evidence.attempts and evidence.attempts[-1].outcome == "running" else "died"
    return "running" if task.state in _AT_WORK else "died"


def _live(evidence: Evidence, life: Life) -> Verdict:
    if evidence.adds:
        return added(evidence, running=life == "running")
    match evidence.target_commit:
        case "proven" if evidence.resumes:
            return Verdict(word="Yes, committed", tone="good", text="Every partition’s checkpoint says so.")
        case "unknown" if evidence.resumes:
            text = "Partitions were sent to take their places: none, some or all of them may have. Assume nothing."
            return Verdict(word="Not known", tone="warn", text=text)
        case "proven":
            return Verdict(word="Yes, proven", tone="good", text=_where(evidence.generation))
        case "unknown" if _replaced(evidence.generation):
            text = "Another table is live now, neither the old one nor the one that was sealed."
            return Verdict(word="No", tone="bad", text=text)
        case "unknown":
            text = "The switch was permitted; whether it was applied is not known. Assume neither."
            return Verdict(word="Not known", tone="warn", text=text)
        case "not_started" if life == "running":
            text = "Nothing has been switched: readers see the table as it was before this load."
            return Verdict(word="Not yet", tone="busy", text=text)
        case "not_started":
            return Verdict(
                word="No", tone="calm", text="Nothing was switched: the table is as it was before this load."
            )
    return Verdict(word="No claim", tone="calm", text="This try has not found out yet what earlier ones did.")


def _replaced(generation: Generation | None) -> bool:
    """Did somebody look, and find a table that is neither of both?"""
    replicas = generation.replicas if generation is not None else ()
    return any(replica.live not in (None, replica.predecessor) for replica in replicas)


def _where(generation: Generation | None) -> str:
    replicas = generation.replicas if generation is not None else ()
    if generation is None or len(replicas) < 2:
        return "Read from the server’s own catalog, by UUID."
    live = sum(replica.live == generation.uuid for replica in replicas)
    return f"Live on {live} of {len(replicas)} replicas, read from each replica’s own catalog."


def _proof(evidence: Evidence, life: Life) -> Verdict:
    failed = [gate for gate in evidence.gates if gate.status == "failed"]
    if evidence.governance == "complete" and evidence.durable:
        return Verdict(word="Complete", tone="good", text=_complete(evidence))
    if evidence.governance == "complete":
        if evidence.resumes:
            text = f"{_passed(evidence.gates)} Checkpoints are kept: a retry validates, and loads nothing again."
            return Verdict(word="Complete", tone="good", text=text)
        why = "append keeps none" if evidence.adds else "durable_quality_replay is off, so a retry loads again"
        text = f"{_passed(evidence.gates)} No proof is stored: {why}."
        return Verdict(word="Checked, not kept", tone="calm", text=text)
    if failed:
        late = evidence.error is not None and evidence.error.boundary == "post_commit"
        when = "after the rows were added: they are in the table" if late else "before anything was published"
        text = f"{len(failed)} of {_gates(len(evidence.gates))} failed {when}."
        return Verdict(word="Gate failed", tone="bad", text=text)
    if life in ("running", "waiting"):
        return Verdict(word="Not yet", tone="busy", text="The proof is complete when the load ends.")
    later = "a later try can finish it" if evidence.durable or evidence.resumes else "a later try loads again"
    if evidence.error is None:
        return Verdict(word="Not yet", tone="warn", text=f"No attempt is at work, and none said how it ended; {later}.")
    if evidence.error.retryable:
        return Verdict(word="Not yet", tone="warn", text=f"Something could not be had in time; {later}.")
    if evidence.target_commit == "not_started" or evidence.error.boundary in ("authoring", "admission"):
        return Verdict(word="None", tone="bad", text="The load stopped before there was anything to prove.")
    return Verdict(word="Failed", tone="bad", text="The evidence was read and does not stand. This answer is final.")


def _complete(evidence: Evidence) -> str:
    counted = [
        side for side in ("source", "staged", "target") if any(getattr(c, side) is not None for c in evidence.counts)
    ]
    words = [_passed(evidence.gates)]
    if counted:
        words.append(f"{', '.join(counted).capitalize()} counted.")
    if evidence.target_observation == "unavailable":
        words.append("The live table could not be observed; the policy only warns.")
    if evidence.replayed:
        words.append("Proven by an earlier run of this task and checked again.")
    elif len(evidence.attempts) > 1 and not evidence.attempts[-1].source_reads:
        words.append("Finished by a later attempt without reading the source.")
    return " ".join(word for word in words if word)


def _passed(gates: tuple[Gate, ...]) -> str:
    passed = sum(gate.status == "passed" for gate in gates)
    return f"{passed} of {_gates(len(gates))} passed." if gates else ""


def _gates(count: int) -> str:
    return f"{count} gate{'' if count == 1 else 's'}"


def _todo(evidence: Evidence, task: Task | None, life: Life) -> Next:
    if task is None or evidence.governance == "complete":
        return evidence.next
    retryable = evidence.error is None or evidence.error.retryable
    if life == "waiting" and retryable:
        return Next(
            title="Wait: Airflow tries again by itself",
            text=evidence.next.text if evidence.error else next_try(evidence),
        )
    if life == "died":
        sent = evidence.adds and evidence.target_commit in ("proven", "unknown")
        return Next(
            title="Look at the table first" if sent else "Clear this task",
            text=f"It ended without a last word, after step “{evidence.step}”. {next_try(evidence)}",
        )
    if life == "ended" and retryable and task.state == "failed":
        return attrs.evolve(evidence.next, title="Clear this task")
    return evidence.next


def _warning(evidence: Evidence, task: Task | None) -> str:
    """Where Airflow's state and the evidence say different things."""
    if task is None:
        return ""
    named = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
    if any((evidence.operation or named).get(name) != value for name, value in named.items()):
        return "The evidence names another task instance: somebody wrote it here by hand."
    if task.state == "success" and evidence.governance != "complete":
        return "Airflow shows success, the evidence does not: somebody set the state by hand."
    if task.state == "failed" and evidence.governance == "complete":
        return "The proof is complete; Airflow shows failed, because the task was stopped or marked afterwards."
    return ""


def number(value: int | None) -> str:
    """A count for people, grouped by thin spaces."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def differences(count: Count) -> dict[str, str]:
    """How far each side is from the first that was counted, where it is."""
    sides = {side: getattr(count, side) for side in ("source", "staged", "target")}
    known = {side: value for side, value in sides.items() if value is not None}
    first = next(iter(known.values()), 0)
    return {
        side: f"{value - first:+,}".replace(",", "\u202f").replace("-", "−")
        for side, value in known.items()
        if value != first
    }


def moment(text: str) -> str:
    """A time for people, or the text as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%-d\u00a0%b\u00a0%Y, %H:%M:%S\u00a0UTC}"
    except (ValueError, OverflowError):
        return text
