"""Statements of dead or sleeping attempts that the server carries out late (protocol 9: 1, 2, 5, 7, 13)."""

from __future__ import annotations

import pytest

from dpone_provider.errors import DponeError
from tests.scenarios.stage import Cue, Stage


@pytest.mark.contract("P3", "P6", "P7")
def test_a_kill_between_the_fence_and_its_record_is_finished_by_the_next_attempt(stage: Stage) -> None:
    """Scenario 1: the generation stands under a name that no record knows; it is found by its UUID."""
    stage.publish()
    stage.attempt("later", Cue("exchange", fate="die")).expect("died")
    stage.attempt("later", Cue("rename", fate="apply_die")).expect("died")
    assert stage.bench.record().candidates == {"single": stage.candidate(1)}
    assert stage.bench.private() == [stage.candidate(3)]
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("P2", "P3", "P6")
@pytest.mark.parametrize("order", ["exchange first", "fence first"])
def test_a_late_exchange_and_a_late_fence_make_at_most_one_swap(stage: Stage, order: str) -> None:
    """Scenario 2: both answers are lost and both statements land later, in either order; the fence is not believed."""
    stage.publish()
    exchange = Cue("exchange", fate="hold_lose")
    fence = Cue("rename", fate="hold_ok")
    late = (exchange, fence) if order == "exchange first" else (fence, exchange)

    def land() -> None:
        for cue in late:
            cue.land()

    second = Cue("exchange", nth=2, before=land, optional=True)  # only a product that believes the fence sends it
    stage.attempt("later", exchange, fence, second).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    if exchange.held is not None:
        codes = {cue.kind: cue.land() for cue in late}
        assert codes["exchange"] == (0 if order == "exchange first" else 60)
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P2", "A8")
def test_a_permit_that_slept_through_a_successor_changes_nothing(stage: Stage) -> None:
    """Scenario 5: attempt 2 completes, a successor gets its permit, then the first attempt sends its EXCHANGE."""
    stage.publish()

    def meanwhile() -> None:
        stage.attempt("later").expect("success").read_no_source()
        stage.attempt("successor", Cue("exchange", fate="die")).expect("died")

    sleeper = stage.attempt("later", Cue("exchange", before=meanwhile)).expect("REPLAY_FENCED")
    assert [(effect.kind, code) for effect, code in sleeper.wire.refused] == [("exchange", 60)]
    assert stage.switches == 2
    assert stage.bench.record().operation.run_id == "successor"
    stage.attempt("successor").expect("success").read_no_source()
    stage.settled()
    assert stage.switches == 3


@pytest.mark.contract("P2", "P3")
def test_a_permit_that_slept_through_a_publication_cannot_swap_it_back(stage: Stage) -> None:
    """Scenario 5: the second attempt dies before its cleanup, so an unfenced candidate's name would still be there."""
    stage.publish()

    def meanwhile() -> None:
        stage.attempt("later", Cue("authority_cas", "COMPLETE", nth=2, fate="apply_die")).expect("died")

    sleeper = stage.attempt("later", Cue("exchange", before=meanwhile)).expect("REPLAY_FENCED")
    assert [(effect.kind, code) for effect, code in sleeper.wire.refused] == [("exchange", 60)]
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P5", "P3")
@pytest.mark.parametrize("moment", ["before the cleanup", "between list and drop"])
def test_cleanup_finds_the_predecessor_that_a_late_fence_moved(stage: Stage, moment: str) -> None:
    """Scenario 7: an old EXCHANGE and an old fence land late; the predecessor stands under the fence's name."""
    stage.publish()
    exchange = Cue("exchange", fate="hold_die")
    stage.attempt("later", exchange).expect("died")
    fence = Cue("rename", fate="hold_die")
    stage.attempt("later", fence).expect("died")
    assert exchange.land() == 0
    release = Cue("authority_cas", "COMPLETE", nth=2, after=fence.land)
    between = Cue("rename", before=fence.land)
    took = stage.attempt("later", release if moment == "before the cleanup" else between).expect("success")
    took.read_no_source().published_nothing()
    if moment == "between list and drop":  # the listed name was gone; the load said so, and a replay cleans
        assert took.leftovers == (stage.candidate(1),)
        stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P5", "P3")
def test_cleanup_finds_the_predecessor_that_its_own_late_fence_moved(stage: Stage) -> None:
    """Scenario 7, one attempt: its fence lands after the late EXCHANGE, one epoch above the attempt's own."""
    stage.publish()
    exchange = Cue("exchange", fate="hold_die")
    stage.attempt("later", exchange).expect("died")
    fence = Cue("rename", fate="hold_lose", before=exchange.land)
    release = Cue("authority_cas", "COMPLETE", nth=2, after=fence.land)
    stage.attempt("later", fence, release).expect("success").read_no_source().published_nothing()
    stage.settled()


