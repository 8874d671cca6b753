"""The driver of one attempt: asks the pure functions what to do, does it, asks again (protocol 2–6).

Every statement goes through a port once; every authority write through ``Tenure``. Nothing is retried here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError, TargetCommit
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay import publication as do
from dpone_provider.replay.admission import Admission
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.cleanup import Cleaned, Cleaner, sweep
from dpone_provider.replay.completion import Completion
from dpone_provider.replay.ports import Ports, Stager
from dpone_provider.replay.proof import Proof, original_ids, replay_result
from dpone_provider.replay.record import AuthorityRecord, HistoryEntry
from dpone_provider.replay.staged import Generation, rejected
from dpone_provider.replay.tenure import Fenced, Tenure, Uncertain
from dpone_provider.replay.write import SlotAuthority
from dpone_provider.wire import StatementFailed

CLAIMED_COMMIT: Mapping[str, TargetCommit] = {"DISPATCHING": "unknown", "COMMITTED": "proven", "COMPLETE": "proven"}


@attrs.frozen(kw_only=True)
class Finished:
    """A completed operation.

    ``replayed``: the proof was sealed by an earlier attempt. ``document``: the result of protocol 5. ``rows``: staged
    and sealed. ``proof``: used up.
    """

    replayed: bool
    proof: Proof
    record: AuthorityRecord
    document: dict[str, Any]
    load_id: str
    rows: int
    cleaned: Cleaned
    history: tuple[HistoryEntry, ...]


class QualityReplaySession:
    """One attempt of one operation: claim, finish what is missing, complete, release.

    ``target_commit`` is what is known of the live table so far, None = no claim.
    """

    def __init__(self, ports: Ports, me: Claimant, policy: QualityPolicy, *, keep_previous: bool = False) -> None:
        self._ports = ports
        self._me = me
        self._policy = policy
        self._keep_previous = keep_previous
        slot = SlotAuthority(ports.store, me.operation.target, new_id=ports.new_id, clock=ports.clock)
        self.tenure = Tenure(slot, me)
        self._cleaner = Cleaner(
            operation=me.operation, catalog=ports.catalog, publisher=ports.publisher, new_id=ports.new_id
        )
        self._progress = do.Progress()
        self._generation = Generation(ports, me, self._cleaner)
        self._completion = Completion(ports, self.tenure, me, policy)
        self._proof: Proof | None = None
        self._inherited = False
        self.target_commit: TargetCommit | None = None

    def run(self, stager: Stager) -> Finished:
        """Finish the operation, or raise ``DponeError`` with ``target_commit`` set to what is known, never more.

        After an exception from outside (Ctrl-C, a task timeout) nothing more is sent, except to drop an unsealed
        staging and give the slot back.
        """
        try:
            self._claim(stager)
            while self._proof is None or self.tenure.record.phase != "COMPLETE":
                self._ports.check_cancelled()
                self._perform(do.decide(self.tenure.record, self._progress), stager)
            return self._finish(self._proof)
        except Fenced:
            if self.tenure.lost_beyond(self._generation.uuid):
                self._generation.drop()
            raise
        except Uncertain as error:
            error.target_commit = self.target_commit
            raise
        except StatementFailed as failed:
            raise self._unanswered() from failed
        except BaseException as error:
            fenced = self._abandon() if self.tenure.unsealed else None
            if fenced is not None and isinstance(error, DponeError):
                raise fenced from error
            if isinstance(error, DponeError) and error.target_commit is None:
                error.target_commit = self.target_commit
            raise

    def details(self) -> dict[str, Any]:
        """What protocol 8 asks of a failure: known ids and states only; what is absent is not claimed."""
        order = self._generation.order
        known: dict[str, Any] = {"current_load_id": order.load_id} if order is not None else {}
        record = self.tenure.found.record
        if record is None or record.operation != self._me.operation:
            return known
        known["quality_state"] = record.phase
        return known | original_ids(record)

    def _claim(self, stager: Stager) -> None:
        self._ports.notify("claim", {})
        admission = Admission(ports=self._ports, me=self._me, policy=self._policy, cleaner=self._cleaner)
        admission.require_reader()
        self.tenure.claim(lambda found: admission.admit(found, stager))
        record = self.tenure.record
        self._inherited = record.capsule is not None
        self._progress = do.Progress(inherited=self._inherited)
        self.target_commit = CLAIMED_COMMIT.get(record.phase, "not_started")
        facts = {"phase": record.phase, "epoch": record.epoch, "attempt": self.tenure.attempt}
        self._ports.notify("claimed", {**facts, "record": record})
        before = self.tenure.before
        alike = before is not None and before.admission_digest == self._me.admission_digest
        sweep(self._cleaner, record, before, retire=alike and not self._keep_previous)

    def _perform(self, action: do.Action, stager: Stager) -> None:
        record = self.tenure.record
        match action:
            case do.Stage():
                self._stage(stager)
            case do.Observe(replica):
                self._remember(seen={**self._progress.seen, replica: self._cleaner.facts(replica)})
            case do.Seal(predecessor):
                self.tenure.write(self._generation.sealed(record, self._policy, predecessor))
            case do.Reject(reason):
                raise rejected(reason)
            case do.Restart():
                self._restart()
            case do.Dispatch(candidates):
                self._ports.require_inventory()
                self._ports.notify("permit", {"epoch": record.epoch})
                self.tenure.change(phase="DISPATCHING", candidates=candidates)
                self._remember(seen={}, inherited=False)
            case do.Send(replica, candidate, first):
                self._send(replica, candidate, first=first)
            case do.Fence(replica, old, new):
                self._ports.notify("fence", {"replica": replica})
                self._statement(replica, lambda: self._ports.publisher.rename(replica, old, new))
                self._remember(fenced={**self._progress.fenced, replica: new})
            case do.Readdress(replica, candidate):
                self.tenure.change(epoch=record.epoch + 1, candidates={**record.candidates, replica: candidate})
            case do.Commit():
                self.target_commit = "proven"
                self.tenure.change(phase="COMMITTED")
                self._ports.notify("committed", {"generation": record.generation})
                self._remember(seen={})
            case do.Complete() | do.Release():
                self._complete()
            case do.Fail() | do.Stop():
                self._stop(action)

    def _remember(self, **changes: Any) -> None:
        self._progress = attrs.evolve(self._progress, **changes)

    # -- staging -------------------------------------------------------------------------------------------------

    def _stage(self, stager: Stager) -> None:
        if self._generation.order is not None:  # one epoch stages at most once
            raise rejected("generation_lost")
        self.tenure.count(source_reads=1)
        proof = self._generation.stage(self.tenure.record, stager, keep_alive=self._keep_alive)
        self.tenure.count(rows=proof.rows)
        self._remember(staged=self._generation.uuid, seen={})

    def _keep_alive(self) -> None:
        self._ports.check_cancelled()
        self.tenure.keep_alive()

    def _restart(self) -> None:
        """The sealed generation is gone and was never sent: start again under this attempt's own epoch."""
        self.tenure.change(phase="CLAIMED", generation=None, predecessor={}, candidates={}, capsule=None)
        self._inherited = False
        self._progress = do.Progress()

    def _abandon(self) -> Fenced | None:
        """Drop the own staging and give the slot back as REJECTED; what it learns when a newer attempt has it.

        What cannot be done now is swept by the next attempt.
        """
        self._generation.drop()
        try:
            self.tenure.change(final=True, phase="REJECTED", owner="")
        except Fenced as fenced:
            return fenced
        except (DponeError, StatementFailed):
            self._ports.notify("reject_unconfirmed", {})
        return None

    def _unanswered(self) -> DponeError:
        """A read got no answer; nothing became uncertain by it."""
        if self.tenure.unsealed:
            lost = DponeError("DPONE_STAGING_FAILED", "The server stopped answering.", target_commit="not_started")
            return self._abandon() or lost
        error = Uncertain("The server did not answer a read.")
        error.target_commit = self.target_commit
        return error

    # -- publication ---------------------------------------------------------------------------------------------

    def _send(self, replica: str, candidate: str, *, first: bool) -> None:
        self._ports.notify("publish", {"replica": replica})
        self.target_commit = "unknown"
        self.tenure.count(publications=1)
        publish = self._ports.publisher.publish_first if first else self._ports.publisher.exchange
        self._statement(replica, lambda: publish(replica, candidate))
        again = {replica} if replica in self._progress.fenced else set()
        self._remember(sent=self._progress.sent | {replica}, resent=self._progress.resent | again)

    def _statement(self, replica: str, statement: Callable[[], None]) -> None:
        """One statement; whatever it answers, the catalog decides."""
        self._remember(seen={name: facts for name, facts in self._progress.seen.items() if name != replica})
        try:
            statement()
        except StatementFailed:
            return

    # -- completion ----------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        self._ports.notify("complete", {"phase": self.tenure.record.phase})
        self._proof = self._completion.complete()

    def _stop(self, action: do.Fail | do.Stop) -> None:
        """Raise what the facts mean. A live table that is not ours any more is made durable first."""
        why = action.why if isinstance(action, do.Stop) else "generation_lost"
        if why in {"not_applied", "fence_unclear"}:
            raise Uncertain("The switch of the table could not be confirmed.")
        self.target_commit = "unknown"
        if why == "diverged":
            raise DponeError("DPONE_REPLAY_PUBLICATION_DIVERGED")
        error = DponeError(
            "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
            "Another table is live now than the generation that was published and proven.",
            remedy="Find who wrote the table; start a new operation to load it again.",
        )
        self._completion.fail(error)
        raise error

    def _finish(self, proof: Proof) -> Finished:
        self._ports.check_cancelled()
        record = self.tenure.record
        proof.consume()
        self.tenure.change(final=True, owner="")
        self._ports.notify("released", {})
        core = proof.capsule.core
        return Finished(
            replayed=self._inherited,
            proof=proof,
            record=record,
            document=replay_result(proof.capsule),
            load_id=core["load_id"],
            rows=core["binding"]["staged_rows"],
            cleaned=self._clean(record),
            history=self.tenure.record.history,
        )

    def _clean(self, record: AuthorityRecord) -> Cleaned:
        """Drop the predecessor and own leftovers; a failure is recorded and tried again by a replay.

        A fence of this attempt whose answer was lost may have moved the predecessor one epoch above its own.
        """
        cleaned = Cleaned()
        for replica in record.replicas:
            predecessor = (record.predecessor[replica],)
            keep, also = (predecessor, ()) if self._keep_previous else ((), predecessor)
            cleaned += self._cleaner.clean(replica, below=record.epoch + 2, keep=(record.generation, *keep), also=also)
        return cleaned
