"""Nothing but this run's own receipt opens a switch, a success or the state of a source (Q3, Q4, Q5, Q7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.load.direct import LegacyLoadGovernanceCoordinator
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.payload import Loaded
from dpone_provider.load.staging import ArrowStager
from dpone_provider.quality.gates import QualityGateRunner
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.replay.ports import StagedProof
from tests.paths.bench import Appending
from tests.paths.wires import On

Forge = Callable[[QualityPolicy], Any]


def none_at_all(policy: QualityPolicy) -> Any:
    return None


def another_run(policy: QualityPolicy) -> Any:
    """A real one, of the same policy, that another execution issued."""
    execution = QualityGateExecution(policy=policy, run_id="other", load_id="1" * 32)
    five = Probe(row_count=5, typed_hash=None)
    return execution.evaluate(source=five, target=five, boundary="pre_commit")


def another_policy(policy: QualityPolicy) -> Any:
    return another_run(QualityPolicy())


def a_mapping(policy: QualityPolicy) -> Any:
    return {"report": {"passed": True, "results": []}, "boundary": "pre_commit"}


def hollow(policy: QualityPolicy) -> Any:
    return object.__new__(QualityGateReceipt)


FORGED = [none_at_all, another_run, another_policy, a_mapping, hollow]
CODES = {
    "none_at_all": "REQUIRED",
    "another_run": "REQUIRED",
    "another_policy": "MISMATCH",
    "a_mapping": "INVALID",
    "hollow": "MISMATCH",
}


@pytest.mark.contract("Q3", "Q4")
@pytest.mark.parametrize("forge", FORGED)
def test_a_staging_with_another_receipt_is_never_switched(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, forge: Forge
) -> None:
    stage = ArrowStager.stage
    spec = bench.spec(mode="full_refresh")

    def forged(self: ArrowStager, order: Any) -> StagedProof:
        return attrs.evolve(stage(self, order), receipt=forge(spec.quality))

    monkeypatch.setattr(ArrowStager, "stage", forged)
    wire = On("exchange", lambda: None)
    error = bench.refused(f"DPONE_QUALITY_GATE_RECEIPT_{CODES[forge.__name__]}", spec=spec, wire=wire)
    assert error.target_commit == "not_started"
    assert not {"exchange", "publish_first"}.intersection(wire.kinds)
    assert bench.ids() == []


@pytest.mark.contract("Q4")
def test_a_staging_whose_receipt_was_not_accepted_is_never_switched(
    bench: Appending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QualityGateExecution, "accept_payload", lambda self, receipt, boundary: None)
    wire = On("exchange", lambda: None)
    bench.refused("DPONE_QUALITY_GATE_RECEIPT_INVALID", spec=bench.spec(mode="full_refresh"), wire=wire)
    assert "exchange" not in wire.kinds


@pytest.mark.contract("Q3", "Q4", "X7")
@pytest.mark.parametrize("forge", FORGED)
def test_an_append_with_another_receipt_leaves_the_mark(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, forge: Forge
) -> None:
    load = LegacyLoadGovernanceCoordinator.load
    spec = bench.spec(cursor="id")

    def forged(self: LegacyLoadGovernanceCoordinator, execution: LoadExecution) -> Loaded:
        return attrs.evolve(load(self, execution), receipt=forge(spec.quality))

    monkeypatch.setattr(LegacyLoadGovernanceCoordinator, "load", forged)
    error = bench.refused(f"DPONE_QUALITY_GATE_RECEIPT_{CODES[forge.__name__]}", spec=spec)
    assert (error.boundary, error.target_commit) == ("post_commit", "proven")
    assert error.context["failure_context"]["retry_classification"] == "retry_may_repeat_target_mutation"
    assert bench.mark(spec) is None


@pytest.mark.contract("Q5")
@pytest.mark.parametrize("boundary", ["pre_commit", "resume_validation"])
def test_a_receipt_of_another_boundary_than_the_path_s_is_refused(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, boundary: Any
) -> None:
    def gate(self: LegacyLoadGovernanceCoordinator, execution: LoadExecution, sent: int, written: int | None) -> Any:
        gates = execution.begin(execution.load_id)
        probe = Probe(row_count=sent, typed_hash=None)
        receipt = gates.evaluate(source=probe, target=probe, boundary=boundary)
        gates.accept_payload(receipt, boundary)
        return receipt

    monkeypatch.setattr(LegacyLoadGovernanceCoordinator, "_gate", gate)
    spec = bench.spec(cursor="id")
    bench.refused("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", spec=spec)
    assert bench.mark(spec) is None


@pytest.mark.contract("Q5")
@pytest.mark.parametrize("mode", ["append", "full_refresh"])
def test_the_gates_of_a_load_run_exactly_once(bench: Appending, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    ran: list[QualityPolicy] = []
    evaluate = QualityGateRunner.evaluate

    def counted(self: QualityGateRunner, policy: QualityPolicy, *arguments: Any, **options: Any) -> Any:
        ran.append(policy)
        return evaluate(self, policy, *arguments, **options)

    monkeypatch.setattr(QualityGateRunner, "evaluate", counted)
    bench.run(spec=bench.spec(mode=mode))
    assert len(ran) == 1


@pytest.mark.contract("Q7")
@pytest.mark.parametrize("mode", ["append", "full_refresh"])
def test_a_load_without_gates_needs_no_receipt(bench: Appending, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    stage, load = ArrowStager.stage, LegacyLoadGovernanceCoordinator.load
    monkeypatch.setattr(ArrowStager, "stage", lambda self, order: attrs.evolve(stage(self, order), receipt=None))
    monkeypatch.setattr(
        LegacyLoadGovernanceCoordinator,
        "load",
        lambda self, execution: attrs.evolve(load(self, execution), receipt=None),
    )
    bench.run(spec=bench.spec(mode=mode, gates=[]))
    assert bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("Q4")
def test_a_run_has_one_load_and_one_receipt(bench: Appending) -> None:
    execution = LoadExecution(run_id="r", load_id="1" * 32, policy_now=lambda: bench.spec().quality)
    execution.begin("1" * 32)
    with pytest.raises(Exception, match="DPONE_QUALITY_GATE_RECEIPT_INVALID"):
        execution.begin("1" * 32)