@pytest.mark.contract("P3", "P4")
@pytest.mark.parametrize("sender", ["dead", "alive"])
def test_a_late_first_publication_meets_the_fence(stage: Stage, sender: str) -> None:
    """Scenario 13: the RENAME of a first publication lands after it was fenced and sent again under a new name."""
    stage.bench.write(200, 7)
    late = Cue("publish_first", fate="hold_die" if sender == "dead" else "hold_lose")
    took = stage.attempt("later", late)
    if sender == "dead":
        took = stage.attempt("later").read_no_source()
    took.expect("success")
    assert took.wire.counts()["rename"] == 1
    assert late.land() in (57, 60)  # the old name is gone, the new one is taken
    stage.settled()
    assert stage.switches == 1


@pytest.mark.contract("P4", "P5")
def test_a_target_that_somebody_else_created_meanwhile_stops_a_first_publication(stage: Stage) -> None:
    """Scenario 13: neither table is touched, the operation stays open, and it goes on once the target is free."""
    stage.bench.write(200, 7)
    create = "CREATE TABLE {db}.t (id UInt64, name String) ENGINE = MergeTree ORDER BY id"

    def somebody() -> None:
        stage.sql(create)
        stage.sql("INSERT INTO {db}.t VALUES (1, 'theirs')")

    took = stage.attempt("later", Cue("publish_first", before=somebody)).expect("REPLAY_PUBLICATION_DIVERGED")
    assert isinstance(took.error, DponeError)
    assert took.error.target_commit == "unknown"
    stage.attempt("later").expect("REPLAY_PUBLICATION_DIVERGED").read_no_source().published_nothing()
    assert stage.bench.rows() == [(1, "theirs")]
    stage.attempt("successor").expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source()
    stage.sql("DROP TABLE {db}.t SYNC")
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("P4", "P5")
def test_a_diverged_exchange_goes_on_once_a_person_has_switched_the_tables(stage: Stage) -> None:
    """Scenario 15 with a lost EXCHANGE: somebody's table is live and stays; nothing is sent until a person decides."""
    stage.publish()
    stage.sql("CREATE TABLE {db}.theirs AS {db}.t")
    theirs = stage.uuid("theirs")

    def replace() -> None:
        stage.sql("EXCHANGE TABLES {db}.t AND {db}.theirs")
        stage.look()

    stage.attempt("later", Cue("exchange", fate="hold_lose", before=replace)).expect("REPLAY_PUBLICATION_DIVERGED")
    stage.attempt("later").expect("REPLAY_PUBLICATION_DIVERGED").read_no_source().published_nothing()
    assert stage.bench.live() == theirs
    stage.sql(f"EXCHANGE TABLES {{db}}.t AND {{db}}.{stage.candidate(1)}")
    took = stage.attempt("later").expect("success").read_no_source().published_nothing()
    assert took.leftovers == (stage.candidate(1),)
    assert stage.uuid(stage.candidate(1)) == theirs
    stage.settled(private=(stage.candidate(1),))


@pytest.mark.contract("P3", "P4")
def test_an_acknowledged_exchange_that_did_nothing_is_seen_fenced_and_sent_once_more(stage: Stage) -> None:
    """B5: the acknowledgement proves nothing; the catalog does, and the lost statement may still land."""
    stage.publish()
    lost = Cue("exchange", fate="hold_ok")
    took = stage.attempt("later", lost).expect("success")
    assert (took.wire.counts()["exchange"], took.wire.switches()) == (2, 1)
    assert lost.land() == 60
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P3", "G4")
def test_a_proven_publication_that_the_server_lost_again_is_failed_and_never_sent_twice(stage: Stage) -> None:
    """B5: a restart brought the old table back after the commit was recorded: MISMATCH, FAILED, no second EXCHANGE."""
    stage.publish()
    back = f"EXCHANGE TABLES {{db}}.t AND {{db}}.{stage.candidate(1)}"
    took = stage.attempt("later", Cue("authority_cas", "COMMITTED", after=lambda: stage.sql(back)))
    took.expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")
    assert took.wire.switches() == 1
    assert took.error is not None
    assert took.error.target_commit == "unknown"
    record = stage.bench.record()
    assert (record.phase, record.owner) == ("FAILED", "")
    stage.attempt("later").expect("REPLAY_QUALITY_EVIDENCE_FAILED").read_no_source().published_nothing()
    assert stage.bench.ids() == list(range(100, 105))
