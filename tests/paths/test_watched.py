"""The rules of a run in front of its stager and drivers: when the policy is compared, what is known (Q6, X7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution, Standing
from dpone_provider.load.finalization import LoadGovernanceFinalizationCoordinator, Watched
from dpone_provider.load.payload import Loaded
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.replay.ports import StagedProof, StagingOrder

GATED = QualityPolicy(gates=(GateSpec(id="rows", type="row_count_reconciliation"),))
NOWHERE: Any = "an order"
COMPARED = {"seal": "pre_commit", "permit": "pre_commit", "publish": "pre_commit", "complete": "post_commit"}


@attrs.define
class Run:
    """One staged run whose stager and driver are values. ``policy``: what the configuration says now."""

    policy: QualityPolicy = GATED
    accepts: bool = True
    rows_read: int = 7
    live: None = None
    happened: list[str] = attrs.field(factory=list)
    told: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    on: Callable[[], None] = attrs.field(default=lambda: None)
    execution: LoadExecution = attrs.field(init=False)
    watched: Watched = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.execution = LoadExecution(run_id="r", load_id="1" * 32, policy_now=lambda: self.policy)
        self.watched = Watched(self.execution, self, self.notify)

    # -- the stager --------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        self.happened.append("admit")

    def stage(self, order: StagingOrder) -> StagedProof:
        assert order is NOWHERE
        self.happened.append("stage")
        return _proof(self.receipt())

    def receipt(self) -> QualityGateReceipt:
        gates = self.execution.begin("1" * 32)
        three = Probe(row_count=3)
        receipt = gates.evaluate(source=three, target=three, boundary="pre_commit")
        if self.accepts:
            gates.accept_payload(receipt, "pre_commit")
        return receipt

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        self.happened.append(step)
        self.told.append((step, facts))
        self.on()


def _proof(receipt: QualityGateReceipt) -> StagedProof:
    return StagedProof(
        rows=3,
        source_probe={},
        target_probe={},
        report={},
        acceptance={},
        effective_plan={},
        desired={},
        receipt=receipt,
    )


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(("step", "boundary"), COMPARED.items())
def test_before_what_cannot_be_undone_the_policy_is_compared(step: str, boundary: str) -> None:
    run = Run()
    run.watched.told(step, {})
    run.policy = QualityPolicy()
    with pytest.raises(DponeError) as raised:
        run.watched.told(step, {})
    assert (raised.value.code, raised.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert run.happened == [step], "what must not be done is not announced"


@pytest.mark.contract("Q6")
@pytest.mark.parametrize("step", ["claim", "claimed", "committed", "observe", "stage", "fence", "released"])
def test_at_every_other_step_nothing_is_compared(step: str) -> None:
    run = Run()
    run.policy = QualityPolicy()
    run.watched.told(step, {"phase": "CLAIMED"})
    assert run.happened == [step]


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("step", COMPARED)
def test_what_was_staged_must_be_accepted_before_it_is_switched(step: str) -> None:
    run = Run(accepts=False)
    run.watched.stage(NOWHERE)
    with pytest.raises(DponeError) as raised:
        run.watched.told(step, {})
    assert raised.value.code == "DPONE_QUALITY_GATE_RECEIPT_INVALID"
    assert run.happened == ["stage"]


@pytest.mark.contract("Q4")
@pytest.mark.parametrize("step", COMPARED)
def test_what_was_staged_and_accepted_may_be_switched(step: str) -> None:
    run = Run()
    proof = run.watched.stage(NOWHERE)
    assert run.watched.proof is proof
    run.watched.told(step, {"replica": "single"})
    assert run.told == [(step, {"replica": "single"})]


@pytest.mark.contract("Q6")
def test_under_another_policy_nothing_is_staged() -> None:
    run = Run()
    run.policy = QualityPolicy()
    with pytest.raises(DponeError) as raised:
        run.watched.stage(NOWHERE)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", "pre_commit")
    assert (run.happened, run.watched.proof) == ([], None)


def test_the_target_is_admitted_by_the_stager() -> None:
    run = Run()
    run.watched.admit()
    assert run.happened == ["admit"]


# -- where the target stands -----------------------------------------------------------------------------------------


@pytest.mark.contract("X7", "P7")
@pytest.mark.parametrize(
    ("phase", "target"),
    [
        ("CLAIMED", "not_mutated"),
        ("PREPARED", "not_mutated"),
        ("DISPATCHING", "unknown"),
        ("COMMITTED", "mutation_returned_success"),
        ("COMPLETE", "mutation_returned_success"),
    ],
)
def test_a_claim_says_where_an_earlier_attempt_left_the_target(phase: str, target: str) -> None:
    run = Run()
    run.execution.standing.target = "unknown"
    run.watched.told("claimed", {"phase": phase, "epoch": 2})
    assert run.execution.standing == Standing(target=target)  # type: ignore[arg-type]
    assert run.execution.recorded() == []


@pytest.mark.contract("X7")
def test_a_switch_that_is_about_to_be_sent_leaves_the_target_unknown() -> None:
    run = Run()
    run.watched.told("publish", {})
    assert run.execution.standing == Standing(target="unknown")
    assert run.execution.recorded() == []


@pytest.mark.contract("X7", "X9")
def test_a_proven_switch_is_a_step_of_the_load() -> None:
    run = Run()
    run.watched.told("committed", {})
    assert run.execution.standing == Standing(target="mutation_returned_success")
    assert run.execution.recorded() == [{"step": "finalized", "target_commit": "proven"}]


@pytest.mark.contract("X3")
def test_an_observation_is_remembered() -> None:
    run = Run()
    assert run.watched.observed is False
    run.watched.told("complete", {})
    assert run.watched.observed is False
    run.watched.told("observe", {})
    assert run.watched.observed is True
    assert run.execution.standing == Standing()


@pytest.mark.contract("X7")
@pytest.mark.parametrize("step", ["seal", "permit", "complete", "fence", "observe", "claim"])
def test_no_other_step_says_anything_of_the_target(step: str) -> None:
    run = Run()
    run.watched.told(step, {})
    assert (run.execution.standing, run.execution.recorded()) == (Standing(), [])


@pytest.mark.contract("X7")
@pytest.mark.parametrize("step", ["publish", "committed"])
def test_a_step_is_told_before_anything_is_known_of_it(step: str) -> None:
    """Whoever is told may forbid it: then nothing was sent."""
    run = Run()
    standings: list[str] = []
    run.on = lambda: standings.append(run.execution.standing.target)
    run.watched.told(step, {})
    assert standings == ["not_mutated"]


# -- the coordinator -------------------------------------------------------------------------------------------------


@attrs.define
class Driver:
    """A route that remembers whom it was given."""

    error: Exception | None = None
    given: list[Watched] = attrs.field(factory=list)
    loaded: Any = "what was loaded"

    def admit(self, watched: Watched) -> None:
        self.given.append(watched)
        watched.told("claim", {"of": "the driver"})

    def run(self, watched: Watched) -> Loaded:
        self.given.append(watched)
        if self.error is not None:
            raise self.error
        loaded: Loaded = self.loaded
        return loaded

    def facts(self) -> dict[str, Any]:
        return {"attempts": 5}


def coordinator(run: Run, driver: Driver) -> LoadGovernanceFinalizationCoordinator:
    def stager(execution: LoadExecution) -> Run:
        assert execution is run.execution
        return run

    return LoadGovernanceFinalizationCoordinator(stager, driver, run.notify)


def test_admission_and_load_have_one_watch() -> None:
    run, driver = Run(), Driver()
    made = coordinator(run, driver)
    made.admit(run.execution)
    assert made.load(run.execution) == "what was loaded"
    first, second = driver.given
    assert first is second
    assert (first.execution, first.staging) == (run.execution, run)
    assert run.told == [("claim", {"of": "the driver"})]
    assert run.execution.standing.extracted_rows == 7
    assert made.facts() == {"attempts": 5}


@pytest.mark.contract("O4")
def test_a_failed_load_knows_what_was_read() -> None:
    run, driver = Run(), Driver(error=DponeError("DPONE_SOURCE_FAILED"))
    made = coordinator(run, driver)
    made.admit(run.execution)
    with pytest.raises(DponeError):
        made.load(run.execution)
    assert run.execution.standing.extracted_rows == 7


def test_a_run_that_was_not_admitted_is_refused() -> None:
    run, driver = Run(), Driver()
    made = coordinator(run, driver)
    with pytest.raises(LookupError, match=r"^another run was admitted$"):
        made.load(run.execution)
    made.admit(run.execution)
    with pytest.raises(LookupError, match=r"^another run was admitted$"):
        made.load(Run().execution)
    assert len(driver.given) == 1
