"""The page of what ``dpone status`` saw, the one that Airflow shows of a task (O5). Pure, but for its nonce."""

from __future__ import annotations

import secrets
from typing import Any

import attrs

from dpone_provider.cli.next_step import next_step
from dpone_provider.cli.sighting import Sighting, live_is, relation
from dpone_provider.errors import CATALOGUE, TargetCommit
from dpone_provider.load import evidence as pieces
from dpone_provider.load.operation import observes_target
from dpone_provider.load.timeline import at_text, recorded
from dpone_provider.page.document import MILESTONES, Evidence, Failure, Next
from dpone_provider.page.render import load_page, notice_page
from dpone_provider.page.view import load_view
from dpone_provider.replay.ports import CatalogFacts
from dpone_provider.replay.record import AuthorityRecord

_FAILED = "DPONE_REPLAY_QUALITY_EVIDENCE_FAILED"
_TITLES = {
    "CLAIMED": "Wait, or retry it",
    "REJECTED": "Correct the cause, then run it again",
    "PREPARED": "Retry the operation in the slot",
    "DISPATCHING": "Retry the operation in the slot",
    "COMMITTED": "Retry the operation in the slot",
    "COMPLETE": "Nothing to do",
    "FAILED": "Look at the table, then start a new run",
}
_COMMITS: dict[str, TargetCommit] = dict.fromkeys(("CLAIMED", "REJECTED", "PREPARED"), "not_started")
_RELATIONS = {
    "another": "The run asked for is not in the slot: what is shown is another operation.",
    "ended": "The window of the run asked for has ended: what is shown is a later operation.",
}


def page(saw: Sighting) -> str:
    """The page as one HTML file."""
    nonce = secrets.token_urlsafe(16)
    record = saw.record
    if record is None:
        sink = saw.spec.sink
        title = f"{sink.table.database}.{sink.table.name}: no operation"
        return notice_page(title, next_step(saw), nonce=nonce, framed=False)
    warning = _RELATIONS.get(relation(saw), "")
    shown = load_view(evidence(saw, record), None, source="authority", warning=warning)
    return load_page(shown, nonce=nonce, framed=False)


def evidence(saw: Sighting, record: AuthorityRecord) -> Evidence:
    """What the authority and the catalog say, as a task would record it."""
    proof = pieces.sealed(record)
    observes = proof.observes or (proof.generation is None and observes_target(saw.spec))
    passes = tuple(name for name in MILESTONES if observes or name != "observed")
    attempts = recorded(record, passes=passes)
    commit: TargetCommit = _COMMITS.get(record.phase, "unknown")
    generation = proof.generation
    if generation is not None:
        seen = {name: _live(facts) for name, facts in saw.replicas.items()}
        here = _live(saw.facts)
        replicas = tuple(attrs.evolve(one, live=seen.get(one.name, here)) for one in generation.replicas)
        generation = attrs.evolve(generation, replicas=replicas)
        commit = "proven" if live_is(saw, record) == "generation" else commit
    complete = record.phase == "COMPLETE"
    failed = Failure(code=_FAILED, boundary="post_commit", retryable=False, meaning=CATALOGUE[_FAILED].meaning)
    return Evidence(
        operation_id=record.operation.operation_id,
        operation=record.operation.payload(),
        target=str(record.operation.target),
        connection=saw.spec.sink.connection_ref,
        target_commit=commit,
        governance="complete" if complete else "blocked",
        next=Next(title=_title(saw, record), text=next_step(saw)),
        recorded_at=at_text(saw.found.now if saw.found is not None else 0),
        attempt=record.attempt,
        error=failed if record.phase == "FAILED" else None,
        generation=generation,
        gates=proof.gates,
        counts=proof.counts,
        attempts=attempts,
        digests=proof.digests,
        replayed_from=proof.original,
        **_observation(saw, complete=complete),
    )


def _live(facts: CatalogFacts | None) -> str | None:
    return facts.live.uuid if facts is not None and facts.live is not None else None


def _title(saw: Sighting, record: AuthorityRecord) -> str:
    if record.phase in ("DISPATCHING", "COMMITTED", "COMPLETE") and live_is(saw, record) == "other":
        return "Find out who replaced the table"
    return _TITLES[record.phase]


def _observation(saw: Sighting, *, complete: bool) -> dict[str, Any]:
    capsule = saw.capsule
    target = capsule.completion[-1].target if capsule is not None and capsule.completion else {}
    if not complete or not target:
        return {}
    return {"target_observation": "unavailable" if target["warnings"] else "observed"}
