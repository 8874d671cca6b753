"""What to do next, in words, for everything that ``dpone status`` can see (O5). Pure.

docs/recovery.md shows each of these texts as a real server gave it.
"""

from __future__ import annotations

from dpone_provider.cli.sighting import Sighting, is_staged, live_is, relation
from dpone_provider.replay.identity import Operation, governed_by
from dpone_provider.replay.record import UNSEALED, AuthorityRecord
from dpone_provider.replay.target_reader import BUDGET_SECONDS

_NO_AUTHORITY = (
    "Loads never create or repair it. If there never was one, let the platform owner run `dpone provision`. If there "
    "was, find out what happened and restore it: a new one knows no proof and no ended window."
)
_OBSERVATION_SECONDS = round(BUDGET_SECONDS) + 5  # the reader's end included (protocol 7)
_BLOCKS = "Until then no other operation gets the slot, however long it takes."


def next_step(saw: Sighting) -> str:
    """What to do, in words."""
    if saw.spec.sink.strategy.mode == "append":
        return (
            "Nothing to finish, and nothing here says whether rows were added: a retry may add the same rows again. "
            "Look at the table, and at dpone_load_steps where there is one."
        )
    if saw.spec.source.partitions is not None:
        return (
            "What is committed stands in the checkpoints of the run, in the folder that `dpone plan` names. A retry of "
            "the same run loads what is not, and only validates when everything is."
        )
    if not saw.spec.sink.durable_quality_replay:
        return "Nothing to finish: without durable_quality_replay a retry reads the source and loads again."
    if saw.found is None:
        return f"{saw.problem} {_NO_AUTHORITY}"
    record = saw.found.record
    if record is None:
        return _empty(saw)
    match relation(saw):
        case "ended":
            return (
                "A later operation has ended the window of the operation asked for: it is never run again. "
                "Start a new run."
            )
        case "another":
            return _another(saw, record)
        case "this" if record.admission_digest != saw.admission_digest:
            return _changed(record) + _of_phase(saw, record)
        case _:
            return _of_phase(saw, record)


def _empty(saw: Sighting) -> str:
    maker = governed_by(saw.facts.live.comment) if saw.facts.live is not None else None
    if maker is None:
        return "No operation has claimed this target yet: run the load."
    own = saw.operation is not None and maker == saw.operation.operation_id
    whose, then = (
        ("the operation asked for", "a retry of it is refused") if own else ("an operation", "a run reads the source")
    )
    return (
        f"The slot is empty, but {whose} published the live table under an authority ({maker[:12]}): this one has lost "
        f"its record, or is another one. Nothing can be taken from the table: {then}. Find out what happened to the "
        "authority first."
    )


def _changed(record: AuthorityRecord) -> str:
    if record.phase in {*UNSEALED, "FAILED"}:
        return ""
    until = (
        "load with it in a new run, or set `reprocess`"
        if record.phase == "COMPLETE"
        else "put the sealed one back until this operation is finished"
    )
    return f"The configuration is not the one that was sealed, and a retry with it is refused: {until}. "


def _another(saw: Sighting, record: AuthorityRecord) -> str:
    held = f"Another operation is in the slot, {_name(record.operation)}"
    if record.phase in {"DISPATCHING", "COMMITTED"}:
        return f"{held}, and yours is blocked until that one is finished. {_of_phase(saw, record)}"
    if record.phase != "FAILED" and saw.patience:
        return f"{held}. Yours may take it in {saw.patience} s at the earliest; or finish that one first."
    left = {
        "COMPLETE": "That operation is complete; its window ends then.",
        "FAILED": "That operation is FAILED; its record goes to the archive.",
    }
    return f"{held}. Run yours: it takes the slot. " + left.get(
        record.phase, "That operation has published nothing and may start again later."
    )


def _of_phase(saw: Sighting, record: AuthorityRecord) -> str:
    if saw.silent and record.phase in {"DISPATCHING", "COMMITTED", "COMPLETE"} and live_is(saw, record) == "unknown":
        blocks = f" {_BLOCKS}" if record.phase != "COMPLETE" else ""
        return (
            f"Which table is live on {', '.join(saw.silent)} is not known: it does not answer. Bring it back, then "
            f"retry the operation in the slot: it finishes what is missing and repeats nothing.{blocks}"
        )
    match record.phase:
        case "CLAIMED":
            return _claimed(saw.patience)
        case "REJECTED":
            return (
                "Source, staging, a gate or acceptance failed before anything was published; the live table is "
                "untouched. Correct the cause, then run it again."
            )
        case "PREPARED":
            return _prepared(saw, record)
        case "DISPATCHING":
            return _dispatching(saw, record)
        case "COMMITTED":
            return _committed(saw, record)
        case "COMPLETE":
            return _complete(saw, record)
        case _:
            return (
                "This operation ended as FAILED after its publication; that never changes. Look at the live table and "
                "at who wrote it, then start a new run: it keeps this record in the archive."
            )


