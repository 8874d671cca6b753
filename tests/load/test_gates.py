"""Gates on a real staging: evaluated once, by the load's own execution, before anything is published (Q1, Q5, X3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.load.reading import Details, StagingRoom
from dpone_provider.load.staging import ArrowStager
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.gates import QualityGateFailure
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Wire
from tests.loads import Bench, endpoint_of

UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.write(1)
    return made


@attrs.define
class Staging:
    """One staging without a route around it: the steps that it noted, and the execution that it used."""

    bench: Bench
    control: ControlClient
    steps: list[tuple[str, Details]] = attrs.field(factory=list)
    executions: list[QualityGateExecution] = attrs.field(factory=list)

    def stage(self, spec: LoadSpec, wire: Wire | None = None) -> StagedProof:
        room = StagingRoom(
            spec=spec,
            control=self.control,
            sink=endpoint_of(self.bench.sandbox),
            source=None,
            live=None,
            replicas=("single",),
            wire=wire or DirectWire(),
            begin=self._begin(spec),
            notify=lambda step, facts: None,
            note=lambda step, details: self.steps.append((step, details)),
        )
        order = StagingOrder(name="private", uuid=UUID, mark="m", load_id="l" * 32, keep_alive=lambda: None)
        return ArrowStager(room).stage(order)

    def _begin(self, spec: LoadSpec) -> Any:
        def begin(load_id: str) -> QualityGateExecution:
            self.executions.append(QualityGateExecution(policy=spec.quality, run_id="r", load_id=load_id))
            return self.executions[-1]

        return begin


@pytest.fixture
def staging(bench: Bench) -> Iterator[Staging]:
    control = ControlClient(endpoint_of(bench.sandbox), DirectWire())
    try:
        yield Staging(bench, control)
    finally:
        control.close()


@pytest.mark.contract("X3", "X9")
def test_gates_come_after_the_staging_and_before_any_capture(staging: Staging) -> None:
    staging.stage(staging.bench.spec(durable=False))
    assert [step for step, _ in staging.steps] == [
        "staged",
        "quality_checked",
        "source_metrics_captured",
        "staged_metrics_captured",
    ]


@pytest.mark.contract("X3", "X9")
def test_a_blocking_gate_ends_the_staging_before_any_capture(staging: Staging) -> None:
    gates = [{"id": "some", "type": "min_rows", "threshold": 6}]
    acceptance = {"enabled": True, "capture": {"source": True, "staged": True, "target": False}}
    with pytest.raises(QualityGateFailure):
        staging.stage(staging.bench.spec(durable=False, gates=gates, acceptance=acceptance))
    assert [step for step, _ in staging.steps] == ["staged", "quality_checked"]


@pytest.mark.contract("Q5")
def test_the_load_s_own_execution_evaluates_once_at_pre_commit_and_its_state_is_left_to_the_path(
    staging: Staging,
) -> None:
    proof = staging.stage(staging.bench.spec(durable=False))
    (execution,) = staging.executions
    assert proof.receipt is not None
    assert (proof.receipt.boundary, proof.receipt.load_id, execution.state) == (
        "pre_commit",
        "l" * 32,
        "PAYLOAD_ACCEPTED",
    )
    execution.accept_state(proof.receipt)
    assert execution.state == "STATE_ACCEPTED"
