"""Who may take the slot: the table of protocol section 3 as one pure function."""

from __future__ import annotations

from typing import Literal

import attrs

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.replay.capsule import CapsuleError, QualityReplayCapsule
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.record import MAX_ENDED, UNSEALED, AuthorityRecord, Ended, Found

STALE_CLAIM_AFTER_MS = 900_000


@attrs.frozen(kw_only=True)
class Claimant:
    """An attempt that wants the slot. ``owner``: its fresh random 32-hex token; ``replicas``: sorted names."""

    operation: Operation
    admission_digest: str
    owner: str
    replicas: tuple[str, ...]
    stale_after_ms: int = STALE_CLAIM_AFTER_MS
    inventory_digest: str = attrs.field(
        default=attrs.Factory(lambda me: inventory_digest(me.replicas), takes_self=True)
    )


def inventory_digest(replicas: tuple[str, ...]) -> str:
    """The digest of an inventory of which only names are known: 64 hex."""
    return canonical.digest([{"host": name} for name in sorted(replicas)])


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
    if record.replicas != me.replicas or _inventory_moved(record, me):
        return Refused(
            error=DponeError(
                "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
                "The replica inventory is not the one that was sealed.",
                remedy="Restore the sealed inventory, then retry.",
            )
        )
    taken = attrs.evolve(record, owner=me.owner, epoch=record.epoch + 1)
    return Claim(how="take_over", record=taken, attempt=attempt)


def _inventory_moved(record: AuthorityRecord, me: Claimant) -> bool:
    """Whether the cluster is not the sealed one any more. What cannot be read is judged where the proof is."""
    if not record.operation.target.cluster or record.capsule is None:
        return False
    try:
        sealed = QualityReplayCapsule.parse(record.capsule).core["binding"]["inventory_digest"]
    except CapsuleError:
        return False
    return bool(sealed != me.inventory_digest)


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