def _claimed(patience: int) -> str:
    if patience:
        return (
            "An attempt is staging, or died a short while ago; nothing is published. Wait for it. A retry of the "
            f"operation in the slot takes over at once, another operation in {patience} s at the earliest."
        )
    return (
        "The claim is stale: its attempt died, or its source has given nothing for 15 minutes; nothing is published. "
        "Retry the operation in the slot, or run the next one."
    )


def _prepared(saw: Sighting, record: AuthorityRecord) -> str:
    if is_staged(saw, record):
        does = "Staged, proven and sealed, not published. Retry the operation in the slot: it publishes without the"
    else:
        does = "Sealed, but the staged table is gone. Retry the operation in the slot: it stages again from the"
    return f"{does} source. {_others(saw.patience)}"


def _dispatching(saw: Sighting, record: AuthorityRecord) -> str:
    live = live_is(saw, record)
    if live == "generation":
        return (
            "The new table is live; that is not recorded yet. Retry the operation in the slot: it records that and "
            f"completes without the source. {_BLOCKS}"
        )
    if live == "some":
        return (
            "Some replicas have the new table, the others still the old one. Retry the operation in the slot: it "
            f"finishes those that are left, sends nothing to the others, and completes without the source. {_BLOCKS}"
        )
    if live == "predecessor" and is_staged(saw, record):
        return (
            "The switch was permitted and is not applied, or not yet. Retry the operation in the slot: it makes sure "
            f"that the first statement can no longer come through, then sends one more. {_BLOCKS}"
        )
    what = (
        "The sealed generation is gone"
        if live == "predecessor"
        else "The live table is neither the old one nor the new generation"
    )
    return (
        f"{what}: nothing more is sent, and no other operation gets the slot. Find who else writes to this database; a "
        "person decides what readers should see. Never edit or drop the authority."
    )


def _committed(saw: Sighting, record: AuthorityRecord) -> str:
    if live_is(saw, record) != "generation":
        now = "another table is live now" if saw.facts.live is not None else "there is no live table now"
        return (
            f"The generation was published, and {now}. Find who wrote it; a retry of the operation in the slot records "
            "it as FAILED. Then a new run can load the table again."
        )
    capsule = saw.capsule
    if capsule is None:
        return (
            "The new table is live, and the slot holds no proof of it: its quality stays unverified, and nothing that "
            "is read today replaces that proof. A retry is refused, and the slot stays blocked. Keep the row."
        )
    pending = capsule.state == "TARGET_PENDING"
    stands = _pending(saw, record) if pending else "its proof is not complete. Retry the operation in the slot: it"
    return f"The new table is live; {stands} completes without the source. {_BLOCKS}"


def _pending(saw: Sighting, record: AuthorityRecord) -> str:
    if not record.owner:
        return (
            "it could not be observed, and the attempt that tried has given the slot back. Retry the operation in the "
            "slot: it observes again and"
        )
    left = _OBSERVATION_SECONDS - saw.age_ms // 1000
    if left > 0:
        return (
            f"an attempt is observing it and ends within {left} s, or died doing so. Wait, then retry the operation in "
            "the slot: it observes again and"
        )
    return (
        "the attempt that observed it died, or could not end its reader, and still holds the slot. Retry the operation "
        "in the slot: it takes over, observes again and"
    )


def _complete(saw: Sighting, record: AuthorityRecord) -> str:
    here = live_is(saw, record) == "generation"
    if here and not record.owner:
        return "Nothing to do: the new table is live and its proof is complete."
    held = (
        "an attempt holds the slot to check the proof, or died before it gave the slot back. Retry the operation in "
        f"the slot: it checks and releases, and repeats nothing. {_others(saw.patience)}"
    )
    if here:
        return f"The new table is live and its proof is complete; {held}"
    now = "another table is live now" if saw.facts.live is not None else "there is no live table now"
    lost = (
        f"This operation is complete, and {now}. Find who wrote it; a retry is refused and changes nothing, a new run "
        "loads the table again."
    )
    return f"{lost} The slot is held. {_others(saw.patience)}" if record.owner else lost


def _others(patience: int) -> str:
    return f"Another operation may go on{f' in {patience} s at the earliest' if patience else ''}."


def _name(operation: Operation) -> str:
    return f"run {operation.run_id} of {operation.dag_id}, task {operation.task_id}"
