"""The authority record: one value, its canonical text, its strict reading (protocol 2; A5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import Slot, StoredRow

KIND = "dpone.replay.authority.v1"
MAX_BYTES = 512 * 1024
MAX_HISTORY = 16
MAX_ENDED = 32

Phase = Literal["CLAIMED", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE", "FAILED", "REJECTED"]
PHASES: tuple[Phase, ...] = ("CLAIMED", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE", "FAILED", "REJECTED")
UNSEALED: frozenset[str] = frozenset({"CLAIMED", "REJECTED"})
DispatchState = Literal["pending", "sent", "proven"]
DISPATCH: Mapping[str, DispatchState] = {
    "PREPARED": "pending",
    "DISPATCHING": "sent",
    "COMMITTED": "proven",
    "COMPLETE": "proven",
    "FAILED": "proven",
}


@attrs.frozen(kw_only=True)
class Ended:
    """An operation whose window a successor has ended."""

    operation_id: str
    phase: str
    capsule_digest: str


@attrs.frozen(kw_only=True)
class Counters:
    """What an attempt did itself so far. Counters never prove a commit."""

    source_reads: int = 0
    rows: int = 0
    publications: int = 0


@attrs.frozen(kw_only=True)
class HistoryEntry:
    """One write of the slot. ``version`` is the row version that the write makes; ``at`` Unix ms of the server."""

    version: int
    write_id: str
    operation_id: str
    phase: str
    epoch: int
    attempt: int
    at: int
    source_reads: int
    rows: int
    publications: int


@attrs.frozen(kw_only=True)
class AuthorityRecord:
    """One slot's content. ``owner`` "" = released. Per-replica maps are keyed by inventory name.

    From PREPARED on ``generation`` (one UUID), ``predecessor`` (a UUID or None a replica), ``candidates`` (the private
    name to dispatch, a replica) and ``capsule`` are set; before, they are None or empty.
    """

    operation: Operation
    admission_digest: str
    phase: Phase
    epoch: int
    owner: str
    claimed_at: int
    refreshed_at: int
    replicas: tuple[str, ...]
    generation: str | None = None
    predecessor: Mapping[str, str | None] = attrs.field(factory=dict)
    candidates: Mapping[str, str] = attrs.field(factory=dict)
    capsule: str | None = None
    ended: tuple[Ended, ...] = ()
    write_id: str = ""
    history: tuple[HistoryEntry, ...] = ()

    @property
    def attempt(self) -> int:
        """The number of the attempt that wrote last."""
        return self.history[-1].attempt if self.history else 1

    @property
    def capsule_digest(self) -> str:
        """The digest of the sealed capsule text, "" without one."""
        return canonical.text_digest(self.capsule) if self.capsule is not None else ""

    def payload(self) -> dict[str, Any]:
        """The JSON form."""
        state = DISPATCH.get(self.phase)
        return {
            "kind": KIND,
            "target": self.operation.target.payload(),
            "operation_id": self.operation.operation_id,
            "operation": self.operation.payload(),
            "admission_digest": self.admission_digest,
            "phase": self.phase,
            "epoch": self.epoch,
            "owner": self.owner,
            "claimed_at": self.claimed_at,
            "refreshed_at": self.refreshed_at,
            "generation": self.generation,
            "predecessor": dict(self.predecessor),
            "replicas": list(self.replicas),
            "dispatch": {name: {"state": state, "candidate": held} for name, held in self.candidates.items()},
            "capsule": self.capsule,
            "ended": [attrs.asdict(item) for item in self.ended],
            "write_id": self.write_id,
            "history": [attrs.asdict(item) for item in self.history],
        }

    def reserve(self, capsule: str) -> None:
        """Check that every later record of this operation fits, with its largest ``capsule``. Raises like ``row``."""
        most, token = canonical.MAX_INTEGER, "f" * 32
        entry = HistoryEntry(
            version=most, write_id=token, operation_id=self.operation.operation_id, phase="DISPATCHING", epoch=most,
            attempt=most, at=most, source_reads=most, rows=most, publications=most,
        )  # fmt: skip
        attrs.evolve(
            self, phase="DISPATCHING", epoch=most, owner=token, claimed_at=most, refreshed_at=most, capsule=capsule,
            candidates=dict.fromkeys(self.candidates, self.operation.candidate(most)), write_id=token,
            history=(entry,) * MAX_HISTORY,
        ).row()  # fmt: skip

    def row(self, *, key: str | None = None) -> StoredRow:
        """The columns of the row that holds this record. ``key``: another key (an archive's)."""
        text = canonical.encode(self.payload())
        if len(text) > MAX_BYTES:
            raise DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED", "The authority record would be over 512 KiB.")
        return StoredRow(
            target_key=key or self.operation.target.key,
            operation_id=self.operation.operation_id,
            phase=self.phase,
            owner=self.owner,
            record=text,
            record_sha256=canonical.text_digest(text),
        )


@attrs.frozen(kw_only=True)
class Found:
    """What a read of the slot found. ``record`` None = no row; ``version`` -1 then. ``now``: server clock, ms."""

    record: AuthorityRecord | None
    version: int
    now: int


def parse_slot(slot: Slot, *, key: str) -> Found:
    """Read a slot strictly. Raises DPONE_REPLAY_QUALITY_EVIDENCE_INVALID for anything that is not exactly ours."""
    if not slot.rows:
        return Found(record=None, version=-1, now=slot.now_ms)
    if len(slot.rows) != 1:
        raise invalid("more than one row for one key")
    row, version = slot.rows[0]
    try:
        record = parse_record(row.record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise invalid("the record is malformed") from error
    if row != record.row(key=key) or not (key == record.operation.target.key or key == archive_key(record)):
        raise invalid("columns and record differ")
    return Found(record=record, version=version, now=slot.now_ms)


def archive_key(record: AuthorityRecord) -> str:
    """The key under which a FAILED record is kept once a successor takes the slot."""
    return f"{record.operation.target.key}@{record.operation.operation_id}"


def parse_record(text: str) -> AuthorityRecord:
    """Strict reading of a record's text. Raises ``ValueError`` (``NotCanonical`` among them)."""
    value = canonical.decode(text, max_bytes=MAX_BYTES)
    dispatch = value["dispatch"]
    record = AuthorityRecord(
        operation=Operation.from_payload(value["operation"]),
        candidates={name: entry["candidate"] for name, entry in dispatch.items()},
        replicas=tuple(value["replicas"]),
        ended=tuple(Ended(**item) for item in value["ended"]),
        history=tuple(HistoryEntry(**item) for item in value["history"]),
        **{
            name: value[name]
            for name in (
                "admission_digest", "phase", "epoch", "owner", "claimed_at", "refreshed_at", "generation",
                "predecessor", "capsule", "write_id",
            )
        },
    )  # fmt: skip
    _check(record)
    if canonical.encode(record.payload()) != text:  # exact fields, no others, derived ones as derived
        raise ValueError("record has missing, extra or inconsistent fields")
    return record


def invalid(reason: str) -> DponeError:
    """The one error of an authority row that cannot be trusted."""
    return DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_INVALID", f"The authority row cannot be trusted: {reason}.")


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


_UNPROVEN = UNSEALED | {"COMMITTED", "COMPLETE"}
"""Phases whose row may be without a proof: before the seal, and in a history that never had one (D4)."""


def _check(record: AuthorityRecord) -> None:
    entries = [(e.version, e.epoch, e.attempt, e.at, e.source_reads, e.rows, e.publications) for e in record.history]
    numbers = [record.epoch, record.claimed_at, record.refreshed_at, *(n for entry in entries for n in entry)]
    owners = (record.owner, record.write_id)
    texts = [record.admission_digest, *record.replicas, *record.candidates.values()]
    texts += [t for e in record.ended for t in (e.operation_id, e.phase, e.capsule_digest)]
    texts += [t for e in record.history for t in (e.write_id, e.operation_id, e.phase)]
    sealed = record.phase not in UNSEALED
    uuids = [record.generation, *record.predecessor.values()]
    rules = (
        record.phase in PHASES,
        all(type(n) is int and n >= 0 for n in numbers) and record.epoch >= 1,
        all(type(t) is str for t in texts),
        all(type(t) is str and re.fullmatch(r"(?:[0-9a-f]{32})?", t) for t in owners) and record.write_id != "",
        record.replicas == tuple(sorted(set(record.replicas))) and len(record.replicas) > 0,
        len(record.ended) <= MAX_ENDED and 1 <= len(record.history) <= MAX_HISTORY,
        record.history[-1].write_id == record.write_id and record.history[-1].epoch == record.epoch,
        all(u is None or (type(u) is str and _UUID.fullmatch(u)) for u in uuids),
        (record.generation is not None) == sealed,
        record.phase in _UNPROVEN if record.capsule is None else sealed and type(record.capsule) is str,
        set(record.predecessor) == set(record.candidates) == (set(record.replicas) if sealed else set()),
        record.owner == "" or record.phase not in {"FAILED", "REJECTED"},
    )
    if not all(rules):
        raise ValueError("record breaks a rule")
