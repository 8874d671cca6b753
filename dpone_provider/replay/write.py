"""The one function that changes the authority: record intent, send once, read back (protocol 2; A2–A4)."""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from dpone_provider.replay.identity import Target
from dpone_provider.replay.ports import AuthorityStore, Expect
from dpone_provider.replay.record import (
    MAX_HISTORY,
    AuthorityRecord,
    Counters,
    Found,
    HistoryEntry,
    parse_slot,
)
from dpone_provider.wire import StatementFailed


class Verdict(enum.Enum):
    """What reading back said of one write. Only VERIFIED lets an attempt go on."""

    VERIFIED = "verified"  # our write is the row
    SUPERSEDED = "superseded"  # our write was applied, others wrote after it: we are fenced
    CONFLICT = "conflict"  # others wrote on the version that we wrote on, ours is nowhere to be seen
    UNKNOWN = "unknown"  # unreadable, or the old version still stands: ours may yet be applied


@attrs.frozen(kw_only=True)
class Written:
    """A verdict with what was read back (``found`` None when unreadable).

    ``refused``: the server's error number of the write, None = none. It decides nothing; people need it.
    """

    verdict: Verdict
    found: Found | None
    refused: int | None = None


class SlotAuthority:
    """One target's slot: reads, and writes with a verdict.

    ``new_id`` gives fresh 32-hex ids; ``clock`` is monotonic seconds: it carries the server's clock on between two
    reads.
    """

    def __init__(
        self, store: AuthorityStore, target: Target, *, new_id: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._key = target.key
        self._new_id = new_id
        self._clock = clock
        self._read_at = clock()
        self.sent_on = -2  # the highest row version that a CAS of ours was sent on

    def read(self, *, replica: str | None = None) -> Found:
        """Read the slot.

        Raises ``StatementFailed`` when unreadable, DPONE_REPLAY_QUALITY_EVIDENCE_INVALID when malformed.
        """
        slot = self._store.read(self._key, replica=replica)
        self._read_at = self._clock()
        return parse_slot(slot, key=self._key)

    @property
    def idle(self) -> float:
        """Seconds since the slot was last read (every write reads it back)."""
        return self._clock() - self._read_at

    def read_archive(self, key: str) -> AuthorityRecord | None:
        """The archived record under a key, None when there is none."""
        return parse_slot(self._store.read(key), key=key).record

    def archive(self, record: AuthorityRecord, key: str) -> bool:
        """Keep a FAILED record under its archive key; whether it is there now.

        Present with the same operation, phase and capsule is fine: another successor was quicker.
        """
        kept = self.read_archive(key)
        if kept is None:
            _send(lambda: self._store.create(record.row(key=key)))
            kept = self.read_archive(key)
        return kept is not None and _same_archive(kept, record)

    def write(self, record: AuthorityRecord, on: Found, *, attempt: int, counters: Counters) -> Written:
        """Write ``record`` over what ``on`` saw: one statement, then one read back. Never sent again (A4)."""
        stamped = self._stamp(record, on, attempt, counters)
        row = stamped.row()
        self.sent_on = max(self.sent_on, on.version)
        if on.record is None:
            refused = _send(lambda: self._store.create(row))
        else:
            expect = Expect(
                version=on.version,
                operation_id=on.record.operation.operation_id,
                owner=on.record.owner,
                phase=on.record.phase,
            )
            refused = _send(lambda: self._store.update(row, expect))
        try:
            found = self.read()
        except StatementFailed:
            return Written(verdict=Verdict.UNKNOWN, found=None, refused=refused)
        return Written(verdict=judge(found, stamped.write_id, on.version), found=found, refused=refused)

    def _stamp(self, record: AuthorityRecord, on: Found, attempt: int, counters: Counters) -> AuthorityRecord:
        write_id = self._new_id()
        now = on.now + round(self.idle * 1000)
        entry = HistoryEntry(
            version=on.version + 1,
            write_id=write_id,
            operation_id=record.operation.operation_id,
            phase=record.phase,
            epoch=record.epoch,
            attempt=attempt,
            at=now,
            source_reads=counters.source_reads,
            rows=counters.rows,
            publications=counters.publications,
        )
        earlier = on.record.history if on.record is not None else ()
        return attrs.evolve(record, write_id=write_id, refreshed_at=now, history=(*earlier, entry)[-MAX_HISTORY:])


def judge(found: Found, write_id: str, on_version: int) -> Verdict:
    """The verdict of a write that was made on ``on_version``, from the row read back (protocol 2)."""
    if found.record is None or found.version <= on_version:
        return Verdict.UNKNOWN
    if found.record.write_id == write_id:
        return Verdict.VERIFIED
    if any(entry.write_id == write_id for entry in found.record.history):
        return Verdict.SUPERSEDED
    return Verdict.CONFLICT


def _send(statement: Callable[[], None]) -> int | None:
    """Send one mutation; the server's error number, if it gave one. Whatever it says, reading back decides."""
    try:
        statement()
    except StatementFailed as failed:
        return failed.code
    return None


def _same_archive(kept: AuthorityRecord, record: AuthorityRecord) -> bool:
    return (kept.operation, kept.phase, kept.capsule) == (record.operation, record.phase, record.capsule)
