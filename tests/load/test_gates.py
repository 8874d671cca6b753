"""Gates on a real staging: evaluated once, by the load's own execution, before anything is published (Q1, Q5, X3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.load.reading import Details, StagingRoom
from dpone_provider.load.staging import ArrowStager
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.gates import QualityGateFailure
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.traces import LoadStep
from dpone_provider.wire import DirectWire, Effect, Wire
from tests.crash.wire import Died
from tests.loads import Bench, endpoint_of
from tests.wirelab import TcpProxy

T = TypeVar("T")
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
            clients={"single": self.control},
            sink=endpoint_of(self.bench.sandbox),
            source=None,
            live=None,
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
    captured = {"row_count": 5, "columns": 1}
    (first, staged), *others = staging.steps
    assert (first, staged["rows"], staged["columns"]) == ("staged", 5, 2)
    assert others == [
        ("quality_checked", {"gates": 2, "unavailable": 0, "passed": 2, "failed": 0, "warned": 0}),
        ("source_metrics_captured", captured),
        ("staged_metrics_captured", captured),
    ]
    assert all(LoadStep(step=step, details=details).details == details for step, details in staging.steps)


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


GATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "not_null": ({"sql": "nullIf(name, 'n3')", "threshold": 1}, {"sql": "nullIf(name, 'n3')"}),
    "unique": ({"sql": "intDiv(id, 2)", "threshold": 2}, {"sql": "intDiv(id, 2)", "threshold": 1}),
    "accepted_values": ({"sql": "id <= 5"}, {"sql": "id < 5"}),
    "freshness": ({"sql": "now() - id", "threshold": 60}, {"sql": "toDate(id)", "threshold": 86_400}),
    "custom_sql": ({"sql": "SELECT countIf(id > 5) FROM {table}"}, {"sql": "SELECT countIf(id > 4) FROM {table}"}),
}
"""For each type a gate that holds for ids 1 to 5, and one that does not."""


def plain(bench: Bench, **gate: Any) -> LoadSpec:
    return bench.spec(
        durable=False, gates=[{"id": "asked", **gate}, {"id": "rows", "type": "row_count_reconciliation"}]
    )


def refused(bench: Bench, spec: LoadSpec, **around: Any) -> DponeError:
    """The load must end before it is published, and leave nothing but the earlier table."""
    live = bench.live()
    with pytest.raises(DponeError) as raised:
        bench.run("later", spec=spec, **around)
    assert (raised.value.boundary, raised.value.target_commit) == ("pre_commit", "not_started")
    assert (bench.live(), bench.private()) == (live, [])
    return raised.value


@pytest.mark.contract("Q1", "Q5")
@pytest.mark.parametrize("kind", GATES)
def test_a_gate_of_this_type_that_holds_lets_the_load_pass(bench: Bench, kind: str) -> None:
    outcome = bench.run(spec=plain(bench, type=kind, **GATES[kind][0]))
    assert [result["status"] for result in outcome.gates["results"]] == ["passed", "passed"]
    assert bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("Q1", "Q5")
@pytest.mark.parametrize("kind", GATES)
def test_a_gate_of_this_type_that_does_not_hold_keeps_the_table(bench: Bench, kind: str) -> None:
    bench.run("earlier", spec=bench.spec(durable=False))
    error = refused(bench, plain(bench, type=kind, **GATES[kind][1]))
    assert error.code == "DPONE_QUALITY_GATES_FAILED"
    statuses = [result["status"] for result in error.context["quality_gates"]["results"]]
    assert statuses == ["failed", "passed"]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", GATES)
def test_a_gate_of_this_type_that_warns_publishes(bench: Bench, kind: str) -> None:
    outcome = bench.run(spec=plain(bench, type=kind, severity="warn", **GATES[kind][1]))
    assert [result["status"] for result in outcome.gates["results"]] == ["warned", "passed"]
    assert bench.live()


@pytest.mark.contract("Q1", "Q8")
def test_a_gate_on_a_missing_column_fails_and_says_so(bench: Bench) -> None:
    """Field report B23."""
    error = refused(bench, plain(bench, type="not_null", sql="secret_column"))
    result, other = error.context["quality_gates"]["results"]
    assert (result["status"], result["code"], result["metrics"]) == ("failed", "nulls_unavailable", {})
    assert other["status"] == "passed"
    assert "asked (server error 47)" in error.next_step
    assert "secret_column" not in f"{error} {error.next_step} {error.context}"


@pytest.mark.contract("Q1")
def test_a_gate_on_a_missing_column_warns_where_it_may(bench: Bench) -> None:
    """Field report B23."""
    told: list[dict[str, Any]] = []
    spec = plain(bench, type="unique", sql="nothing", severity="warn")
    outcome = bench.run(spec=spec, notify=lambda step, facts: told.append(facts) if step == "unanswered" else None)
    result = outcome.gates["results"][0]
    assert (result["status"], result["code"]) == ("warned", "duplicates_unavailable")
    assert told == [{"gate": "asked", "why": "server error 47"}]


def of_python(bench: Bench, *gates: GateSpec, durable: bool = False) -> LoadSpec:
    """A load whose policy was never a manifest."""
    return attrs.evolve(bench.spec(durable=durable), quality=QualityPolicy(gates=gates))


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("durable", [True, False])
def test_a_gate_without_the_threshold_that_it_needs_fails(bench: Bench, durable: bool) -> None:
    """Field report B23: a NULL threshold."""
    bench.provision()
    error = refused(bench, of_python(bench, GateSpec(id="some", type="min_rows", threshold=None), durable=durable))
    assert error.context["quality_gates"]["results"][0]["code"] == "threshold_missing"


@pytest.mark.contract("Q1")
def test_a_freshness_gate_without_a_threshold_fails(bench: Bench) -> None:
    """Field report B23: a NULL threshold."""
    error = refused(bench, of_python(bench, GateSpec(id="new", type="freshness", sql="now()", threshold=None)))
    assert error.context["quality_gates"]["results"][0]["code"] == "threshold_missing"


@pytest.mark.contract("Q1", "G8")
def test_gates_that_are_removed_later_do_not_complete_what_they_held_open(bench: Bench) -> None:
    """Field report B23: the list is emptied between two attempts of one operation."""

    def die(step: str, facts: dict[str, Any]) -> None:
        if step == "complete":
            raise Died

    bench.provision()
    with pytest.raises(Died):
        bench.run(notify=die)
    with pytest.raises(DponeError) as raised:
        bench.run(spec=bench.spec(gates=[]), stale_after_ms=0)
    assert raised.value.code.startswith("DPONE_REPLAY_")
    assert bench.record().phase == "COMMITTED"
    assert bench.run(stale_after_ms=0).replayed


@pytest.mark.contract("Q1", "M7")
@pytest.mark.parametrize("kind", GATES)
def test_with_the_selector_an_sql_gate_is_refused_before_anything_is_sent(bench: Bench, kind: str) -> None:
    gate = GateSpec(id="asked", type=kind, severity="warn", threshold=9, sql=GATES[kind][0]["sql"])
    wire = DirectWire()
    (bench.folder / "source.csv").unlink()
    with pytest.raises(DponeError) as raised:
        bench.run(spec=of_python(bench, gate, durable=True), wire=wire)
    assert raised.value.code == "DPONE_ROUTE_UNSUPPORTED"
    assert "quality.gates[0].type" in raised.value.message
    assert not wire.counts


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("severity", ["error", "warn"])
@pytest.mark.parametrize("lost", ["close", "answer"])
def test_a_gate_whose_answer_is_lost_ends_the_load(bench: Bench, lost: str, severity: str) -> None:
    """Field report B7: a lost connection, and an end without columns. Nobody knows, so that nobody publishes."""
    endpoint = endpoint_of(bench.sandbox)
    with TcpProxy(endpoint.native_port) as proxy:
        proxy.rule(lost, match=b"countIf(isNull(", payload=b"\x05")
        error = refused(
            bench,
            plain(bench, type="not_null", sql="id", severity=severity),
            endpoint=attrs.evolve(endpoint, native_port=proxy.port),
        )
    assert (error.code, error.retryable) == ("DPONE_STAGING_FAILED", True)


def test_between_two_gates_the_load_stays_alive_or_is_cancelled(bench: Bench) -> None:
    class Cancelled(Exception):
        pass

    class Asking(DirectWire):
        def send(self, effect: Effect, call: Callable[[], T]) -> T:
            asked.append(effect.what == "ask an SQL gate")
            return super().send(effect, call)

    def check() -> None:
        if sum(asked) == 1:
            raise Cancelled

    asked: list[bool] = []
    gates = [{"id": name, "type": "not_null", "sql": "id"} for name in ("a", "b")]
    with pytest.raises(Cancelled):
        bench.run(spec=bench.spec(durable=False, gates=gates), wire=Asking(), check_cancelled=check)
    assert sum(asked) == 1
    assert (bench.live(), bench.private()) == (None, [])


@pytest.mark.contract("Q5", "X3")
@pytest.mark.parametrize("durable", [True, False])
def test_gates_are_evaluated_once_a_load(bench: Bench, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    evaluate = QualityGateExecution.evaluate

    def counted(self: QualityGateExecution, **facts: Any) -> Any:
        calls.append(facts["boundary"])
        return evaluate(self, **facts)

    monkeypatch.setattr(QualityGateExecution, "evaluate", counted)
    bench.provision()
    bench.run(spec=bench.spec(durable=durable))
    assert calls.count("pre_commit") == 1
    assert set(calls) <= {"pre_commit", "resume_validation"}


def test_the_steps_say_how_the_gates_ended(staging: Staging) -> None:
    gates = [
        {"id": "a", "type": "not_null", "sql": "nothing", "severity": "warn"},
        {"id": "b", "type": "custom_sql", "sql": "SELECT count() FROM {table}", "severity": "warn"},
        {"id": "c", "type": "min_rows", "threshold": 1},
    ]
    staging.stage(staging.bench.spec(durable=False, gates=gates))
    assert dict(staging.steps)["quality_checked"] == {
        "gates": 3,
        "unavailable": 1,
        "passed": 1,
        "failed": 0,
        "warned": 2,
    }
