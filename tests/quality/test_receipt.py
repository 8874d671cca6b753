"""The receipt machine: one evaluation, one consumption, in order, by the execution that issued it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.quality.gates import Probe, QualityGateFailure, QualityGateReport
from dpone_provider.quality.policy import AcceptanceMetricPolicy, GateSpec, QualityPolicy, Tolerance
from dpone_provider.quality.receipt import (
    QualityGateExecution,
    QualityGateReceipt,
    StagedQualityGateReceipt,
    report_from_staged_quality_receipt,
)
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.quality.snapshot import QualityExecutionSnapshot

POLICY = QualityPolicy(gates=(GateSpec(id="rows", type="row_count_reconciliation", tolerance=Tolerance()),))
INVALID = "DPONE_QUALITY_GATE_RECEIPT_INVALID"
MISMATCH = "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"
REQUIRED = "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


def execution(policy: QualityPolicy = POLICY, run_id: str = "run", load_id: str = "load") -> QualityGateExecution:
    return QualityGateExecution(policy=policy, run_id=run_id, load_id=load_id)


def evaluate(owner: QualityGateExecution, target: int | None = 3, boundary: str = "pre_commit") -> QualityGateReceipt:
    return owner.evaluate(source=Probe(row_count=3), target=Probe(row_count=target), boundary=boundary)


def refused(code: str, call: Callable[[], object]) -> DponeError:
    with pytest.raises(DponeError) as error:
        call()
    assert error.value.code == code
    return error.value


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("boundary", ["pre_commit", "resume_validation", "post_commit"])
def test_a_receipt_is_consumed_once_in_order(boundary: str) -> None:
    owner = execution()
    states = [owner.state]
    receipt = evaluate(owner, boundary=boundary)
    states.append(owner.state)
    owner.accept_payload(receipt, boundary)
    states.append(owner.state)
    owner.accept_state(receipt)
    states.append(owner.state)
    assert states == ["OPEN", "ISSUED", "PAYLOAD_ACCEPTED", "STATE_ACCEPTED"]


@pytest.mark.contract("Q4")
def test_a_receipt_is_bound_to_policy_run_load_and_boundary() -> None:
    receipt = evaluate(execution(run_id="r1", load_id="l1"))
    assert (receipt.run_id, receipt.load_id, receipt.boundary) == ("r1", "l1", "pre_commit")
    assert receipt.policy_snapshot_id == POLICY.snapshot_id
    assert receipt.policy_fingerprint == receipt.report.policy_fingerprint == POLICY.policy_fingerprint


@pytest.mark.contract("Q4")
def test_gates_are_evaluated_once() -> None:
    owner = execution()
    evaluate(owner)
    refused(INVALID, lambda: evaluate(owner))


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("boundary", ["", "precommit", None, 1], ids=repr)
def test_an_unknown_boundary_is_refused_before_the_gates_run(boundary: Any) -> None:
    owner = execution()
    refused(INVALID, lambda: evaluate(owner, boundary=boundary))
    assert owner.state == "OPEN"


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("given", ["post_commit", "resume_validation", "else", None])
def test_a_wrong_boundary_is_refused(given: Any) -> None:
    owner = execution()
    receipt = evaluate(owner)
    refused(MISMATCH, lambda: owner.accept_payload(receipt, given))
    assert owner.state == "ISSUED"


@pytest.mark.contract("Q4")
def test_a_receipt_is_not_replayed_for_the_payload() -> None:
    owner = execution()
    receipt = evaluate(owner)
    owner.accept_payload(receipt, "pre_commit")
    refused(INVALID, lambda: owner.accept_payload(receipt, "pre_commit"))


@pytest.mark.contract("Q4")
def test_a_receipt_is_not_replayed_for_the_state() -> None:
    owner = execution()
    receipt = evaluate(owner)
    owner.accept_payload(receipt, "pre_commit")
    owner.accept_state(receipt)
    refused(INVALID, lambda: owner.accept_state(receipt))
    refused(INVALID, lambda: owner.accept_payload(receipt, "pre_commit"))


@pytest.mark.contract("Q4")
def test_the_state_is_not_accepted_before_the_payload() -> None:
    owner = execution()
    receipt = evaluate(owner)
    refused(INVALID, lambda: owner.accept_state(receipt))
    assert owner.state == "ISSUED"


@pytest.mark.contract("Q3", "Q4")
def test_a_receipt_of_another_execution_of_the_same_load_is_refused() -> None:
    owner, other = execution(), execution()
    evaluate(owner)
    refused(REQUIRED, lambda: owner.accept_payload(evaluate(other), "pre_commit"))


@pytest.mark.contract("Q4")
def test_a_receipt_cannot_open_an_execution_that_evaluated_nothing() -> None:
    owner = execution()
    refused(REQUIRED, lambda: owner.accept_payload(evaluate(execution()), "pre_commit"))
    assert owner.state == "OPEN"


@pytest.mark.contract("Q3", "Q4")
@pytest.mark.parametrize(
    "other",
    [
        QualityPolicy(),
        QualityPolicy(gates=(attrs.evolve(POLICY.gates[0], severity="warn"),)),
        attrs.evolve(POLICY, acceptance=AcceptanceMetricPolicy(enabled=True)),
    ],
    ids=["empty policy", "other severity", "other acceptance"],
)
def test_a_receipt_of_another_policy_is_a_mismatch(other: QualityPolicy) -> None:
    owner = execution()
    evaluate(owner)
    refused(MISMATCH, lambda: owner.accept_payload(evaluate(execution(other)), "pre_commit"))


@pytest.mark.contract("Q3")
def test_a_missing_receipt_is_required() -> None:
    owner = execution()
    evaluate(owner)
    refused(REQUIRED, lambda: owner.accept_payload(None, "pre_commit"))
    refused(REQUIRED, lambda: owner.accept_state(None))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("thing", [{"passed": True}, True, "receipt", object()], ids=["dict", "True", "str", "object"])
def test_anything_that_is_no_receipt_is_invalid(thing: Any) -> None:
    owner = execution()
    evaluate(owner)
    refused(INVALID, lambda: owner.accept_payload(thing, "pre_commit"))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("target", [2, None])
def test_a_blocking_report_is_never_accepted(target: int | None) -> None:
    owner = execution()
    receipt = evaluate(owner, target=target)
    with pytest.raises(QualityGateFailure) as failure:
        owner.accept_payload(receipt, "pre_commit")
    assert failure.value.code == "DPONE_QUALITY_GATES_FAILED"
    assert failure.value.boundary == "pre_commit"
    refused(INVALID, lambda: owner.accept_state(receipt))


@pytest.mark.contract("Q3", "Q5")
@pytest.mark.parametrize("boundary", ["post_commit", "resume_validation"])
def test_a_blocking_report_fails_at_its_own_boundary(boundary: str) -> None:
    owner = execution()
    receipt = evaluate(owner, target=2, boundary=boundary)
    with pytest.raises(QualityGateFailure) as failure:
        owner.accept_payload(receipt, boundary)
    assert failure.value.boundary == boundary


@pytest.mark.contract("Q3")
def test_a_report_that_was_changed_after_issue_is_refused() -> None:
    owner = execution()
    receipt = evaluate(owner, target=2)
    object.__setattr__(receipt.report, "results", ())
    refused(MISMATCH, lambda: owner.accept_payload(receipt, "pre_commit"))


@pytest.mark.contract("Q4", "Q5")
def test_an_accepted_receipt_is_seen_as_often_as_one_looks_and_moves_nothing() -> None:
    owner = execution()
    receipt = evaluate(owner)
    owner.accept_payload(receipt, "pre_commit")
    for _ in range(2):
        owner.require_accepted(receipt, "pre_commit")
    assert owner.state == "PAYLOAD_ACCEPTED"


@pytest.mark.contract("Q4", "Q5")
@pytest.mark.parametrize("accepted", [[], ["payload", "state"]], ids=["not yet", "used up"])
def test_a_receipt_that_is_not_accepted_for_the_payload_is_seen(accepted: list[str]) -> None:
    owner = execution()
    receipt = evaluate(owner)
    if accepted:
        owner.accept_payload(receipt, "pre_commit")
        owner.accept_state(receipt)
    told = refused(INVALID, lambda: owner.require_accepted(receipt, "pre_commit"))
    assert told.message == "The receipt is not accepted for the payload."


@pytest.mark.contract("Q3", "Q5")
def test_looking_at_a_receipt_checks_all_of_it() -> None:
    owner = execution()
    receipt = evaluate(owner)
    owner.accept_payload(receipt, "pre_commit")
    told = refused(MISMATCH, lambda: owner.require_accepted(receipt, "post_commit"))
    assert told.message == "The receipt is of another boundary."
    refused(REQUIRED, lambda: owner.require_accepted(None, "pre_commit"))
    refused(REQUIRED, lambda: owner.require_accepted(evaluate(execution()), "pre_commit"))
    refused(MISMATCH, lambda: owner.require_accepted(evaluate(execution(QualityPolicy())), "pre_commit"))
    object.__setattr__(receipt.report, "results", ())
    refused(MISMATCH, lambda: owner.require_accepted(receipt, "pre_commit"))


@pytest.mark.contract("Q6")
def test_looking_at_a_receipt_notices_drift() -> None:
    policy = attrs.evolve(POLICY)
    owner = execution(policy)
    receipt = evaluate(owner)
    owner.accept_payload(receipt, "pre_commit")
    object.__setattr__(policy, "gates", ())
    refused("DPONE_QUALITY_POLICY_DRIFT", lambda: owner.require_accepted(receipt, "pre_commit"))
    refused("DPONE_QUALITY_POLICY_DRIFT", lambda: owner.require_accepted(None, "pre_commit"))


@pytest.mark.contract("Q4", "Q7")
def test_the_receipt_of_an_empty_policy_is_looked_at_like_any_other() -> None:
    owner = execution(QualityPolicy())
    receipt = evaluate(owner)
    refused(INVALID, lambda: owner.require_accepted(receipt, "pre_commit"))
    owner.accept_payload(receipt, "pre_commit")
    owner.require_accepted(receipt, "pre_commit")


@pytest.mark.contract("Q7")
def test_without_gates_there_is_nothing_to_look_for() -> None:
    owner = execution(QualityPolicy())
    owner.require_accepted(None, "pre_commit")
    owner.require_accepted(QualityGateReceipt(report=QualityGateReport()), "pre_commit")
    assert owner.state == "OPEN"


@pytest.mark.contract("Q7")
def test_without_a_receipt_an_empty_policy_passes_and_authorizes_nothing() -> None:
    owner = execution(QualityPolicy())
    owner.accept_payload(None, "pre_commit")
    owner.accept_state(None)
    assert owner.state == "OPEN"


@pytest.mark.contract("Q7")
def test_a_legacy_empty_receipt_passes_an_empty_policy_and_authorizes_nothing() -> None:
    owner = execution(QualityPolicy())
    receipt = QualityGateReceipt(report=QualityGateReport())
    owner.accept_payload(receipt, "pre_commit")
    owner.accept_state(receipt)
    owner.accept_payload(receipt, "post_commit")
    assert (receipt.unbound, owner.state) == (True, "OPEN")


@pytest.mark.contract("Q3", "Q7")
@pytest.mark.parametrize("issued", [True, False])
def test_a_legacy_empty_receipt_does_not_pass_gates(issued: bool) -> None:
    owner = execution()
    if issued:
        evaluate(owner)
    receipt = QualityGateReceipt(report=QualityGateReport())
    refused(REQUIRED, lambda: owner.accept_payload(receipt, "pre_commit"))
    refused(REQUIRED, lambda: owner.accept_state(receipt))
    assert owner.state == ("ISSUED" if issued else "OPEN")


@pytest.mark.contract("Q7")
def test_the_receipt_of_an_empty_policy_is_used_like_any_other() -> None:
    owner = execution(QualityPolicy())
    receipt = evaluate(owner)
    assert not receipt.unbound
    owner.accept_payload(receipt, "pre_commit")
    owner.accept_state(receipt)
    assert owner.state == "STATE_ACCEPTED"
    refused(INVALID, lambda: owner.accept_state(receipt))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("thing", [{}, False, "", QualityGateReport()], ids=["dict", "False", "str", "report"])
def test_an_empty_policy_takes_nothing_but_receipts(thing: Any) -> None:
    refused(INVALID, lambda: execution(QualityPolicy()).accept_payload(thing, "pre_commit"))


@pytest.mark.contract("Q4", "Q7")
@pytest.mark.parametrize(
    "binding",
    [
        {"policy_snapshot_id": POLICY.snapshot_id},
        {"policy_fingerprint": POLICY.policy_fingerprint},
        {"run_id": "run"},
        {"load_id": "load"},
        {"report": None},
        {"report": {"passed": True}},
        {"boundary": "precommit"},
        {"boundary": None},
        {"scope_summary": {"planned_count": 1}},
        {"permit": object()},
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_receipt_that_claims_anything_is_not_made_by_hand(binding: dict[str, Any]) -> None:
    refused(INVALID, lambda: QualityGateReceipt(**{"report": QualityGateReport(), **binding}))


@pytest.mark.contract("Q4", "Q7")
def test_a_legacy_receipt_of_a_real_report_is_not_made_by_hand() -> None:
    receipt = evaluate(execution())
    refused(INVALID, lambda: QualityGateReceipt(report=receipt.report))


def _direct(receipt: QualityGateReceipt, permit: object) -> QualityGateReceipt:
    return QualityGateReceipt(
        report=receipt.report,
        boundary="pre_commit",
        policy_snapshot_id=receipt.policy_snapshot_id,
        policy_fingerprint=receipt.policy_fingerprint,
        run_id="run",
        load_id="load",
        permit=permit,
    )


@pytest.mark.contract("Q4")
@pytest.mark.parametrize(
    "forge",
    [
        lambda receipt: _direct(receipt, None),
        lambda receipt: _direct(receipt, object()),
        lambda receipt: _direct(receipt, receipt._permit),
        lambda receipt: attrs.evolve(receipt, boundary="post_commit"),
        lambda receipt: attrs.evolve(receipt),
        copy.copy,
        copy.deepcopy,
        lambda receipt: pickle.loads(pickle.dumps(receipt)),  # noqa: S301
    ],
    ids=["direct", "foreign permit", "used permit", "evolve", "evolve alike", "copy", "deepcopy", "pickle"],
)
def test_a_receipt_cannot_be_made_by_anyone_else(forge: Any) -> None:
    receipt = evaluate(execution())
    refused(INVALID, lambda: forge(receipt))


@pytest.mark.contract("Q4")
def test_a_receipt_cannot_be_replaced_as_a_dataclass() -> None:
    receipt: Any = evaluate(execution())
    with pytest.raises(TypeError):
        dataclasses.replace(receipt, boundary="post_commit")


@pytest.mark.contract("Q4")
def test_a_hollow_receipt_is_refused() -> None:
    owner = execution()
    evaluate(owner)
    refused(MISMATCH, lambda: owner.accept_payload(object.__new__(QualityGateReceipt), "pre_commit"))


@pytest.mark.contract("Q4")
def test_a_hollow_receipt_is_no_legacy_one() -> None:
    owner = execution(QualityPolicy())
    refused(MISMATCH, lambda: owner.accept_payload(object.__new__(QualityGateReceipt), "pre_commit"))


@pytest.mark.contract("Q9")
def test_the_old_name_of_a_receipt_is_the_same_type() -> None:
    assert StagedQualityGateReceipt is QualityGateReceipt


@pytest.mark.contract("Q9")
def test_the_report_of_a_staged_receipt_is_handed_out() -> None:
    receipt = evaluate(execution())
    assert report_from_staged_quality_receipt(receipt) is receipt.report


@pytest.mark.contract("Q3", "Q9")
@pytest.mark.parametrize("thing", [None, {"report": {}}, QualityGateReport()], ids=["None", "dict", "report"])
def test_what_is_no_receipt_has_no_report(thing: Any) -> None:
    refused(INVALID, lambda: report_from_staged_quality_receipt(thing))


@pytest.mark.contract("Q5", "Q9")
@pytest.mark.parametrize("boundary", ["post_commit", "resume_validation"])
def test_the_report_of_another_boundary_is_not_a_staged_one(boundary: str) -> None:
    refused(MISMATCH, lambda: report_from_staged_quality_receipt(evaluate(execution(), boundary=boundary)))


@pytest.mark.contract("Q5")
@pytest.mark.parametrize("owned", ["pre_commit", "post_commit", "resume_validation"])
@pytest.mark.parametrize("asked", ["pre_commit", "post_commit", "resume_validation"])
def test_an_execution_evaluates_only_at_the_boundary_of_its_path(owned: Any, asked: str) -> None:
    owner = QualityGateExecution(policy=POLICY, run_id="r", load_id="l", boundary=owned)
    if owned == asked:
        assert evaluate(owner, boundary=asked).boundary == owned
    else:
        refused(MISMATCH, lambda: evaluate(owner, boundary=asked))
        assert owner.state == "OPEN"


@pytest.mark.contract("Q6")
def test_an_execution_is_bound_to_the_snapshot_it_was_given() -> None:
    snapshot = QualityExecutionSnapshot.of(POLICY)
    owner = QualityGateExecution(snapshot=snapshot, run_id="r", load_id="l")
    assert owner.snapshot is snapshot
    assert evaluate(owner).policy_snapshot_id == snapshot.policy_snapshot_id
    assert execution().snapshot == snapshot


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(
    "given",
    [{}, {"policy": POLICY, "snapshot": QualityExecutionSnapshot.of(POLICY)}, {"snapshot": POLICY}],
    ids=["neither", "both", "a policy for a snapshot"],
)
def test_an_execution_has_one_snapshot(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^give either a policy or its snapshot$"):
        QualityGateExecution(**given, run_id="r", load_id="l")


@pytest.mark.contract("Q6")
@pytest.mark.parametrize("boundary", ["pre_commit", "post_commit"])
@pytest.mark.parametrize("step", ["evaluate", "payload", "state"])
def test_a_policy_that_loses_its_gates_in_place_is_drift_at_every_step(step: str, boundary: Any) -> None:
    policy = attrs.evolve(POLICY)
    owner = QualityGateExecution(policy=policy, run_id="r", load_id="l", boundary=boundary)
    if step != "evaluate":
        receipt = evaluate(owner, boundary=boundary)
        if step == "state":
            owner.accept_payload(receipt, boundary)
    object.__setattr__(policy, "gates", ())
    steps: dict[str, Callable[[], object]] = {
        "evaluate": lambda: evaluate(owner, boundary=boundary),
        "payload": lambda: owner.accept_payload(None, boundary),
        "state": lambda: owner.accept_state(None),
    }
    state = owner.state
    with pytest.raises(DponeError) as error:
        steps[step]()
    assert (error.value.code, error.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert owner.state == state


@pytest.mark.contract("Q6")
def test_drift_after_the_gates_is_of_the_boundary_that_they_ran_at() -> None:
    policy = attrs.evolve(POLICY)
    owner = execution(policy)
    receipt = evaluate(owner, boundary="post_commit")
    object.__setattr__(policy, "acceptance", AcceptanceMetricPolicy(enabled=True))
    with pytest.raises(DponeError) as error:
        owner.accept_payload(receipt, "post_commit")
    assert (error.value.code, error.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", "post_commit")


@pytest.mark.contract("Q1", "Q4")
def test_answers_reach_the_gates_of_an_execution() -> None:
    policy = QualityPolicy(gates=(GateSpec(id="keys", type="unique", sql="id", threshold=0),))
    for answer, passed in ((0, True), (1, False)):
        receipt = execution(policy).evaluate(
            source=Probe(), target=Probe(), boundary="pre_commit", answers={"keys": answer}
        )
        assert receipt.report.passed is passed
    assert not evaluate(execution(policy)).report.passed


@pytest.mark.contract("Q4")
def test_answers_that_fail_to_be_read_leave_no_receipt_and_no_second_try() -> None:
    class Broken(dict):  # type: ignore[type-arg]
        def get(self, key: object, default: object = None) -> Any:
            raise RuntimeError("broken")

    owner = execution()
    with pytest.raises(RuntimeError, match="broken"):
        owner.evaluate(source=Probe(), target=Probe(), boundary="pre_commit", answers=Broken())
    refused(INVALID, lambda: evaluate(owner))
    refused(REQUIRED, lambda: owner.accept_payload(None, "pre_commit"))


@pytest.mark.contract("N2", "Q3")
def test_a_receipt_carries_its_scope() -> None:
    scope = QualityScopeSummary(
        kind="native_transfer",
        digest="sha256:" + "0" * 64,
        planned_count=1,
        active_count=1,
        skipped_committed_count=0,
        reactivated_count=0,
    )
    receipt = execution().evaluate(source=Probe(), target=Probe(), boundary="pre_commit", scope_summary=scope)
    assert receipt.scope_summary is scope
    assert evaluate(execution()).scope_summary is None


@pytest.mark.contract("Q3")
def test_a_scope_that_is_a_mapping_is_invalid() -> None:
    scope: Any = {"planned_count": 1}
    owner = execution()
    refused(
        INVALID,
        lambda: owner.evaluate(source=Probe(), target=Probe(), boundary="pre_commit", scope_summary=scope),
    )
    refused(REQUIRED, lambda: owner.accept_payload(None, "pre_commit"))


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_execution_cannot_be_duplicated(duplicate: Any) -> None:
    refused(INVALID, lambda: duplicate(execution()))


def _pause_at_every_line(frame: FrameType, event: str, _: object) -> Any:
    """Let another thread run between any two lines of the receipt module: a missing lock shows at once."""
    if not frame.f_code.co_filename.endswith("receipt.py"):
        return None
    if event == "line":
        time.sleep(0.0002)
    return _pause_at_every_line


def _outcomes(call: Callable[[], object], threads: int = 8) -> list[str]:
    """Run one call in several threads at once; what each of them got."""
    start, outcomes = threading.Barrier(threads), []

    def attempt() -> None:
        start.wait()
        sys.settrace(_pause_at_every_line)
        try:
            call()
        except DponeError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("accepted")

    workers = [threading.Thread(target=attempt) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(outcomes)


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("step", ["evaluate", "payload", "state"])
def test_of_threads_that_take_one_step_at_once_exactly_one_succeeds(step: str) -> None:
    for _ in range(3):
        owner = execution()
        if step == "evaluate":
            outcomes = _outcomes(lambda owner=owner: evaluate(owner))
        else:
            receipt = evaluate(owner)
            if step == "state":
                owner.accept_payload(receipt, "pre_commit")
                outcomes = _outcomes(lambda owner=owner, receipt=receipt: owner.accept_state(receipt))
            else:
                outcomes = _outcomes(lambda owner=owner, receipt=receipt: owner.accept_payload(receipt, "pre_commit"))
        assert outcomes == [INVALID] * 7 + ["accepted"]
