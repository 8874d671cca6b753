"""How an operation ends in its slot: its target observed, COMPLETE with its proof, or FAILED (protocol 6).

One service for the original run and for every replay. Nothing is retried; a later attempt observes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay import observation
from dpone_provider.replay.capsule import V2, CapsuleError, QualityReplayCapsule
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.ports import Ports, required_reader
from dpone_provider.replay.proof import Proof, ProofRefused, check_stored
from dpone_provider.replay.target_reader import BoundedTargetAcceptanceReader, TargetRequest, Unobserved
from dpone_provider.replay.tenure import Fenced, Tenure, Uncertain


class Completion:
    """Ends the operation that its attempt owns, as COMMITTED or COMPLETE with a live generation."""

    def __init__(self, ports: Ports, tenure: Tenure, me: Claimant, policy: QualityPolicy) -> None:
        self._ports = ports
        self._tenure = tenure
        self._me = me
        self._policy = policy

    def complete(self) -> Proof:
        """Check the stored proof and write COMPLETE over COMMITTED, a target observed first where one was sealed.

        Raises ``DponeError``: a proof or an observation that does not stand fails for good; one that cannot be had
        now leaves TARGET_PENDING for a later attempt.
        """
        try:
            proof = check_stored(self._tenure.found, self._me, self._policy)
        except ProofRefused as refused:
            self.fail(refused.error)
            raise refused.error from refused
        if self._tenure.record.phase != "COMMITTED":
            return proof
        target = self._observed_target(proof) if proof.capsule.kind == V2 else None
        capsule = self._capsule().complete(self._tenure.found.version + 1, target)
        self._tenure.change(phase="COMPLETE", capsule=capsule.encode())
        return attrs.evolve(proof, capsule=capsule)

    def fail(self, error: DponeError) -> None:
        """Make a failure durable; the caller raises it. A COMPLETE record keeps its proof and is only released."""
        record = self._tenure.record
        try:
            if record.phase == "COMPLETE" or record.capsule is None:
                self._tenure.change(final=True, owner="")
            else:
                capsule = self._capsule().failed(self._tenure.found.version + 1)
                self._tenure.change(final=True, phase="FAILED", owner="", capsule=capsule.encode())
        except Fenced as fenced:
            uncertain = Uncertain(f"A newer attempt took over before {error.code} was recorded.")
            raise uncertain from fenced

    def _capsule(self) -> QualityReplayCapsule:
        return QualityReplayCapsule.parse(self._tenure.record.capsule or "")

    def _observed_target(self, proof: Proof) -> Mapping[str, Any]:
        """TARGET_PENDING durable, one observation, the generation still live afterwards (G1, G3)."""
        reader = required_reader(self._ports)
        if proof.capsule.state == "PREPARED":
            self._ports.notify("pending", {})
            pending = proof.capsule.pending(self._tenure.found.version + 1)
            self._tenure.change(capsule=pending.encode())
        core = proof.capsule.core
        request = observation.request_of(core, self._ports.new_id())
        self._ports.notify("observe", {"replica": request.replicas[0], "within": self._ports.observe_within})
        try:
            target = self._observe(reader, core, request)
        except CapsuleError as refused:
            self._failed(refused)
        self._require_live()
        return target

    def _observe(
        self, reader: BoundedTargetAcceptanceReader, core: Mapping[str, Any], request: TargetRequest
    ) -> Mapping[str, Any]:
        try:
            counts = reader.collect(request, deadline=self._ports.clock() + self._ports.observe_within)
            return observation.observed(core, counts)
        except Unobserved as missed:
            if missed.why == "probe_unavailable" and core["target_plan"]["mode"] == "warn_only":
                return observation.unavailable(core, request.attempt_id)
            if missed.why == "invalid" and missed.quiescent:
                self._failed(_error("INVALID", f"The observation of the target cannot be trusted ({missed.reason})."))
            if missed.why == "drift" and missed.quiescent:
                gone = missed.reason == "generation"
                self._failed(_drifted(f"The live table is not what was proven ({missed.reason}).", gone=gone))
            self._pending(missed)

    def _require_live(self) -> None:
        """The generation is still the live one on every replica, by its own catalog."""
        for replica in self._tenure.record.replicas:
            live = self._ports.catalog.facts(replica, self._me.operation.private_prefix).live
            if live is None or live.uuid != self._tenure.record.generation:
                self._failed(_drifted("Another table went live while the generation was observed.", gone=True))

    def _failed(self, error: DponeError) -> NoReturn:
        self.fail(error)
        raise error

    def _pending(self, missed: Unobserved) -> NoReturn:
        """No observation now: pending stays, the guard is given back only when no child can still act (G2)."""
        kept = " Its reader may still run, so the slot stays held." if not missed.quiescent else ""
        if missed.quiescent:
            self._tenure.change(final=True, owner="")
        raise _error("INCOMPLETE", f"The live table could not be observed ({missed.reason}).{kept}")


def _drifted(message: str, *, gone: bool) -> DponeError:
    """``gone``: the generation is not live any more, so nothing is known of the target's commit now."""
    error = _error("MISMATCH", message)
    error.target_commit = "unknown" if gone else None
    return error


def _error(kind: str, message: str) -> DponeError:
    return DponeError(f"DPONE_REPLAY_QUALITY_EVIDENCE_{kind}", message)
