"""An attempt's hold on the slot.

Claiming it, writing it, keeping it alive, and knowing when it is lost (protocol 2 and 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.replay.claim import Claimant, Refused, decide_claim
from dpone_provider.replay.record import AuthorityRecord, Counters, Found, archive_key
from dpone_provider.replay.write import SlotAuthority, Verdict
from dpone_provider.wire import StatementFailed


class Fenced(DponeError):
    """A newer attempt owns the slot: this one stops."""

    def __init__(self) -> None:
        super().__init__("DPONE_REPLAY_FENCED", target_commit="unknown")


class Uncertain(DponeError):
    """A write or a read has no certain outcome: this attempt stops, a later one decides."""

    def __init__(self, message: str) -> None:
        super().__init__("DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE", message)


class Tenure:
    """The slot as this attempt last saw it, and the only way to change it.

    ``attempt``: the number of this attempt, from 1. ``counters``: what it did itself; they go into every write's
    history entry. ``before``: the other operation's record that the claim has replaced, unless it had failed.
    """

    def __init__(self, slot: SlotAuthority, me: Claimant) -> None:
        self._slot = slot
        self._me = me
        self.attempt = 1
        self.counters = Counters()
        self.found = Found(record=None, version=-1, now=0)
        self.before: AuthorityRecord | None = None

    @property
    def record(self) -> AuthorityRecord:
        """The record as last read back. Raises ``LookupError`` before the claim."""
        if self.found.record is None:
            raise LookupError("nothing is claimed")
        return self.found.record

    @property
    def unsealed(self) -> bool:
        """Whether the slot is ours, nothing is sealed and no write of ours is under way: a staging may be dropped and
        the slot given back.
        """
        record = self.found.record
        ours = record is not None and record.owner == self._me.owner and record.phase == "CLAIMED"
        return ours and self.found.version > self._slot.sent_on

    def claim(self, admit: Callable[[Found], None]) -> None:
        """Take the slot, or raise why not. Every replica must read the claim back.

        ``admit`` is asked about what was found, before anything is written, when the claim is one to stage (M7).
        """
        found = self._slot.read()
        operation = self._me.operation
        other = found.record is not None and found.record.operation != operation
        key = f"{operation.target.key}@{operation.operation_id}"
        decision = decide_claim(found, self._me, archived=other and self._slot.read_archive(key) is not None)
        if isinstance(decision, Refused):
            raise decision.error
        if decision.record.phase == "CLAIMED":
            admit(found)
        failed = decision.archive
        if failed is not None and not self._slot.archive(failed, archive_key(failed)):
            raise Uncertain("The failed record before this one could not be archived.")
        self.attempt, self.found = decision.attempt, found
        try:
            self.write(decision.record)
        except Fenced as fenced:
            raise DponeError("DPONE_REPLAY_SLOT_BUSY", "Another attempt took the slot first.") from fenced
        if other and failed is None:
            self.before = found.record
        for replica in self._me.replicas[1:]:
            self._require_shared(replica)

    def write(self, record: AuthorityRecord, *, final: bool = False) -> None:
        """One CAS.

        Raises ``Fenced`` or ``Uncertain``; ``final``: having been applied is enough (release, FAILED, REJECTED).
        """
        written = self._slot.write(record, self.found, attempt=self.attempt, counters=self.counters)
        if written.verdict is Verdict.VERIFIED and written.found is not None:
            self.found = written.found
            return
        if written.verdict is Verdict.SUPERSEDED and final:
            return
        if written.verdict is Verdict.UNKNOWN:
            why = f" (server error {written.refused})" if written.refused is not None else ""
            raise Uncertain(f"The write of phase {record.phase} could not be confirmed{why}.")
        raise Fenced()

    def change(self, *, final: bool = False, **changes: Any) -> None:
        """One CAS of the present record with some fields changed."""
        self.write(attrs.evolve(self.record, **changes), final=final)

    def count(self, **more: int) -> None:
        """Add to this attempt's counters."""
        self.counters = attrs.evolve(
            self.counters, **{name: getattr(self.counters, name) + number for name, number in more.items()}
        )

    def keep_alive(self) -> None:
        """Refresh the claim when it is due; raises when it is lost."""
        if self._slot.idle * 1000 >= self._me.stale_after_ms / 3:
            self.write(self.record)

    def lost_beyond(self, generation: str | None) -> bool:
        """Whether nothing that this attempt sent can still be applied and the row does not hold ``generation``."""
        try:
            found = self._slot.read()
        except (StatementFailed, DponeError):
            return False
        return found.record is not None and found.version > self._slot.sent_on and found.record.generation != generation

    def _require_shared(self, replica: str) -> None:
        other = self._slot.read(replica=replica).record
        ids = {entry.write_id for entry in other.history} if other is not None else set()
        if self.record.write_id not in ids:
            raise DponeError(
                "DPONE_REPLAY_AUTHORITY_UNSUPPORTED", f"Replica {replica} does not read the authority of the others."
            )
