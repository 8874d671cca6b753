"""What blocks a successor of a load of two replicas, what diverges, and what is cleaned up (A6, P4, P5)."""

from __future__ import annotations

import pytest

from tests.replicas.bench import servers
from tests.replicas.stage import PairStage
from tests.sandbox_fixture import SECOND, ask
from tests.scenarios.stage import Cue
from tests.scenarios.test_inheritance import (
    test_a_successor_drops_the_staging_of_an_operation_that_it_supersedes as test_a_superseded_staging,  # noqa: F401
)
from tests.scenarios.test_inheritance import (
    test_a_successor_drops_what_a_complete_operation_had_replaced as test_a_replaced_table,  # noqa: F401
)
from tests.scenarios.test_windows import (
    test_a_failed_record_is_archived_before_it_is_succeeded as test_a_failed_record,  # noqa: F401
)
from tests.scenarios.test_windows import (
    test_of_two_successors_of_a_failed_record_one_gets_the_slot as test_of_two_successors,  # noqa: F401
)
from tests.scenarios.test_windows import (
    test_time_never_gives_a_dispatched_slot_to_a_successor as test_time_never_gives_a_dispatched_slot,  # noqa: F401
)

pytestmark = pytest.mark.timeout(600)


@pytest.mark.contract("P3", "P4", "P7")
def test_a_first_publication_that_stops_on_the_way_resumes_there(stage: PairStage) -> None:
    stage.bench.write(200, 7)
    stage.attempt("later", Cue("publish_first", nth=2, fate="die")).expect("died")
    assert (stage.bench.live(), stage.bench.second.live()) == (stage.bench.record().generation, None)
    took = stage.attempt("later").expect("success").read_no_source()
    assert [effect.replica for effect in took.wire.sent if effect.kind == "publish_first"] == [SECOND]
    stage.settled()


@pytest.mark.contract("P4", "P5")
def test_a_replica_that_diverged_stops_a_partial_publication_until_a_person_decides(stage: PairStage) -> None:
    """The first is proven and gets nothing more; somebody's table on the second is neither switched nor dropped."""
    stage.publish()
    second, database = stage.bench.pair.second, stage.bench.database
    ask(second, f"CREATE TABLE {database}.theirs AS {database}.t")

    def replace() -> None:
        ask(second, f"EXCHANGE TABLES {database}.t AND {database}.theirs")
        stage.look()

    took = stage.attempt("later", Cue("exchange", nth=2, fate="hold_lose", before=replace))
    took.expect("REPLAY_PUBLICATION_DIVERGED")
    assert took.error is not None
    assert took.error.target_commit == "unknown"
    theirs = stage.bench.second.live()
    stage.attempt("later").expect("REPLAY_PUBLICATION_DIVERGED").read_no_source().published_nothing()
    stage.attempt("successor", stale_after_ms=0).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source()
    assert stage.bench.lives() == (stage.bench.record().generation, theirs)
    kept = stage.candidate(1)
    ask(second, f"EXCHANGE TABLES {database}.t AND {database}.{kept}")
    took = stage.attempt("later").expect("success").read_no_source().published_nothing()
    assert took.leftovers == (kept,)
    assert stage.bench.leftovers() == [kept]
    assert stage.bench.each() == [list(range(200, 207))] * 2


@pytest.mark.contract("P5")
def test_what_is_not_dropped_on_one_replica_is_told_and_dropped_by_a_replay(stage: PairStage) -> None:
    stage.publish()
    took = stage.attempt("later", Cue("drop", nth=2, fate="hold_lose")).expect("success")
    assert took.leftovers == (stage.candidate(1),)
    assert stage.bench.private() == []
    assert len(stage.bench.second.private()) == 1
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()


@pytest.mark.contract("P5")
def test_a_table_of_others_under_our_name_on_one_replica_is_told_and_left(stage: PairStage) -> None:
    stage.publish()
    name = stage.candidate(1)
    create = f"CREATE TABLE {stage.bench.database}.{name} (theirs UInt8) ENGINE = MergeTree ORDER BY ()"
    stage.attempt("later", Cue("authority_cas", "COMMITTED", fate="apply_die")).expect("died")
    ask(stage.bench.pair.second, f"DROP TABLE {stage.bench.database}.{name} SYNC")
    ask(stage.bench.pair.second, create)
    took = stage.attempt("later").expect("success").read_no_source()
    assert took.leftovers == (name,)
    assert [
        len(ask(one, "SHOW TABLES LIKE '%dpone%'", database=stage.bench.database)) for one in servers(stage.bench.pair)
    ] == [1, 2], "the authority, and theirs"
