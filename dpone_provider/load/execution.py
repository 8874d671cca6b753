"""One run of a load, passed explicitly to whoever takes part: its policy, its gates, its steps, what is known of it.

(Q5, Q6, X7, X9; O4). Nothing here is global, and the configuration that it began with is compared, never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from dpone_provider.errors import Boundary, DponeError, TargetCommit
from dpone_provider.load.ports import LoadStepLog
from dpone_provider.quality.failure import CheckpointState, TargetState
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.quality.snapshot import QualityExecutionSnapshot
from dpone_provider.traces import LoadStep, LoadStepLost, Scalar

Progress = Literal["not_advanced", "advanced", "unknown"]

COMMITS: Mapping[TargetState, TargetCommit] = {
    "not_mutated": "not_started",
    "mutation_returned_success": "proven",
    "unknown": "unknown",
}


@attrs.define(kw_only=True)
class Standing:
    """What is known of a load so far; rows None: nobody can say.

    ``mutation_returned_success`` says no more than that: the call that changes the target came back clean.
    ``checkpoints``: of a transfer by partitions; ``earlier``: another attempt has committed a part of it before,
    ``resumed``: all of it.
    """

    target: TargetState = "not_mutated"
    checkpoints: CheckpointState = "not_applicable"
    earlier: bool = False
    resumed: bool = False
    source_state: Progress = "not_advanced"
    extracted_rows: int | None = 0
    inserted_rows: int | None = 0
    final_rows: int | None = None

    @property
    def boundary(self) -> Boundary:
        """Before or after the target was, or may have been, changed; or by an earlier attempt."""
        if self.resumed:
            return "resume_validation"
        return "pre_commit" if self.target == "not_mutated" else "post_commit"


class LoadExecution:
    """One run, made before any side effect. ``policy_now`` gives the policy that the configuration says now.

    ``load_id``: 32 hex; a path with an authority has ids of its own. ``log`` keeps the steps beside the result; None:
    the result alone.
    """

    def __init__(self, *, run_id: str, load_id: str, policy_now: Callable[[], QualityPolicy]) -> None:
        self.snapshot = QualityExecutionSnapshot.of(policy_now())
        self.load_id = load_id
        self.standing = Standing()
        self.steps: list[LoadStep] = []
        self.log: LoadStepLog | None = None
        self._run_id = run_id
        self._policy_now = policy_now
        self._gates: QualityGateExecution | None = None
        self._resumed: QualityGateReceipt | None = None

    @property
    def policy(self) -> QualityPolicy:
        """The policy that this run began with."""
        return self.snapshot.policy

    def require_unchanged(self, boundary: Boundary) -> None:
        """The configuration still says the policy that this run began with.

        Raises ``DponeError`` DPONE_QUALITY_POLICY_DRIFT (Q6).
        """
        try:
            now = self._policy_now()
        except DponeError as malformed:  # what is no policy any more is another one
            raise DponeError("DPONE_QUALITY_POLICY_DRIFT", boundary=boundary) from malformed
        self.snapshot.require_unchanged(now, boundary)

    def begin(self, load_id: str) -> QualityGateExecution:
        """The execution of this run's gates, bound to its load. Once: a run has one load."""
        if self._gates is not None:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_INVALID", "This run has begun its load already.")
        self._gates = QualityGateExecution(snapshot=self.snapshot, run_id=self._run_id, load_id=load_id)
        return self._gates

    def resume(self, gates: QualityGateExecution, receipt: QualityGateReceipt) -> None:
        """Take over what finished a proof that an earlier attempt sealed: its receipt is used up there (G5).

        Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_MISMATCH unless it was, for this very policy.
        """
        if self._gates is not None or gates.state != "STATE_ACCEPTED" or receipt.boundary != "resume_validation":
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The resumed proof was not used up in order.")
        if receipt.policy_snapshot_id != self.snapshot.policy_snapshot_id:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The resumed proof is of another policy.")
        self._resumed = receipt

    def require_accepted(self, receipt: QualityGateReceipt | None, boundary: str) -> None:
        """The receipt is this run's and accepted for the payload (Q4). Raises as the gates' execution."""
        if not self._is_resumed(receipt):
            self._own().require_accepted(receipt, boundary)

    def accept_state(self, receipt: QualityGateReceipt | None) -> None:
        """Accept the receipt for the state of the source, last of all. Raises as the gates' execution."""
        if not self._is_resumed(receipt):
            self._own().accept_state(receipt)

    def note(self, step: str, details: Mapping[str, Scalar] | None = None) -> None:
        """Record a step that is done (X9). Raises ``DponeError`` DPONE_LOAD_STEP_UNCERTAIN when the log fails."""
        self.steps.append(LoadStep(step=step, details=details or {}))
        if self.log is None:
            return
        try:
            self.log.record(self.steps[-1])
        except LoadStepLost as lost:
            answer = f"server error {lost.code}" if lost.code is not None else "no answer"
            standing = self.standing
            retryable = standing.target == "not_mutated" or standing.checkpoints == "committed"
            raise DponeError(
                "DPONE_LOAD_STEP_UNCERTAIN", f"The step {step} could not be recorded ({answer}).", retryable=retryable
            ) from lost

    def note_failure(self, error_code: str, *, acceptance_side: str | None = None) -> None:
        """Record that something failed; the record's own failure never stands in front of it (X7)."""
        details: dict[str, Scalar] = {"failure_boundary": self.standing.boundary, "error_code": error_code}
        if acceptance_side is not None:
            details["acceptance_side"] = acceptance_side
        try:
            self.note("load_governance_failed", details)
        except DponeError:
            return

    def failed(self, error: DponeError) -> None:
        """Record the failure of the run, by its safe code alone."""
        context = error.context
        self.note_failure(context.get("error_code", error.code), acceptance_side=context.get("acceptance_side"))

    def recorded(self) -> list[dict[str, Any]]:
        """The steps so far, as JSON values."""
        return [{"step": step.step, **step.details} for step in self.steps]

    def counters(self) -> dict[str, Any]:
        """The rows of this run, None where nobody can say."""
        standing = self.standing
        names = ("extracted_rows", "inserted_rows", "final_rows")
        return {name: getattr(standing, name) for name in names}

    def _own(self) -> QualityGateExecution:
        if self._gates is None:
            self._gates = QualityGateExecution(snapshot=self.snapshot, run_id=self._run_id, load_id="")
        return self._gates

    def _is_resumed(self, receipt: QualityGateReceipt | None) -> bool:
        return self._resumed is not None and receipt is self._resumed
