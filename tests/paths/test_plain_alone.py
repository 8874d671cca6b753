"""The refresh without an authority, on one replica that is a value: what it sweeps, switches, drops, says (X3, X7)."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.replay.ports import StagingOrder
from dpone_provider.wire import StatementFailed
from tests.paths.routed import LOAD, Routed, plain, raises
from tests.replay.records import operation
from tests.replicas.world import LIVE, World

ONLY = "ch-1"
MINE, OTHERS = operation("r1"), operation("r2")
OLD = "00000000-0000-4000-8000-00000000aaaa"
LEFT = "00000000-0000-4000-8000-00000000bbbb"
ALONE = MINE.alone("e" * 32)


def world_of(live: str = "", **private: tuple[str, str]) -> World:
    """One replica. ``live``: the COMMENT of the table that is live; ``private``: other tables, UUID and COMMENT."""
    made = World(replicas=(ONLY,))
    made.tables[ONLY] = {LIVE: (OLD, live), **private}
    made.look()
    return made


def tables(world: World) -> dict[str, str]:
    """Names and UUIDs."""
    return {name: uuid for name, (uuid, _) in world.tables[ONLY].items()}


def run_of(world: World, **options: Any) -> Routed:
    return Routed("r1", world, make=plain, **options)


def staged(run: Routed) -> StagingOrder:
    assert run.order is not None
    return run.order


def failed(run: Routed) -> tuple[str, str | None]:
    assert run.error is not None
    return run.error.code, run.error.target_commit


# -- what it makes, switches and drops -------------------------------------------------------------------------------


@pytest.mark.contract("X3")
def test_a_refresh_stages_under_a_name_of_its_own_and_drops_what_it_replaced() -> None:
    world = world_of()
    run = run_of(world).to_its_end()
    order = staged(run)
    assert (MINE.epoch_of(order.name), order.name.startswith(MINE.alone(""))) == (0, True)
    assert (order.mark, order.load_id) == (MINE.mark(0), LOAD)
    assert tables(world) == {LIVE: order.uuid}
    assert order.uuid.startswith("00000000-0000-4000-8000-")
    assert (run.loaded.load_id, run.loaded.generation, run.loaded.leftovers) == (LOAD, order.uuid, ())


def test_a_first_publication_needs_no_table_to_replace() -> None:
    world = World(replicas=(ONLY,))
    run = run_of(world).to_its_end()
    assert (run.result, tables(world)) == ("success", {LIVE: staged(run).uuid})


def test_a_previous_table_is_kept_where_it_is_asked_for() -> None:
    world = world_of()
    run = run_of(world, keeps=True).to_its_end()
    order = staged(run)
    assert tables(world) == {LIVE: order.uuid, order.name: OLD}


@pytest.mark.contract("X3")
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(
    ("name", "comment", "swept", "swept_where_the_previous_is_kept"),
    [
        (ALONE, MINE.mark(0), True, True),
        (ALONE, f"of an author\n{MINE.mark(0)}", True, True),
        (ALONE, OTHERS.mark(3), True, False),
        (ALONE, "somebody's", False, False),
        (MINE.candidate(1), MINE.mark(1), False, False),
        (OTHERS.alone("e" * 32), OTHERS.mark(0), False, False),
    ],
)
def test_what_earlier_runs_left_is_swept_and_nothing_else(
    name: str, comment: str, swept: bool, swept_where_the_previous_is_kept: bool, keeps: bool
) -> None:
    world = world_of(**{name: (LEFT, comment)})
    run = run_of(world, keeps=keeps).to_its_end()
    assert run.result == "success"
    assert (LEFT in tables(world).values()) is not (swept_where_the_previous_is_kept if keeps else swept)


def test_a_table_that_was_made_by_the_operation_and_is_live_is_not_swept() -> None:
    world = world_of(MINE.mark(0))
    run = run_of(world).before("stage")
    assert tables(world) == {LIVE: OLD}
    assert run.to_its_end().result == "success"


# -- before the switch -----------------------------------------------------------------------------------------------


@pytest.mark.contract("X7", "P8")
def test_what_fails_before_the_switch_leaves_nothing_behind() -> None:
    world = world_of()
    run = run_of(world)
    run.on["staged"] = raises(DponeError("DPONE_SOURCE_FAILED"))
    run.to_its_end()
    assert failed(run) == ("DPONE_SOURCE_FAILED", "not_started")
    assert tables(world) == {LIVE: OLD}


@pytest.mark.contract("X7")
def test_an_error_s_own_word_on_the_commit_stands() -> None:
    run = run_of(world_of())
    run.on["staged"] = raises(DponeError("DPONE_SOURCE_FAILED", target_commit="unknown"))
    assert failed(run.to_its_end()) == ("DPONE_SOURCE_FAILED", "unknown")


@pytest.mark.contract("F4")
def test_a_cancellation_once_it_is_staged_switches_nothing() -> None:
    world = world_of()
    run = run_of(world)
    run.on["staged"] = lambda: run.on.update(look=raises(DponeError("DPONE_CANCELLED")))
    run.to_its_end()
    assert failed(run) == ("DPONE_CANCELLED", "not_started")
    assert ("publish" in run.told, tables(world)) == (False, {LIVE: OLD})


@pytest.mark.contract("X7")
def test_ctrl_c_before_the_switch_drops_what_was_staged() -> None:
    world = world_of()
    run = run_of(world)
    run.on["staged"] = raises(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run.to_its_end()
    assert tables(world) == {LIVE: OLD}


@pytest.mark.contract("X7")
def test_a_server_that_is_gone_before_the_switch_ends_the_staging() -> None:
    world = world_of()
    run = run_of(world)
    run.on["staged"] = raises(StatementFailed(None))
    run.to_its_end()
    assert failed(run) == ("DPONE_STAGING_FAILED", "not_started")
    assert run.error is not None
    assert run.error.message == "The server stopped answering."
    assert isinstance(run.error.__cause__, StatementFailed)
    assert tables(world) == {LIVE: OLD}


# -- from the switch on ----------------------------------------------------------------------------------------------


@pytest.mark.contract("P3", "X7")
@pytest.mark.parametrize("first", [False, True])
def test_a_switch_whose_answer_is_lost_is_proven_by_the_catalog(first: bool) -> None:
    world = World(replicas=(ONLY,)) if first else world_of()
    run = run_of(world).before("publish")
    run.step("lost")
    run.to_its_end()
    assert run.result == "success"
    assert tables(world) == {LIVE: staged(run).uuid}


@pytest.mark.contract("P3", "X7")
@pytest.mark.parametrize("first", [False, True])
def test_a_switch_that_was_not_applied_is_uncertain_and_what_was_staged_is_dropped(first: bool) -> None:
    world = World(replicas=(ONLY,)) if first else world_of()
    run = run_of(world).before("publish")
    run.step("late")
    run.to_its_end()
    assert failed(run) == ("DPONE_PUBLICATION_UNCERTAIN", "unknown")
    assert tables(world) == ({} if first else {LIVE: OLD})
    world.land(0)
    assert tables(world) == ({} if first else {LIVE: OLD}), "a late switch finds nothing"


@pytest.mark.contract("P3", "X7")
def test_a_catalog_that_cannot_be_asked_after_the_switch_leaves_it_uncertain() -> None:
    world = world_of()
    run = run_of(world).before("publish")
    run.step("go")
    run.step("lost")
    run.to_its_end()
    assert failed(run) == ("DPONE_PUBLICATION_UNCERTAIN", "unknown")
    assert isinstance(run.error.__cause__, StatementFailed)  # type: ignore[union-attr]
    order = staged(run)
    assert tables(world) == {LIVE: order.uuid, order.name: OLD}, "nothing is dropped that nobody has looked at"


@pytest.mark.contract("X7")
def test_what_fails_once_it_is_live_rolls_nothing_back() -> None:
    world = world_of()
    run = run_of(world)
    run.on["keep"] = raises(DponeError("DPONE_CANCELLED"))
    assert failed(run.to_its_end()) == ("DPONE_CANCELLED", "proven")
    assert tables(world) == {LIVE: staged(run).uuid}


@pytest.mark.contract("X7")
def test_ctrl_c_once_it_is_live_sends_nothing_more() -> None:
    world = world_of()
    run = run_of(world)
    run.on["keep"] = raises(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run.to_its_end()
    order = staged(run)
    assert tables(world) == {LIVE: order.uuid, order.name: OLD}


@pytest.mark.contract("X7")
def test_a_switch_that_is_forbidden_when_it_is_announced_was_not_sent() -> None:
    world = world_of()
    run = run_of(world)
    run.on["publish"] = raises(DponeError("DPONE_CANCELLED"))
    assert failed(run.to_its_end()) == ("DPONE_CANCELLED", "not_started")
    assert tables(world) == {LIVE: OLD}


def test_what_is_announced_names_its_replica() -> None:
    run = run_of(world_of()).to_its_end()
    assert run.facts == {"stage": {}, "publish": {"replica": ONLY}, "keep": {}}
