"""An attempt by a route of a staged load, over replicas that are values, under the real rules of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.finalization import Route, Watched
from dpone_provider.load.plain import PlainRefresh
from dpone_provider.load.routes import DurableRoute, PlainRoute
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.verdicts import Probe
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.ports import StagedProof, StagingOrder
from tests.crash.wire import Died
from tests.replay.records import operation
from tests.replicas.world import POLICY, Attempt, Catalog, Publisher, Staging

LOAD = "1" * 32
REPLICAS = ("ch-1", "ch-2")
LIVE_TARGET = MetricRequest(side="target", dataset="demo.flights", columns=("id",), row_count=True)
OTHER = QualityPolicy(gates=(GateSpec(id="rows", type="row_count_reconciliation"),))
ORDER = ("CLAIMED", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE")


@attrs.define(eq=False, kw_only=True)
class Routed(Attempt):
    """An attempt by a route, under the rules of its run."""

    make: Callable[[Routed], Route]
    live: MetricRequest | None = None
    keeps: bool = False
    read: int = 3
    acceptance: Mapping[str, Any] = attrs.field(factory=dict)
    on: dict[str, Callable[[], None]] = attrs.field(factory=dict)
    policy: QualityPolicy = POLICY
    told: list[str] = attrs.field(factory=list)
    facts: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    order: StagingOrder | None = None
    error: DponeError | None = None
    loaded: Any = None
    route: Any = None
    execution: LoadExecution = attrs.field(init=False)
    watched: Watched = attrs.field(init=False)

    def _run(self) -> None:
        self.execution = LoadExecution(run_id=self.run_id, load_id=LOAD, policy_now=lambda: self.policy)
        self.watched = Watched(self.execution, Accepted(self), self.notify)
        self.route = self.make(self)
        try:
            self.route.admit(self.watched)
            self.loaded = self.route.run(self.watched)
            self.result = "success"
        except Died:
            self.result = "died"
        except DponeError as error:
            self.error, self.result = error, error.code

    def notify(self, step: str, facts: Mapping[str, Any]) -> None:
        self.told.append(step)
        self.facts[step] = facts
        if step in self.on:
            self.on[step]()

    def look(self) -> None:
        """For a cancellation."""
        self.on.get("look", lambda: None)()

    def to_its_end(self) -> Routed:
        """Every effect is applied and told."""
        for _ in range(200):
            if self.result:
                return self
            self.step("go")
        raise AssertionError("it never ends")

    def before(self, step: str) -> Routed:
        """Up to the effect that follows a step."""
        while step not in self.told and not self.result:
            self.step("go")
        return self


@attrs.frozen
class Accepted(Staging):
    """Stages with the run's own gates, and accepts their receipt."""

    attempt: Routed

    @property
    def rows_read(self) -> int:
        return self.attempt.read

    @property
    def live(self) -> MetricRequest | None:
        return self.attempt.live

    def admit(self) -> None:
        self.attempt.told.append("admit")

    def stage(self, order: StagingOrder) -> StagedProof:
        self.attempt.order = order
        proof = super().stage(order)
        self.attempt.on.get("staged", lambda: None)()
        gates = self.attempt.execution.begin(order.load_id)
        three = Probe(row_count=3)
        receipt = gates.evaluate(source=three, target=three, boundary="pre_commit")
        gates.accept_payload(receipt, "pre_commit")
        return attrs.evolve(proof, receipt=receipt, acceptance=self.attempt.acceptance)


def durable(attempt: Routed) -> Route:
    made = operation(attempt.run_id)
    return DurableRoute(lambda notify: attempt.world.session(attempt, notify), made.operation_id)


def plain(attempt: Routed) -> Route:
    world, made = attempt.world, operation(attempt.run_id)
    catalog, publisher = Catalog(attempt), Publisher(attempt)

    def refresh(notify: Any, load_id: str) -> PlainRefresh:
        return PlainRefresh(
            made,
            REPLICAS[0],
            Cleaner(operation=made, catalog=catalog, publisher=publisher, new_id=world.new_id),
            publisher,
            load_id=load_id,
            new_id=world.new_id,
            new_uuid=world.new_uuid,
            notify=notify,
            check_cancelled=attempt.look,
            keep_previous=attempt.keeps,
        )

    def observe(request: MetricRequest) -> StagedMetrics:
        assert request is LIVE_TARGET
        attempt.notify("count", {})
        return StagedMetrics(row_count=9)

    def keep() -> None:
        attempt.notify("keep", {})

    return PlainRoute(refresh, observe, keep)


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act
