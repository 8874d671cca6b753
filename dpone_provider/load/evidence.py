"""The pieces of the evidence document: from what a load has, and from what the authority keeps, to what is shown.

One place for the task, which writes them as it goes, and for ``dpone status``. Pure; nothing here claims anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError, TargetCommit
from dpone_provider.page.document import Count, Evidence, Failure, Gate, Generation, Next, Original, Replica
from dpone_provider.replay.capsule import V2, CapsuleError, QualityReplayCapsule
from dpone_provider.replay.record import AuthorityRecord

MOST_BYTES = 8_000
LONGEST_TEXT = 400
_LONGEST_NAME = 100


@attrs.frozen(kw_only=True)
class Sealed:
    """What a sealed proof says. Empty where there is none, or none that can be trusted."""

    generation: Generation | None = None
    gates: tuple[Gate, ...] = ()
    counts: tuple[Count, ...] = ()
    original: Original | None = None
    digests: Mapping[str, str] = attrs.field(factory=dict)
    observes: bool = False


def sealed(record: AuthorityRecord | None) -> Sealed:
    """The proof in a record."""
    if record is None or record.generation is None:
        return Sealed()
    replicas = tuple(Replica(name=name, predecessor=record.predecessor.get(name)) for name in record.replicas)
    generation = Generation(uuid=record.generation, replicas=replicas)
    try:
        capsule = QualityReplayCapsule.parse(record.capsule or "")
    except CapsuleError:
        return Sealed(generation=generation)
    core = capsule.core
    target = capsule.completion[-1].target if capsule.completion else {}
    return Sealed(
        generation=generation,
        gates=gates_of(core["report"]),
        counts=counts_of({**core["acceptance"], "target": target}, rows=core["binding"]["staged_rows"]),
        original=Original(run_id=core["run_id"], load_id=core["load_id"]),
        digests={"core": capsule.core_digest, "admission": record.admission_digest},
        observes=capsule.kind == V2,
    )


def gates_of(report: Mapping[str, Any] | None) -> tuple[Gate, ...]:
    """The verdicts of a gate report, the ones that did not pass first; of their metrics the counts, no digests."""
    results = (report or {}).get("results", [])
    gates = [
        Gate(
            id=short(each["gate_id"]), type=each["type"], severity=each["severity"], status=each["status"],
            code=each["code"],
            metrics={name: count for name, count in each.get("metrics", {}).items() if type(count) is int},
        )
        for each in results
    ]  # fmt: skip
    return tuple(sorted(gates, key=lambda gate: ("failed", "warned", "passed").index(gate.status)))


def counts_of(sides: Mapping[str, Any], *, rows: int | None = None) -> tuple[Count, ...]:
    """Snapshots side by side, the counts that differ first. ``rows``: staged, where no snapshot has them."""
    found: dict[str, dict[str, int]] = {}
    for side in ("source", "staged", "target"):
        for metric, count in _metrics(sides.get(side) or {}):
            found.setdefault(metric, {})[side] = count
    if rows is not None:
        found = {"rows": {"staged": rows, **found.pop("rows", {})}, **found}
    counts = [Count(metric=metric, **by_side) for metric, by_side in found.items()]
    return tuple(sorted(counts, key=lambda count: count.agrees))


def with_target(counts: tuple[Count, ...], target: Mapping[str, Any]) -> tuple[Count, ...]:
    """Counts with what was seen of the live table beside them."""
    seen = dict(_metrics(target))
    named = {count.metric: attrs.evolve(count, target=seen.get(count.metric)) for count in counts}
    named = {metric: Count(metric=metric, target=count) for metric, count in seen.items()} | named
    return tuple(sorted(named.values(), key=lambda count: count.agrees))


def failure_of(error: DponeError) -> Failure:
    """An error as the evidence keeps it."""
    meaning = short(error.message, LONGEST_TEXT)
    return Failure(code=error.code, boundary=error.boundary, retryable=error.retryable, meaning=meaning)


def next_of_error(error: DponeError) -> Next:
    """What to do after an error. Only a load that published nothing may simply be corrected and run again."""
    untouched = error.target_commit == "not_started" or error.boundary in ("authoring", "admission", "pre_commit")
    if error.retryable:
        title = "Retry this task"
    elif untouched:
        title = "Correct the cause, then clear this task"
    else:
        title = "Look at the table, then load again as a new run"
    return Next(title=title, text=short(error.next_step, LONGEST_TEXT))


def next_of_success(*, durable: bool) -> Next:
    """After a success there is nothing to do."""
    proof = "its proof is complete" if durable else "its gates passed; no proof is stored"
    return Next(title="Nothing to do", text=f"The table is live and {proof}. Downstream tasks may run.")


def live_on(generation: Generation | None, commit: TargetCommit | None) -> Generation | None:
    """Proven means that every replica's own catalog showed the generation (P7)."""
    if generation is None or commit != "proven":
        return generation
    replicas = tuple(attrs.evolve(replica, live=generation.uuid) for replica in generation.replicas)
    return attrs.evolve(generation, replicas=replicas)


def fitted(evidence: Evidence) -> dict[str, Any]:
    """The document, cut to ``MOST_BYTES``: the operation's names go first, then ends of lists, and it says how many."""
    left: dict[str, int] = {}
    while len(json.dumps(evidence.payload())) > MOST_BYTES:
        if evidence.operation is not None and len(json.dumps(dict(evidence.operation))) > MOST_BYTES // 4:
            evidence = attrs.evolve(evidence, operation=None)
            continue
        name = max(("gates", "counts", "attempts"), key=lambda name: len(json.dumps(evidence.payload()[name])))
        items = getattr(evidence, name)
        if not items:
            evidence = attrs.evolve(evidence, target="", connection="", operation=None)
            break
        left[name] = left.get(name, 0) + 1
        items = items[1:] if name == "attempts" else items[:-1]
        evidence = attrs.evolve(evidence, left_out=left, **{name: items})
    return evidence.payload()


def short(text: str, most: int = _LONGEST_NAME) -> str:
    """A text of at most ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _metrics(snapshot: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    if snapshot.get("row_count") is not None:
        yield "rows", snapshot["row_count"]
    for name, words in (("null_counts", "NULLs in"), ("distinct_counts", "distinct")):
        for column, count in (snapshot.get(name) or {}).items():
            yield f"{words} {short(column)}", count
