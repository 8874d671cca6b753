"""The other scenarios of protocol 9 on two replicas (3, 4, 7, 9, 12 to 15), and two attempts alive (B13, B14)."""

from __future__ import annotations

import pytest

from tests.replicas.stage import PairStage
from tests.sandbox_fixture import ask
from tests.scenarios.stage import Cue
from tests.scenarios.test_fences import (
    test_a_target_that_somebody_else_created_meanwhile_stops_a_first_publication as test_a_target_of_somebody_else,  # noqa: F401
)
from tests.scenarios.test_takeovers import dies_claimed, dies_sealed
from tests.scenarios.test_takeovers import (
    test_a_crash_between_the_trash_name_and_the_drop_is_cleaned_by_the_next_attempt as test_a_crash_before_a_drop,  # noqa: F401
)
from tests.scenarios.test_writes import (
    test_a_write_that_is_not_seen_is_unknown_whatever_was_acknowledged as test_a_write_that_is_not_seen,  # noqa: F401
)
from tests.scenarios.test_writes import (
    test_a_write_that_lands_after_a_takeover_changes_nothing as test_a_late_write,  # noqa: F401
)
from tests.scenarios.test_writes import (
    test_of_two_first_claims_one_wins_and_the_other_is_told as test_of_two_first_claims,  # noqa: F401
)
from tests.scenarios.test_writes import (
    test_of_two_writers_on_one_version_one_wins_and_the_other_is_told as test_of_two_writers,  # noqa: F401
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def held(stage: PairStage) -> None:
    """The row is PREPARED, and its generation stands on both under the name that it says."""
    record = stage.bench.record()
    assert record.phase == "PREPARED"
    for replica, server in zip(record.replicas, stage.bench.pair.servers, strict=True):
        where = f"database = '{stage.bench.database}' AND name = '{record.candidates[replica]}'"
        assert ask(server, f"SELECT toString(uuid) FROM system.tables WHERE {where}") == [(record.generation,)]


@pytest.mark.contract("A8", "P5")
def test_an_attempt_that_paused_after_its_claim_sweeps_no_later_generation(stage: PairStage) -> None:
    """Scenario 3. The facts of both are read once before the claim."""
    stage.publish()
    pause = Cue("catalog_read", "facts", nth=3, before=lambda: dies_sealed(stage))
    stage.attempt("later", pause).expect("REPLAY_FENCED")
    held(stage)
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A8", "P5", "P7")
def test_an_attempt_that_paused_after_its_seal_drops_nothing_anywhere(stage: PairStage) -> None:
    """Scenario 4, PREPARED."""
    stage.publish()
    pause = Cue("authority_cas", "DISPATCHING", before=lambda: dies_sealed(stage))
    stage.attempt("later", pause).expect("REPLAY_FENCED").published_nothing()
    held(stage)
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A3", "P5", "P7")
def test_a_seal_that_is_outrun_by_seventeen_writes_is_not_taken_for_unapplied(stage: PairStage) -> None:
    """Scenario 12."""
    stage.publish()

    def outrun() -> None:
        for _ in range(17):
            dies_claimed(stage)

    stage.attempt("later", Cue("authority_cas", "PREPARED", after=outrun)).expect("REPLAY_FENCED")
    held(stage)
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("P5", "P3")
def test_cleanup_finds_the_table_that_a_late_fence_moved_on_the_second_replica(stage: PairStage) -> None:
    """Scenario 7: an old EXCHANGE and an old fence land late there, while the first replica is proven."""
    stage.publish()
    exchange = Cue("exchange", nth=2, fate="hold_die")
    stage.attempt("later", exchange).expect("died")
    fence = Cue("rename", fate="hold_die")
    stage.attempt("later", fence).expect("died")
    assert exchange.land() == 0
    release = Cue("authority_cas", "COMPLETE", nth=2, after=fence.land)
    stage.attempt("later", release).expect("success").read_no_source().published_nothing()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P5", "P6")
def test_what_an_unmanaged_writer_made_live_on_the_second_replica_is_kept_and_told(stage: PairStage) -> None:
    """Scenario 15: between PREPARED and EXCHANGE."""
    stage.publish()
    second, database = stage.bench.pair.second, stage.bench.database
    ask(second, f"CREATE TABLE {database}.theirs (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    ask(second, f"INSERT INTO {database}.theirs VALUES (1, 'theirs')")

    def replace() -> None:
        ask(second, f"EXCHANGE TABLES {database}.t AND {database}.theirs")
        ask(second, f"DROP TABLE {database}.theirs SYNC")
        stage.look()

    took = stage.attempt("later", Cue("exchange", nth=2, before=replace)).expect("success")
    kept = stage.candidate(1)
    assert took.leftovers == (kept,)
    assert ask(second, f"SELECT id, name FROM {database}.{kept}") == [(1, "theirs")]
    assert stage.bench.private() == []
    assert stage.bench.each() == [list(range(200, 207))] * 2


@pytest.mark.contract("A8", "P7")
def test_an_attempt_that_wakes_beside_its_finished_retry_is_fenced_on_both(stage: PairStage) -> None:
    """B14: a healthy task declared dead sleeps while it counts its rows."""
    stage.publish()
    pause = Cue("query", "count in the generation", after=lambda: stage.attempt("later").expect("success"))
    stage.attempt("later", pause).expect("REPLAY_FENCED").published_nothing()
    stage.settled()
    assert stage.switches == 2
