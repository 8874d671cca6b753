"""The two drivers of a staged load, over replicas that are values, under the real rules of a run (Q4, Q6, X3, X7, O3).

The session, the plain refresh and their machines are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load import outcome
from dpone_provider.load.execution import LoadExecution, Standing
from dpone_provider.load.finalization import Watched
from dpone_provider.load.payload import Loaded
from dpone_provider.load.routes import DurableRoute, PlainRoute
from dpone_provider.wire import StatementFailed
from tests.paths.routed import LIVE_TARGET, LOAD, ORDER, OTHER, REPLICAS, Accepted, Routed, durable, plain, raises
from tests.replay.records import operation
from tests.replicas.world import LIVE, POLICY, Publisher, World


@pytest.fixture
def world() -> World:
    """Two replicas with a table that is live."""
    made = World(replicas=REPLICAS)
    for replica in REPLICAS:
        made.tables[replica][LIVE] = (made.new_uuid(), "")
    made.look()
    return made


@pytest.fixture
def undroppable(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Publisher, replica: str, name: str) -> None:
        raise StatementFailed(241)

    monkeypatch.setattr(Publisher, "drop", drop)


# -- with the authority ----------------------------------------------------------------------------------------------


@pytest.mark.contract("O3", "X7", "X9")
def test_a_durable_load_says_what_its_session_proved(world: World) -> None:
    run = Routed("r1", world, make=durable).to_its_end()
    assert run.result == "success"
    assert run.watched.proof is not None
    assert run.order is not None
    assert run.loaded == Loaded(
        receipt=run.watched.proof.receipt,
        load_id=run.order.load_id,
        gates=run.watched.proof.report,
        acceptance={"source": None, "staged": None},
        extracted_rows=3,
        inserted_rows=3,
        final_rows=3,
        generation=run.order.uuid,
        attempts=(outcome.Attempt(number=1, epoch=1, phases=ORDER, source_reads=1, rows=3, publications=2),),
        quality_replay=run.loaded.quality_replay,
    )
    assert run.loaded.quality_replay["replayed_from"] == {"run_id": "r1", "load_id": run.order.load_id}
    assert run.execution.standing == Standing(target="mutation_returned_success")
    assert run.execution.recorded() == [{"step": "finalized", "target_commit": "proven"}]
    run.execution.accept_state(run.loaded.receipt)


@pytest.mark.contract("G5", "P7", "X7")
def test_a_replay_brings_the_original_proof_and_reads_nothing(world: World) -> None:
    first = Routed("r1", world, make=durable).to_its_end()
    again = Routed("r1", world, make=durable).to_its_end()
    assert again.result == "success"
    assert (again.order, again.watched.proof) == (None, None)
    loaded = again.loaded
    assert (loaded.replayed, loaded.load_id, loaded.generation) == (True, first.order.load_id, first.order.uuid)  # type: ignore[union-attr]
    assert (loaded.extracted_rows, loaded.inserted_rows, loaded.final_rows) == (0, 0, 3)
    assert [attempt.number for attempt in loaded.attempts] == [1, 2]
    assert (loaded.gates, loaded.acceptance) == (first.loaded.gates, first.loaded.acceptance)
    assert loaded.receipt.boundary == "resume_validation"
    again.execution.require_accepted(loaded.receipt, "pre_commit")
    assert again.execution.standing == Standing(target="mutation_returned_success")
    assert again.execution.recorded() == []


@pytest.mark.contract("P3", "P7", "X7")
def test_a_permit_that_a_dead_attempt_left_makes_the_target_unknown_until_it_is_proven(world: World) -> None:
    dead = Routed("r1", world, make=durable).before("publish")
    dead.step("die_after")
    assert dead.result == "died"
    assert dead.execution.standing.target == "unknown"
    next_one = Routed("r1", world, make=durable).before("claimed")
    assert next_one.execution.standing.target == "unknown"
    next_one.to_its_end()
    assert next_one.loaded.replayed is True
    assert next_one.execution.standing.target == "mutation_returned_success"
    assert next_one.execution.recorded() == [{"step": "finalized", "target_commit": "proven"}]


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(
    ("step", "boundary"),
    [("claimed", "pre_commit"), ("stage", "pre_commit"), ("permit", "pre_commit"), ("committed", "post_commit")],
)
def test_another_policy_ends_a_durable_load_where_it_is_compared_next(world: World, step: str, boundary: str) -> None:
    before = world.tables[REPLICAS[0]][LIVE]
    run = Routed("r1", world, make=durable)
    run.on[step] = lambda: setattr(run, "policy", OTHER)
    run.to_its_end()
    assert run.error is not None
    assert (run.error.code, run.error.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert (world.tables[REPLICAS[0]][LIVE] == before) is (boundary == "pre_commit")


@pytest.mark.contract("O4", "X7")
def test_a_failed_durable_load_has_the_counters_and_ids_of_its_session(world: World) -> None:
    run = Routed("r1", world, make=durable, read=5)
    run.on["publish"] = raises(DponeError("DPONE_CANCELLED"))
    run.to_its_end()
    assert run.order is not None
    assert run.route.facts() == {
        "attempts": 1,
        "counters": {"extracted_rows": 5, "inserted_rows": 3},
        "replay_details": {
            "current_load_id": run.order.load_id,
            "quality_state": "DISPATCHING",
            "original_run_id": "r1",
            "original_load_id": run.order.load_id,
        },
    }
    again = Routed("r1", world, make=durable, read=0)
    again.on["publish"] = raises(DponeError("DPONE_CANCELLED"))
    again.to_its_end()
    assert again.route.facts()["attempts"] == 2
    assert again.route.facts()["counters"] == {"extracted_rows": 0, "inserted_rows": 0}


@pytest.mark.contract("O4")
def test_before_its_admission_a_durable_load_knows_nothing() -> None:
    def session(notify: Any) -> Any:
        raise DponeError("DPONE_REPLAY_AUTHORITY_UNSUPPORTED")

    route = DurableRoute(session, "operation")
    assert route.facts() == {"attempts": 1, "replay_details": {}}
    staging: Any = None
    execution = LoadExecution(run_id="r1", load_id=LOAD, policy_now=lambda: POLICY)
    watched = Watched(execution, staging, lambda step, facts: None)
    with pytest.raises(DponeError):
        route.admit(watched)
    assert route.facts() == {"attempts": 1, "replay_details": {}}
    with pytest.raises(LookupError, match=r"^not admitted$"):
        route.run(watched)


@pytest.mark.contract("X9")
def test_an_observed_target_is_a_step_of_the_load(world: World) -> None:
    run = Routed("r1", world, make=durable)
    run.on["claimed"] = lambda: setattr(run.watched, "observed", True)
    run.to_its_end()
    assert run.execution.recorded()[-1] == {"step": "target_metrics_captured"}


@pytest.mark.contract("X7")
def test_what_a_durable_load_could_not_drop_is_listed(world: World, undroppable: None) -> None:
    candidate, foreign = operation("r1").candidate(1), operation("r1").candidate(2)
    world.tables[REPLICAS[1]][foreign] = (world.new_uuid(), "somebody else's")
    run = Routed("r1", world, make=durable).to_its_end()
    assert run.result == "success"
    assert run.loaded.leftovers == (candidate, candidate, foreign)


# -- without it ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X3", "X7", "X9")
def test_a_plain_load_says_what_it_published_and_counts_where_it_is_live(world: World) -> None:
    run = Routed("r1", world, make=plain, live=LIVE_TARGET, acceptance={"source": {"row_count": 3}}).to_its_end()
    assert run.result == "success"
    assert run.watched.proof is not None
    assert run.order is not None
    assert {side: shot["row_count"] for side, shot in run.loaded.acceptance.items()} == {"source": 3, "target": 9}
    assert attrs.evolve(run.loaded, acceptance={}) == Loaded(
        receipt=run.watched.proof.receipt,
        load_id=LOAD,
        gates=run.watched.proof.report,
        acceptance={},
        extracted_rows=3,
        inserted_rows=3,
        final_rows=3,
        generation=run.order.uuid,
        attempts=(outcome.Attempt(number=1, epoch=0, phases=("PUBLISHED",), source_reads=1, rows=3, publications=1),),
    )
    assert run.told == ["admit", "stage", "publish", "keep", "count"]
    assert run.execution.standing == Standing(
        target="mutation_returned_success", extracted_rows=0, inserted_rows=3, final_rows=3
    )
    assert run.execution.recorded() == [
        {"step": "finalized", "rows": 3, "target_commit": "proven"},
        {"step": "target_metrics_captured", "row_count": 9},
    ]
    assert world.tables[REPLICAS[0]][LIVE][0] == run.order.uuid
    assert run.route.facts() == {}


@pytest.mark.contract("X3")
def test_a_plain_load_counts_nothing_that_nobody_asked_for(world: World) -> None:
    run = Routed("r1", world, make=plain, acceptance={"source": {"row_count": 3}}).to_its_end()
    assert run.told == ["admit", "stage", "publish", "keep"]
    assert run.loaded.acceptance == {"source": {"row_count": 3}}
    assert [step["step"] for step in run.execution.recorded()] == ["finalized"]


@pytest.mark.contract("Q6", "X7")
@pytest.mark.parametrize(
    ("step", "boundary", "switched"),
    [("stage", "pre_commit", False), ("count", "post_commit", True)],
)
def test_another_policy_ends_a_plain_load_where_it_is_compared_next(
    world: World, step: str, boundary: str, switched: bool
) -> None:
    before = world.tables[REPLICAS[0]][LIVE]
    run = Routed("r1", world, make=plain, live=LIVE_TARGET)
    run.on[step] = lambda: setattr(run, "policy", OTHER)
    run.to_its_end()
    assert run.error is not None
    assert (run.error.code, run.error.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert (world.tables[REPLICAS[0]][LIVE] != before) is switched


@pytest.mark.contract("X5", "X7")
def test_a_live_table_that_cannot_be_counted_fails_a_plain_load_after_its_commit(world: World) -> None:
    run = Routed("r1", world, make=plain, live=LIVE_TARGET)
    run.on["count"] = raises(StatementFailed(241))
    run.to_its_end()
    assert run.error is not None
    assert (run.error.code, run.error.boundary) == ("DPONE_ACCEPTANCE_UNAVAILABLE", "post_commit")
    assert run.execution.standing == Standing(target="mutation_returned_success", inserted_rows=3, final_rows=3)


@pytest.mark.contract("X7")
def test_what_a_plain_load_could_not_drop_is_listed_and_recorded(world: World, undroppable: None) -> None:
    run = Routed("r1", world, make=plain).to_its_end()
    assert run.result == "success"
    assert run.order is not None
    assert run.loaded.leftovers == (run.order.name,)
    assert run.execution.recorded()[-1] == {
        "step": "load_governance_failed",
        "error_code": "cleanup_incomplete",
        "failure_boundary": "post_commit",
    }


@pytest.mark.contract("N5", "X7")
def test_what_is_kept_of_a_plain_load_is_kept_once_it_is_live_and_before_anything_is_said_of_it(world: World) -> None:
    run = Routed("r1", world, make=plain)
    run.on["keep"] = raises(DponeError("DPONE_CANCELLED"))
    run.to_its_end()
    assert run.order is not None
    assert world.tables[REPLICAS[0]][LIVE][0] == run.order.uuid
    assert run.execution.standing == Standing(target="mutation_returned_success", inserted_rows=3, final_rows=3)
    assert run.execution.recorded() == []


@pytest.mark.contract("Q5")
def test_a_switch_of_nothing_is_refused(world: World) -> None:
    run = Routed("r1", world, make=plain)

    class Refresh:
        def run(self, watched: Watched, committed: Callable[[], None]) -> None:
            committed()

    refresh: Any = Refresh()
    observe: Any = None
    watched = Watched(run.execution, Accepted(run), run.notify)
    with pytest.raises(LookupError, match=r"^nothing was staged$"):
        PlainRoute(lambda notify, load_id: refresh, observe).run(watched)
