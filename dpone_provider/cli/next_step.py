"""What ``dpone status`` saw, and what to do next in words, for every phase (O5). Pure."""

from __future__ import annotations

from typing import Literal

import attrs

from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.claim import STALE_CLAIM_AFTER_MS
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import CatalogFacts
from dpone_provider.replay.record import UNSEALED, AuthorityRecord, Found

Relation = Literal["not asked", "none", "this", "another", "ended"]
Live = Literal["generation", "predecessor", "other", "nothing sealed"]


@attrs.frozen(kw_only=True)
class Sighting:
    """What was read.

    ``operation``: the one asked for, or None. ``problem``: why the authority cannot be used, "" = it can.
    ``found`` None: no authority is used or usable. ``facts``: the live table and every private table of the target.
    """

    spec: LoadSpec
    operation: Operation | None
    admission_digest: str
    authority: str
    problem: str
    found: Found | None
    archived: bool
    facts: CatalogFacts


def relation(saw: Sighting) -> Relation:
    """How the operation asked for stands to the slot."""
    if saw.operation is None:
        return "not asked"
    record = saw.found.record if saw.found is not None else None
    if record is None:
        return "none"
    if record.operation == saw.operation:
        return "this"
    ended = any(item.operation_id == saw.operation.operation_id for item in record.ended)
    return "ended" if ended or saw.archived else "another"


def live_is(saw: Sighting, record: AuthorityRecord | None) -> Live:
    """Which table is live, by UUID."""
    if record is None or record.generation is None:
        return "nothing sealed"
    live = saw.facts.live.uuid if saw.facts.live is not None else None
    if live == record.generation:
        return "generation"
    return "predecessor" if live in record.predecessor.values() else "other"


def next_step(saw: Sighting) -> str:
    """What to do, in words."""
    if not saw.spec.sink.durable_quality_replay:
        return "Nothing to finish: without durable_quality_replay a retry reads the source and loads again."
    if saw.found is None:
        return f"{saw.problem} Let the platform owner run `dpone provision`; loads never create or repair it."
    record = saw.found.record
    if record is None:
        return "No operation has claimed this target yet: run the load."
    step = _of_phase(saw, record)
    match relation(saw):
        case "ended":
            return (
                "A later operation has ended the window of the operation asked for: it is never run again. "
                "Start a new run."
            )
        case "another":
            return f"Another operation holds the slot: {_name(record.operation)}. {step}"
        case "this" if record.phase not in UNSEALED and record.admission_digest != saw.admission_digest:
            return (
                f"The configuration is not the one that was sealed: finish this operation with the sealed one. {step}"
            )
        case _:
            return step


def _of_phase(saw: Sighting, record: AuthorityRecord) -> str:
    live = live_is(saw, record)
    match record.phase:
        case "CLAIMED":
            return _claimed(_patience(saw))
        case "REJECTED":
            return (
                "Source, staging or a gate failed before anything was published; the old table is untouched. "
                "Correct the cause, then run it again."
            )
        case "PREPARED":
            return (
                "Staged, proven and sealed, not published. Retry this operation: it publishes without the source. "
                + _others(_patience(saw))
            )
        case "DISPATCHING":
            return _dispatching(live)
        case "COMMITTED" if live == "generation":
            return (
                "The new table is live, its proof is not complete. Retry this operation: it completes without the "
                "source. Until then no other operation gets the slot."
            )
        case "COMMITTED":
            return (
                "The generation was published, and another table is live now. Find who wrote it; a retry of this "
                "operation records it as FAILED."
            )
        case "COMPLETE" if record.owner:
            return (
                "Complete; an attempt holds the slot to check the proof, or died doing so. Retry this operation. "
                + _others(_patience(saw))
            )
        case "COMPLETE" if live == "generation":
            return "Nothing to do: the new table is live and its proof is complete."
        case "COMPLETE":
            return (
                "This operation is complete, and another table is live now. Find who wrote it; "
                "a new run loads it again."
            )
        case _:
            return "This operation ended as FAILED after its publication; that never changes. Start a new run."


def _claimed(patience: int) -> str:
    if patience > 0:
        return (
            "An attempt is staging, or died a short while ago; nothing is published. Wait for it. A retry of this "
            f"operation takes over at once, another operation in {patience} s at the earliest."
        )
    return "The attempt that staged is gone; nothing is published. Retry this operation, or run the next one."


def _dispatching(live: Live) -> str:
    texts: dict[Live, str] = {
        "generation": (
            "The new table is live; that is not recorded yet. Retry this operation: it records and completes."
        ),
        "predecessor": (
            "The switch was permitted and is not applied, or not yet. Retry this operation: it makes sure that the "
            "first statement can no longer come through, then sends one more."
        ),
    }
    other = (
        "The live table is neither the old one nor the new generation: nothing more is sent. Find who else writes to "
        "this table before anything is done."
    )
    return texts.get(live, other)


def _others(patience: int) -> str:
    return (
        f"Another operation may go on in {patience} s at the earliest."
        if patience > 0
        else "Another operation may go on."
    )


def _patience(saw: Sighting) -> int:
    """Seconds until another operation may take the slot, 0 = now."""
    if saw.found is None or saw.found.record is None or not saw.found.record.owner:
        return 0
    return max(0, STALE_CLAIM_AFTER_MS - (saw.found.now - saw.found.record.refreshed_at)) // 1000


def _name(operation: Operation) -> str:
    return f"run {operation.run_id} of {operation.dag_id}, task {operation.task_id}"
