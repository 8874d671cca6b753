"""The screen of a ``dpone run`` document: commit truth, governance, what to do, what every attempt did (O3).

Pure: a document in, a ``Screen`` out. What a document does not say is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpone_provider.cli.screen import Fact, Grid, Row, Screen, Tone, counted

_LIVE: dict[str | None, tuple[str, Tone]] = {
    "proven": ("yes: the server's catalog shows the new generation", "good"),
    "unknown": ("not known: the switch may or may not have been applied", "open"),
    "not_started": ("no: the table is as it was before", "bad"),
    None: ("no claim", "open"),
}
_ADDED: dict[str | None, tuple[str, Tone]] = {
    "proven": ("yes: the server has acknowledged them", "good"),
    "unknown": ("not known: none, some or all of them may be in the table", "open"),
    "not_started": ("no: none was sent", "bad"),
    None: ("no claim", "open"),
}
_REPLACED: dict[str | None, tuple[str, Tone]] = {
    "proven": ("yes: each has taken the place of the one before", "good"),
    "unknown": ("not known: none, some or all of them may be replaced", "open"),
    "not_started": ("no: the table is as it was before", "bad"),
    None: ("no claim", "open"),
}
_WORDS = {
    "append": ("Are the rows in the table?", _ADDED),
    "partition_replace": ("Are the partitions in the table?", _REPLACED),
}
_VERDICTS = {"proven": "loaded, its proof is not complete", "unknown": "not known whether it is loaded"}
_NUMBERS = frozenset({1, 2, 3})


def outcome_screen(document: Mapping[str, Any]) -> Screen:
    """The screen of a success or a failure."""
    passed = document["passed"] is True
    result = document["result"]
    details = result.get("details", {})
    if passed:
        verdict = "was loaded before; proof checked" if details.get("replayed") else "loaded"
    else:
        verdict = _VERDICTS.get(document["replay_details"].get("target_commit"), "not loaded")
    target = document.get("target") or document.get("process") or document.get("selector") or "load"
    return Screen(
        title=f"{target}: {verdict}",
        tone="good" if passed else "open" if _retryable(document) else "bad",
        facts=tuple(_success(document) if passed else _failure(document)),
        grids=tuple(_grids(document, details)),
        details=tuple(_identity(document, details)),
    )


def _success(document: Mapping[str, Any]) -> Iterator[Fact]:
    result, details = document["result"], document["result"]["details"]
    yield _live(document, details.get("target_commit"))
    if _adds(document):
        advanced = any(step["step"] == "state_advanced" for step in details.get("load_steps", []))
        then = "the next load reads what is above its mark" if advanced else "a retry adds the same rows again"
        yield Fact(label="Is the proof complete?", value=f"gates passed; nothing durable: {then}", tone="open")
    elif (scope := details.get("quality_scope")) is not None:
        value = "gates passed; checkpoints are kept: a retry of this run validates, and loads nothing again"
        yield Fact(label="Is the proof complete?", value=value, tone="good")
        skipped = scope["skipped_committed_count"] - scope["reactivated_count"]
        moved = counted(scope["active_count"], "partition")
        yield Fact(label="Partitions", value=f"{moved} loaded, {skipped} committed before")
    elif details["durable_quality_replay"]:
        yield Fact(label="Is the proof complete?", value="yes: sealed in the authority, checked, released", tone="good")
    else:
        value = "gates passed; nothing durable (durable_quality_replay is off): a retry reads the source again"
        yield Fact(label="Is the proof complete?", value=value, tone="open")
    yield Fact(label="This attempt", value=this_attempt(document))
    left = details.get("leftovers")
    if left:
        value = f"nothing; left behind, tried again by a replay: {', '.join(left)}"
        yield Fact(label="What to do", value=value, tone="open")
    else:
        yield Fact(label="What to do", value="nothing")
    if result["final_rows"] is not None:
        yield Fact(label="Rows in the table", value=f"{result['final_rows']:,}")
    if "data_replication" in document:
        value = f"{document['data_replication']}: every replica was counted, but no test of this release has seen it"
        yield Fact(label="Data replication", value=value, tone="open")


def _failure(document: Mapping[str, Any]) -> Iterator[Fact]:
    replay = document["replay_details"]
    yield _live(document, replay.get("target_commit"))
    state = replay.get("quality_state")
    yield Fact(label="Is the proof complete?", value=f"no{f': phase {state}' if state else ''}", tone="bad")
    tone: Tone = "open" if _retryable(document) else "bad"
    for error in document["result"]["errors"]:
        yield Fact(label="What happened", value=f"{error['code']}: {error['message']}", tone=tone)
    context = document["failure_context"]
    again = "; a retry of this same operation is right" if context["retryable"] else ""
    yield Fact(label="What to do", value=context["next_step"])
    yield Fact(label="Where it stopped", value=f"{context['failure_boundary']}{again}")
    yield Fact(label="This attempt", value=this_attempt(document))


def _adds(document: Mapping[str, Any]) -> bool:
    return document.get("strategy") == "append"


def _live(document: Mapping[str, Any], commit: str | None) -> Fact:
    label, words = _WORDS.get(document.get("strategy", ""), ("Is the new table live?", _LIVE))
    value, tone = words[commit]
    return Fact(label=label, value=value, tone=tone)


def this_attempt(document: Mapping[str, Any]) -> str:
    """What this attempt itself did, by its real counters; counters never prove a commit."""
    result = document["result"]
    attempts = result.get("details", {}).get("attempts") or [{}]
    own, sent = attempts[-1], document.get("effects", {})
    reads = sent.get("source_reads", own.get("source_reads", int(bool(result["extracted_rows"]))))
    inserts = sent.get("inserts", own.get("rows", result["inserted_rows"]))
    publications = own.get("publications", sent.get("exchanges", 0))
    sent_rows = counted(inserts, "insert") if inserts is not None else "inserts not known"
    did = f"{counted(reads, 'source read')}, {sent_rows}, {counted(publications, 'publication')}"
    replayed = result.get("details", {}).get("replayed")  # which may have asked the source for its partitions
    if document["passed"] and (inserts, publications) == (0, 0) and (replayed or not reads):
        return f"nothing repeated: {did}"
    rows = f", {counted(result['extracted_rows'], 'row')} read" if result["extracted_rows"] else ""
    return f"{did}{rows}, {result['duration_seconds']:.2f} s"


def _grids(document: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[Grid]:
    metrics = details.get("reconciliation_metrics", {})
    gates = (metrics.get("quality_gates") or document.get("quality_gates") or {}).get("results", [])
    if gates:
        yield Grid(title="Gates", columns=("gate", "type", "verdict", "counts"), rows=tuple(map(_gate, gates)))
    acceptance = (metrics.get("acceptance") or {}).get("snapshots", {})
    sides = ("source", "staged", *(("target",) if acceptance.get("target") else ()))
    counts = tuple(_counts([_metrics(acceptance.get(side)) for side in sides]))
    if counts:
        columns = ("observation", *sides, "difference")
        yield Grid(title="Observations", columns=columns, rows=counts, numeric=frozenset(range(1, len(columns))))
    attempts = details.get("attempts", [])
    if attempts:
        yield attempts_grid(attempts)


def attempts_grid(attempts: list[Mapping[str, Any]]) -> Grid:
    """What every attempt that the slot's history still knows did, by number."""
    rows = (
        Row(
            cells=(
                f"{attempt['number']}",
                f"{attempt['source_reads']:,}",
                f"{attempt['rows']:,}",
                f"{attempt['publications']:,}",
                " → ".join(attempt["phases"]),
            )
        )
        for attempt in attempts
    )
    first = attempts[0]["number"]
    title = "Attempts" if first == 1 else f"Attempts (before {first}: no longer in the history)"
    columns = ("attempt", "source reads", "rows", "publications", "phases")
    return Grid(title=title, columns=columns, rows=tuple(rows), numeric=_NUMBERS | {0})


