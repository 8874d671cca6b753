"""One run by itself: its policy, its gates, its steps, its failure (Q4, Q5, Q6, X7, X9, O4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution, Standing
from dpone_provider.load.failing import classify, explain
from dpone_provider.load.known import REPEATS
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.traces import LoadStep, LoadStepLost
from dpone_provider.wire import StatementFailed

GATED = QualityPolicy(gates=(GateSpec(id="rows", type="row_count_reconciliation"),))
THREE = Probe(row_count=3)


@attrs.define
class Log:
    """A log of steps that can be lost."""

    lost: LoadStepLost | None = None
    kept: list[LoadStep] = attrs.field(factory=list)

    def record(self, step: LoadStep) -> None:
        if self.lost is not None:
            raise self.lost
        self.kept.append(step)


def execution_of(policy: QualityPolicy = GATED, now: Callable[[], QualityPolicy] | None = None) -> LoadExecution:
    return LoadExecution(run_id="r", load_id="1" * 32, policy_now=now or (lambda: policy))


def used_up(policy: QualityPolicy = GATED, boundary: Any = "resume_validation") -> Any:
    """An execution whose receipt is used up, and the receipt."""
    gates = QualityGateExecution(policy=policy, run_id="earlier", load_id="2" * 32)
    receipt = gates.evaluate(source=THREE, target=THREE, boundary=boundary)
    gates.accept_payload(receipt, boundary)
    gates.accept_state(receipt)
    return gates, receipt


def facts(error: DponeError) -> tuple[str, str]:
    return error.code, error.message


# -- policy ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q6")
@pytest.mark.parametrize("boundary", ["admission", "post_commit"])
def test_a_policy_that_became_malformed_is_another_one(boundary: Any) -> None:
    said: list[Any] = [GATED]

    def now() -> QualityPolicy:
        if said[0] is None:
            raise DponeError("DPONE_QUALITY_CONFIGURATION")
        policy: QualityPolicy = said[0]
        return policy

    execution = execution_of(now=now)
    execution.require_unchanged(boundary)
    said[0] = None
    with pytest.raises(DponeError) as raised:
        execution.require_unchanged(boundary)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert isinstance(raised.value.__cause__, DponeError)
    said[0] = QualityPolicy()
    with pytest.raises(DponeError) as raised:
        execution.require_unchanged(boundary)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert execution.policy == GATED


# -- gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q4")
def test_the_gates_of_a_run_are_bound_to_it_and_begun_once() -> None:
    execution = execution_of()
    gates = execution.begin("3" * 32)
    receipt = gates.evaluate(source=THREE, target=THREE, boundary="pre_commit")
    assert (receipt.run_id, receipt.load_id) == ("r", "3" * 32)
    assert receipt.policy_snapshot_id == execution.snapshot.policy_snapshot_id
    with pytest.raises(DponeError) as raised:
        execution.begin("3" * 32)
    assert facts(raised.value) == ("DPONE_QUALITY_GATE_RECEIPT_INVALID", "This run has begun its load already.")


@pytest.mark.contract("Q4")
def test_a_receipt_is_accepted_for_the_payload_and_then_once_for_the_state() -> None:
    execution = execution_of()
    gates = execution.begin("3" * 32)
    receipt = gates.evaluate(source=THREE, target=THREE, boundary="pre_commit")
    gates.accept_payload(receipt, "pre_commit")
    execution.require_accepted(receipt, "pre_commit")
    with pytest.raises(DponeError, match="of another boundary"):
        execution.require_accepted(receipt, "post_commit")
    execution.accept_state(receipt)
    for again in (lambda: execution.accept_state(receipt), lambda: execution.require_accepted(receipt, "pre_commit")):
        with pytest.raises(DponeError) as raised:
            again()
        assert raised.value.code == "DPONE_QUALITY_GATE_RECEIPT_INVALID"


@pytest.mark.contract("Q7")
def test_without_gates_no_receipt_is_needed_and_with_gates_one_is() -> None:
    free = execution_of(QualityPolicy())
    free.require_accepted(None, "pre_commit")
    free.accept_state(None)
    bound = execution_of()
    for needs in (lambda: bound.require_accepted(None, "pre_commit"), lambda: bound.accept_state(None)):
        with pytest.raises(DponeError) as raised:
            needs()
        assert raised.value.code == "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


@pytest.mark.contract("Q4")
def test_a_run_that_was_asked_for_its_receipt_has_begun() -> None:
    execution = execution_of(QualityPolicy())
    execution.accept_state(None)
    own = execution._own()
    receipt = own.evaluate(source=THREE, target=THREE, boundary="pre_commit")
    assert (execution._own(), receipt.run_id, receipt.load_id) == (own, "r", "")
    with pytest.raises(DponeError):
        execution.begin("3" * 32)


@pytest.mark.contract("G5", "Q4")
def test_a_resumed_proof_stands_for_this_run_and_no_other_receipt_does() -> None:
    execution = execution_of()
    gates, receipt = used_up()
    execution.resume(gates, receipt)
    execution.require_accepted(receipt, "pre_commit")
    execution.accept_state(receipt)
    _, other = used_up()
    none: QualityGateReceipt | None = None
    for foreign in (other, none):
        with pytest.raises(DponeError):
            execution.require_accepted(foreign, "pre_commit")
        with pytest.raises(DponeError):
            execution.accept_state(foreign)


@pytest.mark.contract("G5", "Q4")
def test_a_proof_that_was_not_used_up_in_order_is_not_resumed() -> None:
    begun = execution_of()
    begun.begin("3" * 32)
    gates = QualityGateExecution(policy=GATED, run_id="earlier", load_id="2" * 32)
    open_receipt = gates.evaluate(source=THREE, target=THREE, boundary="resume_validation")
    cases = [
        (begun, *used_up()),
        (execution_of(), gates, open_receipt),
        (execution_of(), *used_up(boundary="pre_commit")),
    ]
    for execution, issuer, receipt in cases:
        with pytest.raises(DponeError) as raised:
            execution.resume(issuer, receipt)
        message = "The resumed proof was not used up in order."
        assert facts(raised.value) == ("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", message)
        with pytest.raises(DponeError):
            execution.require_accepted(receipt, "resume_validation")


@pytest.mark.contract("G5", "Q6")
def test_a_proof_of_another_policy_is_not_resumed() -> None:
    execution = execution_of()
    with pytest.raises(DponeError) as raised:
        execution.resume(*used_up(QualityPolicy()))
    message = "The resumed proof is of another policy."
    assert facts(raised.value) == ("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", message)


# -- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X9")
def test_steps_stand_in_the_result_and_in_the_log() -> None:
    execution = execution_of()
    execution.note("target_metrics_captured")
    execution.log = log = Log()
    execution.note("finalized", {"rows": 3})
    assert execution.recorded() == [{"step": "target_metrics_captured"}, {"step": "finalized", "rows": 3}]
    assert log.kept == execution.steps[1:]


@pytest.mark.contract("X7", "X9")
@pytest.mark.parametrize(("code", "answer"), [(241, "server error 241"), (None, "no answer")])
@pytest.mark.parametrize(("target", "retryable"), [("not_mutated", True), ("unknown", False)])
def test_a_step_that_is_lost_ends_the_load(code: int | None, answer: str, target: Any, retryable: bool) -> None:
    execution = execution_of()
    execution.standing.target = target
    execution.log = Log(LoadStepLost(code))
    with pytest.raises(DponeError) as raised:
        execution.note("finalized")
    assert facts(raised.value) == ("DPONE_LOAD_STEP_UNCERTAIN", f"The step finalized could not be recorded ({answer}).")
    assert raised.value.retryable is retryable
    assert raised.value.__cause__ is execution.log.lost
    assert execution.recorded() == [{"step": "finalized"}]


@pytest.mark.contract("N7", "X9")
@pytest.mark.parametrize(("checkpoints", "retryable"), [("committed", True), ("unknown", False)])
def test_a_step_that_is_lost_once_all_checkpoints_are_committed_may_be_tried_again(
    checkpoints: Any, retryable: bool
) -> None:
    execution = execution_of()
    execution.standing = Standing(target="mutation_returned_success", checkpoints=checkpoints)
    execution.log = Log(LoadStepLost(None))
    with pytest.raises(DponeError) as raised:
        execution.note("finalized")
    assert raised.value.retryable is retryable


@pytest.mark.contract("X7", "X9")
@pytest.mark.parametrize(("target", "boundary"), [("not_mutated", "pre_commit"), ("unknown", "post_commit")])
def test_a_failure_is_a_step_by_its_safe_code_and_its_own_loss_is_swallowed(target: Any, boundary: str) -> None:
    execution = execution_of()
    execution.standing.target = target
    execution.log = Log(LoadStepLost(None))
    execution.failed(DponeError("DPONE_CANCELLED"))
    context = {"error_code": "target_missing", "acceptance_side": "target"}
    execution.failed(DponeError("DPONE_ACCEPTANCE_UNAVAILABLE", context=context))
    execution.note_failure("cleanup_incomplete")
    step = {"step": "load_governance_failed", "failure_boundary": boundary}
    assert execution.recorded() == [
        {**step, "error_code": "DPONE_CANCELLED"},
        {**step, "error_code": "target_missing", "acceptance_side": "target"},
        {**step, "error_code": "cleanup_incomplete"},
    ]


@pytest.mark.contract("O4")
def test_a_run_counts_from_nothing() -> None:
    execution = execution_of()
    assert execution.counters() == {"extracted_rows": 0, "inserted_rows": 0, "final_rows": None}
    execution.standing = Standing(extracted_rows=1, inserted_rows=None, final_rows=2)
    assert execution.counters() == {"extracted_rows": 1, "inserted_rows": None, "final_rows": 2}
    assert (execution.load_id, execution.log) == ("1" * 32, None)


# -- what a failed run says of itself --------------------------------------------------------------------------------

RETRY = {
    ("not_mutated", "not_advanced"): ("retry_before_target_mutation",) * 2,
    ("not_mutated", "unknown"): ("retry_before_target_mutation",) * 2,
    ("unknown", "not_advanced"): ("operator_verification_required", "retry_may_repeat_target_mutation"),
    ("mutation_returned_success", "unknown"): ("operator_verification_required", "retry_may_repeat_target_mutation"),
    ("mutation_returned_success", "not_advanced"): ("retry_may_repeat_target_mutation",) * 2,
    ("mutation_returned_success", "advanced"): ("retry_may_repeat_target_mutation",) * 2,
}


@pytest.mark.contract("O4", "X7")
@pytest.mark.parametrize(("where", "said"), RETRY.items())
@pytest.mark.parametrize("adds", [True, False])
def test_what_a_retry_would_do(where: tuple[Any, Any], said: tuple[str, str], adds: bool) -> None:
    target, source_state = where
    assert classify(Standing(target=target, source_state=source_state), adds=adds) == said[0 if adds else 1]


@pytest.mark.contract("N4", "O4")
@pytest.mark.parametrize("where", RETRY)
@pytest.mark.parametrize("adds", [True, False])
def test_what_has_committed_checkpoints_is_resumed(where: tuple[Any, Any], adds: bool) -> None:
    target, source_state = where
    standing = Standing(target=target, source_state=source_state, checkpoints="committed")
    assert classify(standing, adds=adds) == "retry_via_native_resume"
    standing.checkpoints = "not_advanced"
    assert classify(standing, adds=adds) == RETRY[where][0 if adds else 1]


@pytest.mark.contract("N4", "X7")
@pytest.mark.parametrize("target", ["not_mutated", "mutation_returned_success", "unknown"])
def test_what_fails_in_a_resume_fails_in_its_validation(target: Any) -> None:
    standing = Standing(target=target, resumed=True, checkpoints="committed")
    assert standing.boundary == "resume_validation"
    for boundary in ("admission", "post_commit"):
        error = explained(DponeError("DPONE_CANCELLED", boundary=boundary), target, adds=False, standing=standing)
        assert error.boundary == "resume_validation"
        assert error.context["failure_context"]["checkpoint_state"] == "committed"


@pytest.mark.contract("N1", "X7")
@pytest.mark.parametrize(
    ("earlier", "target", "commit"),
    [
        (True, "not_mutated", "unknown"),
        (False, "not_mutated", "not_started"),
        (True, "mutation_returned_success", "proven"),
    ],
)
def test_a_table_that_an_earlier_attempt_began_to_change_is_not_said_to_be_untouched(
    earlier: bool, target: Any, commit: str
) -> None:
    standing = Standing(target=target, earlier=earlier)
    assert explained(DponeError("DPONE_CANCELLED"), target, adds=False, standing=standing).target_commit == commit
    untouched = DponeError("DPONE_CANCELLED", target_commit="not_started")
    said = explained(untouched, target, adds=False, standing=standing).target_commit
    assert said == ("unknown" if commit == "unknown" else "not_started")


@pytest.mark.contract("N7", "X7")
@pytest.mark.parametrize(
    ("checkpoints", "cause", "retryable"),
    [
        ("committed", StatementFailed(None), True),
        ("committed", ValueError(), False),
        ("committed", None, False),
        ("unknown", StatementFailed(None), False),
    ],
)
def test_a_server_that_was_gone_once_all_checkpoints_were_committed_may_be_asked_again(
    checkpoints: Any, cause: Exception | None, retryable: bool
) -> None:
    error = DponeError("DPONE_CANCELLED", retryable=False)
    error.__cause__ = cause
    standing = Standing(target="mutation_returned_success", checkpoints=checkpoints)
    assert explained(error, "unknown", adds=False, standing=standing).retryable is retryable


def explained(
    error: DponeError,
    target: Any,
    *,
    adds: bool = True,
    source_state: Any = "not_advanced",
    standing: Standing | None = None,
    **known: Any,
) -> DponeError:
    execution = execution_of()
    execution.standing = standing or Standing(target=target, source_state=source_state, extracted_rows=5)
    execution.note("finalized")
    explain(error, execution, known, adds=adds)
    return error


COMMITS = {"not_mutated": "not_started", "mutation_returned_success": "proven", "unknown": "unknown"}


@pytest.mark.contract("O4", "X7")
@pytest.mark.parametrize(("target", "commit"), COMMITS.items())
def test_a_failure_gets_the_commit_that_is_known_unless_it_says_one_itself(target: str, commit: str) -> None:
    assert explained(DponeError("DPONE_SOURCE_FAILED"), target).target_commit == commit
    told = explained(DponeError("DPONE_SOURCE_FAILED", target_commit="unknown"), target)
    assert told.target_commit == "unknown"


@pytest.mark.contract("O4", "P7")
@pytest.mark.parametrize(("target", "commit"), [*COMMITS.items()])
def test_where_an_authority_speaks_only_a_proven_commit_is_said_beside_it(target: str, commit: str) -> None:
    error = explained(DponeError("DPONE_SOURCE_FAILED"), target, replay_details={})
    assert error.target_commit == (commit if commit == "proven" else None)


@pytest.mark.contract("X7")
@pytest.mark.parametrize("boundary", ["authoring", "admission", "pre_commit", "post_commit", "resume_validation"])
@pytest.mark.parametrize("target", COMMITS)
def test_what_fails_once_the_target_may_be_changed_failed_after_the_commit(boundary: Any, target: str) -> None:
    error = explained(DponeError("DPONE_CANCELLED", boundary=boundary), target)
    late = target != "not_mutated" and boundary != "resume_validation"
    assert error.boundary == ("post_commit" if late else boundary)
    assert error.context["failure_context"]["failure_boundary"] == error.boundary


@pytest.mark.contract("X7")
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("target", COMMITS)
@pytest.mark.parametrize("source_state", ["not_advanced", "advanced", "unknown"])
def test_only_what_adds_rows_and_may_have_added_some_is_never_retried_blindly(
    adds: bool, target: str, source_state: str
) -> None:
    error = explained(DponeError("DPONE_SOURCE_FAILED"), target, adds=adds, source_state=source_state)
    repeats = adds and target != "not_mutated"
    assert error.retryable is (not repeats)
    help_ = "Retry; if it goes on, look at the source system."
    warned = repeats and source_state != "advanced"
    assert error.next_step == (f"{help_} {REPEATS}" if warned else help_)


@pytest.mark.contract("X7")
def test_the_warning_is_said_once_and_stands_alone_where_nothing_else_is_said() -> None:
    error = DponeError("DPONE_CANCELLED", remedy=f"Look. {REPEATS}")
    assert explained(error, "unknown").next_step == f"Look. {REPEATS}"
    error = DponeError("DPONE_CANCELLED")
    error.next_step = ""
    assert explained(error, "unknown").next_step == REPEATS


@pytest.mark.contract("O4")
def test_a_failure_has_the_counters_the_steps_and_the_states_and_its_own_word_wins() -> None:
    error = explained(DponeError("DPONE_SOURCE_FAILED", context={"attempts": 7, "mine": 1}), "unknown", more=2)
    assert error.context == {
        "attempts": 7,
        "mine": 1,
        "more": 2,
        "counters": {"extracted_rows": 5, "inserted_rows": 0, "final_rows": None},
        "failure_context": {
            "failure_boundary": "post_commit",
            "target_state": "unknown",
            "checkpoint_state": "not_applicable",
            "source_state": "not_advanced",
            "retry_classification": "operator_verification_required",
        },
        "evidence": {"load_steps": [{"step": "finalized"}]},
    }
    told = explained(DponeError("DPONE_SOURCE_FAILED"), "not_mutated", counters={"extracted_rows": 9})
    assert (told.context["attempts"], told.context["counters"]) == (1, {"extracted_rows": 9})


@pytest.mark.contract("O4", "P7")
@pytest.mark.parametrize(
    ("target", "commit", "stands"),
    [
        ("not_mutated", "not_started", True),
        ("not_mutated", None, False),
        ("not_mutated", "unknown", False),
        ("unknown", "not_started", False),
        ("mutation_returned_success", None, False),
    ],
)
def test_where_an_authority_speaks_states_are_said_only_when_nothing_was_begun(
    target: str, commit: Any, stands: bool
) -> None:
    error = explained(DponeError("DPONE_SOURCE_FAILED", target_commit=commit), target, replay_details={"a": 1})
    assert ("failure_context" in error.context) is stands
    assert error.context["replay_details"] == {"a": 1}
    assert error.context["evidence"] == {"load_steps": [{"step": "finalized"}]}
