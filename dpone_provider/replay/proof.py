"""Seal a proof, check that it still stands, say what it proves: one way for the original run and for a replay.

(protocol 5 and 6; G8).
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.quality.gates import Probe
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.replay.capsule import V2, CapsuleError, QualityReplayCapsule
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.ports import StagedProof
from dpone_provider.replay.record import AuthorityRecord, Found

BOUNDARY: Final = "resume_validation"


def seal(me: Claimant, policy: QualityPolicy, proof: StagedProof, load_id: str) -> QualityReplayCapsule:
    """The PREPARED capsule of a proven staging: v2 when it has a target to observe, else v1 (C1).

    Raises when it is not valid or could outgrow its bound (C4).
    """
    plan = dict(proof.effective_plan)
    core: dict[str, Any] = {
        "policy_snapshot_id": policy.snapshot_id,
        "admission_digest": me.admission_digest,
        "effective_plan": plan,
        "run_id": me.operation.run_id,
        "load_id": load_id,
        "source_probe": dict(proof.source_probe),
        "target_probe": dict(proof.target_probe),
        "report": dict(proof.report),
        "acceptance": dict(proof.acceptance),
        "binding": {
            "target_key": me.operation.target.key,
            "operation_id": me.operation.operation_id,
            "fence_token": me.owner,
            "inventory_digest": me.inventory_digest,
            "plan_digest": canonical.digest(plan),
            "desired": dict(proof.desired),
            "staged_rows": proof.rows,
        },
    }
    if proof.target_plan is not None:
        core["target_plan"] = dict(proof.target_plan)
    return QualityReplayCapsule.sealed(core)


@attrs.frozen(kw_only=True)
class Proof:
    """A stored proof that stands: the capsule, and a fresh process-local receipt with the execution that issued it."""

    capsule: QualityReplayCapsule
    execution: QualityGateExecution
    receipt: QualityGateReceipt

    def consume(self) -> None:
        """Use the receipt up, in order. Raises when it is not this execution's or was used before (G5, Q4)."""
        self.execution.accept_payload(self.receipt, BOUNDARY)
        self.execution.accept_state(self.receipt)


class ProofRefused(Exception):
    """The stored proof is well-formed and does not stand: the operation has failed. ``error`` is what to raise."""

    def __init__(self, error: DponeError) -> None:
        self.error = error
        super().__init__(error.code)


def check_stored(found: Found, me: Claimant, policy: QualityPolicy) -> Proof:
    """Check the stored proof of an owned COMMITTED or COMPLETE row.

    Raises ``ProofRefused`` when it does not stand, ``DponeError`` ``…_INVALID`` or ``…_MISMATCH`` when it cannot even
    be read: then nothing durable may be rewritten.
    """
    record = found.record
    if record is None or record.capsule is None:
        raise DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_REQUIRED")
    capsule = QualityReplayCapsule.parse(record.capsule, row_version=found.version)
    core, binding = capsule.core, capsule.core["binding"]
    agree = (
        (core["policy_snapshot_id"], policy.snapshot_id),
        (core["admission_digest"], me.admission_digest),
        (binding["target_key"], me.operation.target.key),
        (binding["operation_id"], me.operation.operation_id),
        (binding["inventory_digest"], me.inventory_digest),
        (binding["plan_digest"], canonical.digest(core["effective_plan"])),
        (binding["staged_rows"], core["target_probe"]["row_count"]),
        (binding["desired"]["uuid"], record.generation),
    )
    states = ("PREPARED", "TARGET_PENDING") if record.phase == "COMMITTED" else ("COMPLETE",)
    if capsule.state not in states or any(stored != today for stored, today in agree):
        raise ProofRefused(DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"))
    execution = QualityGateExecution(policy=policy, run_id=me.operation.run_id, load_id=core["load_id"])
    refused = ProofRefused(
        DponeError(
            "DPONE_REPLAY_QUALITY_EVIDENCE_INVALID",
            "The stored probes do not give the sealed gate report.",
            boundary="resume_validation",
        )
    )
    try:
        source, target = Probe(**core["source_probe"]), Probe(**core["target_probe"])
    except ValueError:
        raise refused from None
    receipt = execution.evaluate(source=source, target=target, boundary=BOUNDARY)
    if not receipt.report.same_as(core["report"]) or not receipt.report.passed:
        raise refused
    return Proof(capsule=capsule, execution=execution, receipt=receipt)


def replay_result(capsule: QualityReplayCapsule) -> dict[str, Any]:
    """The result document of a completed replay (protocol 5): the original proof, not a new one."""
    core = capsule.core
    acceptance = {side: core["acceptance"].get(side) for side in ("source", "staged")}
    if capsule.kind == V2:
        acceptance["target"] = capsule.completion[-1].target
    return {
        "kind": f"dpone.quality.replay.result.{'v2' if capsule.kind == V2 else 'v1'}",
        "core_digest": capsule.core_digest,
        "replayed_from": {"run_id": core["run_id"], "load_id": core["load_id"]},
        "acceptance": acceptance,
        "quality_gates": core["report"],
    }


def original_ids(record: AuthorityRecord) -> dict[str, str]:
    """Which run and staging made the sealed proof; {} when there is none or it cannot be read."""
    if record.capsule is None:
        return {}
    try:
        core = QualityReplayCapsule.parse(record.capsule).core
    except CapsuleError:
        return {}
    return {"original_run_id": core["run_id"], "original_load_id": core["load_id"]}
