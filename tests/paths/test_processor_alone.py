"""The processor and the payload service over a path that is a value: their order, what they trust, what they say.

(Q4, Q5, Q6, X3, X4, X7)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.known import REPEATS
from dpone_provider.load.outcome import Attempt, LoadOutcome, RunIdentity
from dpone_provider.load.payload import Loaded, Mark, PayloadLoadService
from dpone_provider.load.processor import ETLProcessor
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.acceptance_policy import AcceptanceMetricPolicy
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.traces import LoadStep, SourceState
from tests.paths.values import ROWS

LOAD = "1" * 32
IDENTITY = RunIdentity(dag_id="dag", run_id="r", task_id="add")
BEFORE = SourceState(key="k", value="number:3", load_id="4" * 32, version=6, write_id="5" * 32)
MARK = Mark(key="k", expected=BEFORE, value="number:5")
ATTEMPT = Attempt(number=1, epoch=0, phases=("APPENDED",), source_reads=1, rows=3, publications=0)
SCOPE: Any = "the partitions of the counts"
IN_ORDER = [
    "ask for an id",
    "admit",
    f"look for the log of {LOAD}",
    "look for a cancellation",
    "tell hook pre",
    "run pre SELECT 1, SELECT 2",
    "note hook_run",
    "note hook_run",
    "load",
    "look for a cancellation",
    "tell advance",
    "advance",
    "note state_advanced",
    "look for a cancellation",
    "tell hook post",
    "run post SELECT 3",
    "note hook_run",
]


@attrs.define(kw_only=True)
class Run:
    """One run whose path, store, hooks and log are values. ``on``: what else happens right before something does."""

    spec: LoadSpec
    boundary: Any = "post_commit"
    sides: Sequence[str] = ("source", "target")
    mark: Mark | None = None
    target: Any = "mutation_returned_success"
    receipts: bool = True
    resumed: bool = False
    accepts: bool = True
    happened: list[str] = attrs.field(factory=list)
    told: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    on: dict[str, Callable[[], Any]] = attrs.field(factory=dict)
    execution: LoadExecution | None = None
    policy: QualityPolicy = attrs.field(init=False)
    without: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        self.policy = self.spec.quality

    def does(self, what: str) -> None:
        self.happened.append(what)
        if what in self.on:
            self.on[what]()

    # -- the path ----------------------------------------------------------------------------------------------------

    def admit(self, execution: LoadExecution | None = None) -> None:
        """Of the path."""
        self.does("admit")
        self.execution = execution
        if execution is not None:
            execution.standing.resumed = self.resumed

    def load(self, execution: LoadExecution) -> Loaded:
        assert execution is self.execution
        execution.standing.target = self.target
        receipt = self._receipt(execution) if self.receipts else None
        self.does("load")
        return Loaded(
            receipt=receipt,
            load_id="2" * 32,
            gates={"gates": "as they are"},
            acceptance={"source": {}},
            extracted_rows=3,
            inserted_rows=4,
            final_rows=5,
            generation="g",
            attempts=(ATTEMPT,),
            replayed=True,
            quality_replay={"a": "replay"},
            leftovers=("left",),
            finalization="by hand",
            mark=self.mark,
            scope=SCOPE,
        )

    def _receipt(self, execution: LoadExecution) -> QualityGateReceipt:
        gates = execution.begin(execution.load_id)
        three = Probe(row_count=3)
        receipt = gates.evaluate(source=three, target=three, boundary=self.boundary)
        if self.accepts:
            gates.accept_payload(receipt, self.boundary)
        return receipt

    def facts(self) -> Mapping[str, Any]:
        return {"attempts": 5}

    # -- store, hooks, log -------------------------------------------------------------------------------------------

    def read(self, key: str) -> SourceState | None:
        raise AssertionError("the path reads the mark")

    def advance(self, key: str, expected: SourceState | None, value: str, load_id: str) -> SourceState:
        assert (key, expected, value, load_id) == ("k", BEFORE, "number:5", "2" * 32)
        self.does("advance")
        return SourceState(key=key, value=value, load_id=load_id, version=7, write_id="3" * 32)

    def run(self, statements: Sequence[str], when: str) -> None:
        self.does(f"run {when} {', '.join(statements)}")

    def record(self, step: LoadStep) -> None:
        self.does(f"note {step.step}")

    # -- the run -----------------------------------------------------------------------------------------------------

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        self.told.append((step, facts))
        self.does(" ".join(["tell", step, *facts.values()]))

    def new_id(self) -> str:
        self.does("ask for an id")
        return LOAD

    def log_of(self, load_id: str) -> Run | None:
        self.does(f"look for the log of {load_id}")
        return self

    def processor(self) -> ETLProcessor:
        mode = self.spec.sink.strategy.mode
        given: dict[str, Any] = {name: self for name in ("hooks", "states") if name not in self.without}
        return ETLProcessor(
            spec=self.spec,
            identity=IDENTITY,
            operation_id="operation",
            service=PayloadLoadService(mode, staged=lambda: self, direct=lambda: self),
            policy_now=lambda: self.policy,
            check_cancelled=lambda: self.does("look for a cancellation"),
            notify=self.notify,
            new_id=self.new_id,
            log_of=self.log_of,
            **given,
        )

    def outcome(self) -> LoadOutcome:
        return self.processor().run()

    def fails(self) -> DponeError:
        with pytest.raises(DponeError) as raised:
            self.outcome()
        return raised.value


def spec_of(mode: str = "append", *, acceptance: Any = None, **sink: Any) -> LoadSpec:
    place = {"type": "clickhouse", "connection_ref": "sink", "table": {"schema": "d", "name": "t"}}
    return spec_from_values(
        name="add",
        source={"type": "file", "format": "csv", "path": "source.csv"},
        sink={**place, "strategy": {"mode": mode}, **sink},
        quality={"gates": list(ROWS), **({"acceptance": acceptance} if acceptance else {})},
        base="/nowhere",
    )


def hooked() -> LoadSpec:
    return spec_of(pre_sql=["SELECT 1", "SELECT 2"], post_sql=["SELECT 3"])


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X3", "X4", "X9")
def test_everything_of_a_run_happens_in_one_order() -> None:
    run = Run(spec=hooked(), mark=MARK)
    outcome = run.outcome()
    assert run.happened == IN_ORDER
    assert run.told == [("hook", {"when": "pre"}), ("advance", {}), ("hook", {"when": "post"})]
    assert list(outcome.load_steps) == [
        {"step": "hook_run", "number": 1, "when": "pre"},
        {"step": "hook_run", "number": 2, "when": "pre"},
        {"step": "state_advanced", "version": 7},
        {"step": "hook_run", "number": 1, "when": "post"},
    ]


@pytest.mark.contract("N4")
def test_a_resume_runs_no_hook_before_it_and_those_after_it() -> None:
    run = Run(spec=hooked())
    run.on["admit"] = lambda: setattr(run, "resumed", True)
    run.outcome()
    assert [what for what in run.happened if what.startswith("run")] == ["run post SELECT 3"]


@pytest.mark.contract("X4")
def test_what_a_load_has_not_is_not_done() -> None:
    run = Run(spec=spec_of(), without=frozenset({"hooks", "states"}))
    run.outcome()
    assert run.happened == ["ask for an id", "admit", f"look for the log of {LOAD}", "load"]


@pytest.mark.contract("O2")
@pytest.mark.parametrize("durable", [False, True])
def test_an_outcome_says_what_the_path_said(durable: bool) -> None:
    spec = spec_of("full_refresh")
    strategy = attrs.evolve(spec.sink.strategy, max_source_bytes=1000)
    sink = attrs.evolve(spec.sink, durable_quality_replay=durable, strategy=strategy)
    spec = attrs.evolve(spec, sink=sink)
    run = Run(spec=spec, boundary="pre_commit")
    assert run.outcome() == LoadOutcome(
        spec=spec,
        identity=IDENTITY,
        durable=durable,
        replayed=True,
        target_commit="proven",
        extracted_rows=3,
        inserted_rows=4,
        final_rows=5,
        duration_seconds=0.0,
        generation="g",
        gates={"gates": "as they are"},
        acceptance={"source": {}},
        attempts=(ATTEMPT,),
        operation_id="operation",
        load_id="2" * 32,
        quality_replay={"a": "replay"},
        leftovers=("left",),
        finalization="by hand",
        load_steps=[],
        scope=SCOPE,
    )


def test_a_load_of_a_log_that_is_not_there_is_recorded_in_the_outcome_alone() -> None:
    run = Run(spec=hooked())
    processor = attrs.evolve(run.processor(), log_of=lambda load_id: None)
    assert len(processor.run().load_steps) == 3
    assert "note hook_run" not in run.happened


def test_the_run_is_known_to_the_receipt() -> None:
    run = Run(spec=spec_of())
    receipts: list[QualityGateReceipt] = []
    issue = run._receipt

    def remembered(execution: LoadExecution) -> QualityGateReceipt:
        receipts.append(issue(execution))
        return receipts[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "_receipt", lambda self, execution: remembered(execution))
        run.outcome()
    assert (receipts[0].run_id, receipts[0].load_id) == ("r", LOAD)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("M7", "X1")
def test_a_spec_that_no_route_admits_is_refused_before_anything() -> None:
    spec = spec_of()
    run = Run(spec=attrs.evolve(spec, sink=attrs.evolve(spec.sink, durable_quality_replay=True)))
    error = run.fails()
    assert (error.code, error.boundary) == ("DPONE_ROUTE_UNSUPPORTED", "authoring")
    assert run.happened == ["ask for an id"]


@pytest.mark.contract("Q6")
def test_another_policy_than_the_spec_s_is_refused_at_admission() -> None:
    run = Run(spec=spec_of())
    run.policy = QualityPolicy()
    error = run.fails()
    assert (error.code, error.boundary, error.target_commit) == (
        "DPONE_QUALITY_POLICY_DRIFT",
        "admission",
        "not_started",
    )
    assert run.happened == ["ask for an id"]


@pytest.mark.contract("X5")
@pytest.mark.parametrize(
    ("mode", "missing", "code"),
    [
        ("append", "target", "target_acceptance_metric_probe_unavailable"),
        ("full_refresh", "staged", "staged_acceptance_metric_unavailable"),
    ],
)
def test_a_required_side_that_the_path_lacks_is_refused_unseen(mode: str, missing: str, code: str) -> None:
    policy = QualityPolicy(acceptance=AcceptanceMetricPolicy(enabled=True, mode="required", staged=missing == "staged"))
    run = Run(spec=spec_of(mode), sides=[side for side in ("source", "staged", "target") if side != missing])
    run.policy = policy
    service = run.processor().service
    with pytest.raises(DponeError) as raised:
        service.admit(LoadExecution(run_id="r", load_id=LOAD, policy_now=lambda: policy))
    error = raised.value
    assert error.code == "DPONE_ACCEPTANCE_UNAVAILABLE"
    assert error.message == f"Acceptance of {missing}: It cannot be observed on this path. ({code})"
    assert error.context == {"acceptance_side": missing, "error_code": code}
    assert run.happened == []


@pytest.mark.contract("X5")
@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_a_side_that_is_there_or_only_warned_about_is_left_to_the_path(mode: Any) -> None:
    policy = QualityPolicy(acceptance=AcceptanceMetricPolicy(enabled=True, mode=mode))
    run = Run(spec=spec_of(), sides=("source", "staged", "target") if mode == "required" else ())
    run.processor().service.admit(LoadExecution(run_id="r", load_id=LOAD, policy_now=lambda: policy))
    assert run.happened == ["admit"]
    assert run.execution is not None


@pytest.mark.contract("X4")
@pytest.mark.parametrize(("mode", "path"), [("append", "direct"), ("full_refresh", "staged"), ("", "staged")])
def test_only_the_path_that_is_needed_is_made(mode: str, path: str) -> None:
    made: list[str] = []

    def making(name: str) -> Callable[[], Any]:
        def make() -> str:
            made.append(name)
            return name

        return make

    assert PayloadLoadService(mode, staged=making("staged"), direct=making("direct")).path == path
    assert made == [path]


@pytest.mark.parametrize(
    ("without", "message"),
    [("hooks", "^hooks need a runner$"), ("states", "^a cursor needs a store of source states$")],
)
def test_a_spec_needs_what_it_asks_for(without: str, message: str) -> None:
    run = Run(spec=hooked() if without == "hooks" else spec_of(), mark=MARK, without=frozenset({without}))
    with pytest.raises(LookupError, match=message):
        run.outcome()


# -- what is trusted -------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q4", "X7")
@pytest.mark.parametrize(("receipts", "code"), [(False, "REQUIRED"), (True, "INVALID")])
def test_a_payload_without_an_accepted_receipt_moves_nothing(receipts: bool, code: str) -> None:
    run = Run(spec=hooked(), mark=MARK, receipts=receipts, accepts=False)
    error = run.fails()
    assert error.code == f"DPONE_QUALITY_GATE_RECEIPT_{code}"
    assert run.happened[-2:] == ["load", "note load_governance_failed"]


@pytest.mark.contract("Q5")
def test_a_receipt_of_another_boundary_moves_nothing() -> None:
    run = Run(spec=spec_of(), mark=MARK)
    run.on["load"] = lambda: setattr(run, "boundary", "pre_commit")
    assert run.fails().code == "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"
    assert "advance" not in run.happened


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(("target", "boundary"), [("not_mutated", "pre_commit"), ("unknown", "post_commit")])
def test_a_policy_that_changed_while_it_was_loaded_moves_no_mark(target: str, boundary: str) -> None:
    run = Run(spec=spec_of(), mark=MARK, target=target)
    run.on["load"] = lambda: setattr(run, "policy", QualityPolicy())
    error = run.fails()
    assert (error.code, error.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert "advance" not in run.happened


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(("target", "boundary"), [("not_mutated", "pre_commit"), ("unknown", "post_commit")])
def test_the_service_says_where_its_drift_stands(target: Any, boundary: str) -> None:
    run = Run(spec=spec_of(), target=target)
    execution = LoadExecution(run_id="r", load_id=LOAD, policy_now=lambda: run.policy)
    run.execution = execution
    run.on["load"] = lambda: setattr(run, "policy", QualityPolicy())
    with pytest.raises(DponeError) as raised:
        run.processor().service.load(execution)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(("target", "boundary"), [("not_mutated", "pre_commit"), ("unknown", "post_commit")])
def test_the_policy_is_compared_once_more_before_the_state_is_accepted(target: str, boundary: str) -> None:
    """The service compares it too; between the two nothing may slip through."""
    run = Run(spec=spec_of(), mark=MARK, target=target)
    load = PayloadLoadService.load

    def drifts(self: PayloadLoadService, execution: LoadExecution) -> Loaded:
        loaded = load(self, execution)
        run.policy = QualityPolicy()
        return loaded

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PayloadLoadService, "load", drifts)
        error = run.fails()
    assert (error.code, error.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert "advance" not in run.happened


@pytest.mark.contract("Q4")
def test_the_state_is_accepted_before_the_mark_moves() -> None:
    run = Run(spec=spec_of(), mark=MARK)
    states: list[str] = []

    def look() -> None:
        assert run.execution is not None
        assert run.execution._gates is not None
        states.append(run.execution._gates.state)

    run.on |= {"load": look, "advance": look}
    run.outcome()
    assert states == ["PAYLOAD_ACCEPTED", "STATE_ACCEPTED"]


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize(("mode", "adds"), [("append", True), ("full_refresh", False)])
def test_a_failure_says_what_the_run_and_the_path_know(mode: str, adds: bool) -> None:
    run = Run(spec=spec_of(mode), boundary="post_commit" if adds else "pre_commit")
    run.on["load"] = raises(DponeError("DPONE_SOURCE_FAILED", context={"error_code": "lost", "mine": 1}))
    error = run.fails()
    assert (error.code, error.boundary, error.target_commit) == ("DPONE_SOURCE_FAILED", "post_commit", "proven")
    assert error.retryable is (not adds)
    assert (REPEATS in error.next_step) is adds
    assert error.context == {
        "attempts": 5,
        "counters": {"extracted_rows": 0, "inserted_rows": 0, "final_rows": None},
        "failure_context": {
            "failure_boundary": "post_commit",
            "target_state": "mutation_returned_success",
            "checkpoint_state": "not_applicable",
            "source_state": "not_advanced",
            "retry_classification": "retry_may_repeat_target_mutation",
        },
        "evidence": {
            "load_steps": [{"step": "load_governance_failed", "error_code": "lost", "failure_boundary": "post_commit"}]
        },
        "error_code": "lost",
        "mine": 1,
    }


@pytest.mark.contract("X7")
def test_an_outcome_that_cannot_be_made_is_explained_as_well() -> None:
    run = Run(spec=spec_of())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ETLProcessor, "_outcome", lambda self, execution, loaded: raises(DponeError("DPONE_CANCELLED"))()
        )
        error = run.fails()
    assert error.context["attempts"] == 5
    assert error.target_commit == "proven"


@pytest.mark.contract("X3", "X7")
@pytest.mark.parametrize(
    ("seen", "state"),
    [("conflict", "not_advanced"), ("refused", "not_advanced"), ("unknown", "unknown"), (None, "unknown")],
)
def test_a_mark_that_could_not_be_moved_is_said_to_stand_where_it_surely_stands(seen: str | None, state: str) -> None:
    run = Run(spec=hooked(), mark=MARK)
    context = {"source_state": seen} if seen is not None else {}
    run.on["advance"] = raises(DponeError("DPONE_SOURCE_STATE_UNCERTAIN", context=context))
    error = run.fails()
    assert error.context["failure_context"]["source_state"] == state
    assert run.happened[-2:] == ["advance", "note load_governance_failed"]


@pytest.mark.contract("X3", "X7")
def test_a_mark_that_has_moved_is_said_to_whatever_fails_then() -> None:
    run = Run(spec=hooked(), mark=MARK)
    run.on["run post SELECT 3"] = raises(DponeError("DPONE_HOOK_FAILED"))
    error = run.fails()
    assert error.context["failure_context"]["source_state"] == "advanced"
    assert REPEATS not in error.next_step
    assert [step["step"] for step in error.context["evidence"]["load_steps"]][-2:] == [
        "state_advanced",
        "load_governance_failed",
    ]


@pytest.mark.contract("F4")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_cancellation_ends_the_run_before_its_next_effect(number: int) -> None:
    run = Run(spec=hooked(), mark=MARK)

    def cancelled() -> None:
        if run.happened.count("look for a cancellation") == number + 1:
            raise DponeError("DPONE_CANCELLED")

    run.on["look for a cancellation"] = cancelled
    assert run.fails().code == "DPONE_CANCELLED"
    at = [index for index, what in enumerate(IN_ORDER) if what == "look for a cancellation"][number]
    assert run.happened == [*IN_ORDER[: at + 1], "note load_governance_failed"][: at + 2]
