"""The failure of a blocking gate, and what its owner knows of the load at that point (Q9, Q10, O4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from dpone_provider.errors import Boundary, DponeError
from dpone_provider.quality.problems import is_count

if TYPE_CHECKING:
    from dpone_provider.quality.gates import QualityGateReport

ReceiptBoundary = Literal["pre_commit", "post_commit", "resume_validation"]
TargetState = Literal["not_mutated", "mutation_returned_success", "unknown"]
CheckpointState = Literal["not_advanced", "committed", "not_applicable", "unknown"]
SourceState = Literal["not_advanced", "unknown"]
RetryClassification = Literal[
    "retry_before_target_mutation",
    "retry_via_native_resume",
    "retry_may_repeat_target_mutation",
    "operator_verification_required",
]


def _rows(value: Any) -> int | None:
    return value if is_count(value) else None


def _attempts(value: Any) -> int:
    return _rows(value) or 1


@attrs.frozen(kw_only=True)
class QualityGateFailureOutcome:
    """What is true of a load whose gates failed. Only the code that owns the boundary makes one.

    ``target_state`` mutation_returned_success: the call that changes the target returned, no more. A counter that is no
    whole number of 0 to 2**64-1 becomes None; ``attempts`` is at least 1. Raises ``ValueError`` for an unknown word.
    """

    failure_boundary: ReceiptBoundary = attrs.field(validator=attrs.validators.in_(get_args(ReceiptBoundary)))
    target_state: TargetState = attrs.field(validator=attrs.validators.in_(get_args(TargetState)))
    checkpoint_state: CheckpointState = attrs.field(validator=attrs.validators.in_(get_args(CheckpointState)))
    source_state: SourceState = attrs.field(validator=attrs.validators.in_(get_args(SourceState)))
    retry_classification: RetryClassification = attrs.field(
        validator=attrs.validators.in_(get_args(RetryClassification))
    )
    inserted_rows: int | None = attrs.field(default=None, converter=_rows)
    updated_rows: int | None = attrs.field(default=None, converter=_rows)
    final_rows: int | None = attrs.field(default=None, converter=_rows)
    extracted_rows: int | None = attrs.field(default=None, converter=_rows)
    attempts: int = attrs.field(default=1, converter=_attempts)

    def document(self) -> dict[str, str]:
        """The boundary, the states and the retry classification, for ``failure_context``."""
        return {name: value for name, value in attrs.asdict(self).items() if type(value) is str}

    def counters(self) -> dict[str, int | None]:
        """The rows, each a count or None for not known."""
        return {
            "inserted_rows": self.inserted_rows,
            "updated_rows": self.updated_rows,
            "final_rows": self.final_rows,
            "extracted_rows": self.extracted_rows,
        }


class QualityGateFailure(DponeError):
    """A blocking gate failed. ``report`` has every result; ``outcome`` what is true of the load, None = no claim.

    With an outcome, ``context`` also has ``failure_context``, ``counters``, ``attempts`` and ``quality_gates``, and the
    boundary is the outcome's. Nothing but a ``QualityGateFailureOutcome`` is one.
    """

    def __init__(
        self,
        report: QualityGateReport,
        *,
        boundary: Boundary | None = None,
        outcome: QualityGateFailureOutcome | None = None,
    ) -> None:
        self.report = report
        self.outcome = outcome if type(outcome) is QualityGateFailureOutcome else None
        gates = [{"gate_id": result.gate_id, "code": result.code} for result in report.blocking]
        listed = ", ".join(f"{gate['gate_id']} ({gate['code']})" for gate in gates)
        context: dict[str, Any] = {"gates": gates}
        if self.outcome is not None:
            boundary = self.outcome.failure_boundary
            context["failure_context"] = self.outcome.document()
            context["counters"] = self.outcome.counters()
            context["attempts"] = self.outcome.attempts
            context["quality_gates"] = report.payload()
        message = f"Blocking gates failed: {listed}."
        super().__init__("DPONE_QUALITY_GATES_FAILED", message, boundary=boundary, context=context)