def _gate(gate: Mapping[str, Any]) -> Row:
    tones: dict[str, Tone] = {"passed": "good", "failed": "bad"}
    counts = ", ".join(f"{name.replace('_', ' ')} {_metric(value)}" for name, value in gate.get("metrics", {}).items())
    verdict = f"{gate['status']} ({gate['code']})"
    return Row(cells=(gate["gate_id"], gate["type"], verdict, counts), tone=tones.get(gate["status"], "open"))


def _metric(value: int | str) -> str:
    """A count, or enough of a hash to tell it from another."""
    return f"{value:,}" if isinstance(value, int) else value[:19]


def _counts(sides: Sequence[Mapping[str, int | None]]) -> Iterator[Row]:
    """One row a metric, the sides beside each other; the difference is the largest one from the source."""
    for name in dict.fromkeys(name for side in sides for name in side):
        counts = [side.get(name) for side in sides]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            yield Row(cells=(name, *map(_number, counts), "-"), tone="quiet")
            continue
        difference = max((count - known[0] for count in known), key=abs)
        tone: Tone = "bad" if difference else "good"
        yield Row(cells=(name, *map(_number, counts), f"{difference:+,}" if difference else "0"), tone=tone)


def _metrics(snapshot: Mapping[str, Any] | None) -> dict[str, int | None]:
    if not snapshot:
        return {}
    found: dict[str, int | None] = {}
    if snapshot.get("row_count") is not None:
        found["rows"] = snapshot["row_count"]
    found |= {f"null: {column}": count for column, count in (snapshot.get("null_counts") or {}).items()}
    found |= {f"distinct: {column}": count for column, count in (snapshot.get("distinct_counts") or {}).items()}
    return found


def _identity(document: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[Fact]:
    identity = document.get("identity", {"run_id": document["run_id"]})
    for label in ("run_id", "dag_id", "task_id", "map_index", "namespace"):
        value = identity.get(label)
        if value not in (None, -1, "default"):
            yield Fact(label=label.replace("_", " "), value=str(value), tone="quiet")
    replay = details.get("reconciliation_metrics", {}).get("quality_replay")
    if replay is not None:
        original = replay["replayed_from"]
        yield Fact(label="proof of", value=f"run {original['run_id']}, load {original['load_id']}", tone="quiet")
    for label in ("operation_id", "generation", "load_id"):
        if details.get(label):
            yield Fact(label=label.replace("_", " "), value=str(details[label]), tone="quiet")


def _number(value: int | None) -> str:
    return "not asked" if value is None else f"{value:,}"


def _retryable(document: Mapping[str, Any]) -> bool:
    return document.get("failure_context", {}).get("retryable") is True
