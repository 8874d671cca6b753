"""Who may take the slot: the table of protocol section 3 as one pure function."""

from __future__ import annotations

from typing import Literal

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.record import MAX_ENDED, UNSEALED, AuthorityRecord, Ended, Found

STALE_CLAIM_AFTER_MS = 900_000


@attrs.frozen(kw_only=True)
class Claimant:
    """An attempt that wants the slot. ``owner``: its fresh random 32-hex token."""

    operation: Operation
    admission_digest: str
    owner: str
    replicas: tuple[str, ...]
    stale_after_ms: int = STALE_CLAIM_AFTER_MS


@attrs.frozen(kw_only=True)
class Claim:
    """Write ``record`` over what was found.

    ``attempt``: our number; ``archive`` first, when a FAILED record is there.
    """

    how: Literal["create", "take_over", "supersede", "succeed"]
    record: AuthorityRecord
    attempt: int
    archive: AuthorityRecord | None = None


@attrs.frozen(kw_only=True)
class Refused:
    """The slot may not be taken; nothing is written."""

    error: DponeError


def decide_claim(found: Found, me: Claimant, *, archived: bool = False) -> Claim | Refused:
    """What this attempt may do with the slot that it found.

    ``archived``: this operation has an archived FAILED record.
    """
    record = found.record
    if record is None:
        return Claim(how="create", record=_fresh(me, found, epoch=1), attempt=1)
    if record.operation.operation_id == me.operation.operation_id:
        return _own(record, found, me)
    if archived or any(item.operation_id == me.operation.operation_id for item in record.ended):
        return Refused(error=DponeError("DPONE_REPLAY_WINDOW_ENDED"))
    return _foreign(record, found, me)


def _own(record: AuthorityRecord, found: Found, me: Claimant) -> Claim | Refused:
    attempt = record.attempt + 1
    if record.phase in UNSEALED:
        fresh = attrs.evolve(
            _fresh(me, found, epoch=record.epoch + 1), claimed_at=record.claimed_at, ended=record.ended
        )
        return Claim(how="take_over", record=fresh, attempt=attempt)
    if record.phase == "FAILED":
        return Refused(
            error=DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_FAILED", retryable=False, target_commit="unknown")
        )
    if record.admission_digest != me.admission_digest:
        return Refused(
            error=DponeError(
                "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
                "The configuration changed after this operation was sealed; nothing was touched.",
                remedy="Let the sealed configuration finish first, or set `reprocess` for a new operation.",
                target_commit="proven" if record.phase in {"COMMITTED", "COMPLETE"} else "unknown",
            )
        )
    if record.replicas != me.replicas:
        return Refused(
            error=DponeError(
                "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
                "The replica inventory is not the one that was sealed.",
                remedy="Restore the sealed inventory, then retry.",
            )
        )
    taken = attrs.evolve(record, owner=me.owner, epoch=record.epoch + 1)
    return Claim(how="take_over", record=taken, attempt=attempt)


def _foreign(record: AuthorityRecord, found: Found, me: Claimant) -> Claim | Refused:
    if record.phase in {"DISPATCHING", "COMMITTED"}:
        return Refused(error=_unfinished(record))
    if record.phase != "FAILED" and record.owner and found.now - record.refreshed_at <= me.stale_after_ms:
        waited = max(0, me.stale_after_ms - (found.now - record.refreshed_at)) // 1000
        return Refused(
            error=DponeError(
                "DPONE_REPLAY_SLOT_BUSY",
                f"{_name(record)} holds the slot (phase {record.phase}); it is stale in {waited} s at the earliest.",
            )
        )
    fresh = _fresh(me, found, epoch=record.epoch + 1)
    earlier = [entry.attempt for entry in record.history if entry.operation_id == me.operation.operation_id]
    attempt = max(earlier, default=0) + 1  # it may have been superseded before
    if record.phase not in {"COMPLETE", "FAILED"}:  # its window stays open: it never committed and may start again
        return Claim(how="supersede", record=attrs.evolve(fresh, ended=record.ended), attempt=attempt)
    ended = Ended(operation_id=record.operation.operation_id, phase=record.phase, capsule_digest=record.capsule_digest)
    return Claim(
        how="succeed",
        record=attrs.evolve(fresh, ended=(*record.ended, ended)[-MAX_ENDED:]),
        attempt=attempt,
        archive=record if record.phase == "FAILED" else None,
    )


def _fresh(me: Claimant, found: Found, *, epoch: int) -> AuthorityRecord:
    return AuthorityRecord(
        operation=me.operation,
        admission_digest=me.admission_digest,
        phase="CLAIMED",
        epoch=epoch,
        owner=me.owner,
        claimed_at=found.now,
        refreshed_at=found.now,
        replicas=me.replicas,
    )


def _unfinished(record: AuthorityRecord) -> DponeError:
    return DponeError(
        "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE",
        f"{_name(record)} is not finished (phase {record.phase}) and blocks every successor.",
        remedy="Retry (or clear) that operation: it finishes what is missing. Then retry this one.",
        boundary="admission",
        target_commit="not_started",
    )


def _name(record: AuthorityRecord) -> str:
    operation = record.operation
    place = f"dag_id={operation.dag_id} run_id={operation.run_id} task_id={operation.task_id}"
    return f"Operation {operation.operation_id[:12]} ({place} map_index={operation.map_index})"
