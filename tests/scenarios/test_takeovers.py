"""Attempts that pause while another one takes their place (protocol 9: 3, 4, 12, 14, 15, 16)."""

from __future__ import annotations

import time

import pytest

from tests.loads import endpoint_of
from tests.scenarios.stage import Cue, Stage
from tests.wirelab import TcpProxy


def dies_sealed(stage: Stage) -> None:
    stage.attempt("later", Cue("authority_cas", "DISPATCHING", fate="die")).expect("died")


def dies_claimed(stage: Stage) -> None:
    """Takes the row over as it is and dies before it does anything with it."""
    stage.attempt("later", Cue("catalog_read", "facts", fate="die")).expect("died")


@pytest.mark.contract("A8", "P5")
def test_an_attempt_that_paused_after_its_claim_does_not_sweep_a_later_generation(stage: Stage) -> None:
    """Scenario 3: attempt 2 stages and seals meanwhile; its generation has the higher epoch and survives."""
    stage.publish()
    pause = Cue("catalog_read", "facts", nth=2, before=lambda: dies_sealed(stage))  # the first comes before the claim
    stage.attempt("later", pause).expect("REPLAY_FENCED")
    record = stage.bench.record()
    assert record.phase == "PREPARED"
    assert stage.uuid(record.candidates["single"]) == record.generation
    assert stage.bench.private() == [record.candidates["single"]]
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A8", "P5", "P7")
def test_an_attempt_that_paused_after_its_seal_drops_nothing_that_the_row_holds(stage: Stage) -> None:
    """Scenario 4, PREPARED: attempt 2 has adopted the generation of attempt 1, which is fenced at its permit."""
    stage.publish()
    pause = Cue("authority_cas", "DISPATCHING", before=lambda: dies_sealed(stage))
    stage.attempt("later", pause).expect("REPLAY_FENCED").published_nothing()
    record = stage.bench.record()
    assert stage.uuid(record.candidates["single"]) == record.generation
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A8", "P5", "P7")
def test_an_attempt_that_paused_after_its_permit_drops_nothing_that_the_row_holds(stage: Stage) -> None:
    """Scenario 4, DISPATCHING: attempt 1 publishes with its permit, is fenced at COMMITTED and leaves all as it is."""
    stage.publish()
    pause = Cue("exchange", before=lambda: dies_claimed(stage))
    stage.attempt("later", pause).expect("REPLAY_FENCED")
    assert stage.bench.live() == stage.bench.record().generation
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("A3", "P5", "P7")
def test_a_seal_outrun_by_more_writes_than_the_history_holds_is_not_taken_for_unapplied(stage: Stage) -> None:
    """Scenario 12: 17 takeovers between the CAS and its read-back; the generation that they adopted stays."""
    stage.publish()

    def outrun() -> None:
        for _ in range(17):
            dies_claimed(stage)

    stage.attempt("later", Cue("authority_cas", "PREPARED", after=outrun)).expect("REPLAY_FENCED")
    record = stage.bench.record()
    assert record.phase == "PREPARED"
    assert stage.uuid(record.candidates["single"]) == record.generation
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A8", "P7")
def test_a_zombie_that_wakes_beside_its_finished_retry_is_fenced(stage: Stage) -> None:
    """B14: a healthy task declared dead sleeps in its insert; one publication, one completion, nothing left over."""
    stage.publish()
    pause = Cue("insert", after=lambda: stage.attempt("later").expect("success"))
    stage.attempt("later", pause).expect("REPLAY_FENCED").published_nothing()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P5")
def test_a_crash_between_the_trash_name_and_the_drop_is_cleaned_by_the_next_attempt(stage: Stage) -> None:
    """Scenario 14, after the completion: the predecessor already has its last name."""
    stage.publish()
    stage.attempt("later", Cue("drop", fate="die")).expect("died")
    assert len(stage.bench.private()) == 1
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()


@pytest.mark.contract("P5")
@pytest.mark.parametrize("fate", ["die", "hold_die"])
def test_a_crash_inside_the_sweep_is_swept_by_the_next_attempt(stage: Stage, fate: str) -> None:
    """Scenario 14, before the staging: a leftover was renamed to trash, or its DROP lands at any later time."""
    stage.publish()
    stage.attempt("later", Cue("insert", fate="die")).expect("died")
    drop = Cue("drop", fate=fate)  # type: ignore[arg-type]
    stage.attempt("later", drop).expect("died")
    stage.attempt("later").expect("success")
    if fate == "hold_die":
        assert drop.land() == 60
    stage.settled()


@pytest.mark.contract("P5", "P6")
def test_a_table_that_an_unmanaged_writer_made_live_is_swapped_out_and_never_dropped(stage: Stage) -> None:
    """Scenario 15: between PREPARED and EXCHANGE the live table is replaced; the load publishes, keeps and reports."""
    stage.publish()
    stage.sql("CREATE TABLE {db}.theirs (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    stage.sql("INSERT INTO {db}.theirs VALUES (1, 'theirs')")
    theirs = stage.uuid("theirs")

    def replace() -> None:
        stage.sql("EXCHANGE TABLES {db}.t AND {db}.theirs")
        stage.sql("DROP TABLE {db}.theirs SYNC")
        stage.look()

    took = stage.attempt("later", Cue("exchange", before=replace)).expect("success")
    kept = stage.candidate(1)
    assert took.leftovers == (kept,)
    assert stage.uuid(kept) == theirs
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled(private=(kept,))
    assert stage.sql(f"SELECT id, name FROM {{db}}.{kept}") == [(1, "theirs")]


@pytest.mark.contract("P5")
def test_a_table_that_took_a_listed_name_is_not_dropped(stage: Stage) -> None:
    """Scenario 15: between the list and the rename to trash somebody's table came under the name; its UUID tells."""
    stage.publish()
    stage.sql("CREATE TABLE {db}.theirs (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    theirs = stage.uuid("theirs")
    swap = f"EXCHANGE TABLES {{db}}.theirs AND {{db}}.{stage.candidate(1)}"
    took = stage.attempt("later", Cue("rename", before=lambda: stage.sql(swap))).expect("success")
    assert took.leftovers == (stage.candidate(1),)
    assert [stage.uuid(name) for name in stage.bench.private()] == [theirs]
    took = stage.attempt("later").expect("success")
    assert [stage.uuid(name) for name in took.leftovers] == [theirs]


@pytest.mark.contract("P5", "P6")
def test_a_late_insert_of_a_discarded_staging_lands_nowhere(stage: Stage) -> None:
    """Scenario 16: the bytes of an INSERT arrive while the next attempt stages; its name is used by nobody again."""
    stage.publish()
    with TcpProxy(stage.bench.sandbox.http_port) as proxy:
        late = proxy.rule("hold", match=b"ArrowStream")
        slow = endpoint_of(stage.bench.sandbox, http_port=proxy.port, receive_timeout=1.0)
        stage.attempt("later", endpoint=slow).expect("STAGING_FAILED")
        assert late.fired.is_set()
        assert stage.bench.private() == []

        def land() -> None:
            late.release()
            deadline = time.monotonic() + 10
            while not proxy.links[-1].server_bytes and time.monotonic() < deadline:
                time.sleep(0.01)
            assert proxy.links[-1].server_bytes, "the server never answered the late insert"

        took = stage.attempt("later", Cue("query", "count in the generation", before=land))
        took.expect("success")
    stage.settled()


@pytest.mark.contract("A6", "A8")
def test_a_staging_longer_than_the_stale_bound_is_not_superseded(stage: Stage) -> None:
    """Scenario 16: the claim is refreshed while the source is slow, so a successor finds it busy, again and again."""
    stage.publish()
    bound = 900  # ms

    def slow() -> None:
        time.sleep(0.55)

    def successor() -> None:
        slow()
        stage.attempt("successor", stale_after_ms=bound).expect("REPLAY_SLOT_BUSY").read_no_source()

    slowly = (Cue("insert", after=slow), Cue("query", "count in the generation", after=slow))
    stage.attempt("later", *slowly, Cue("authority_cas", "PREPARED", before=successor), stale_after_ms=bound).expect(
        "success"
    )
    stage.settled()


@pytest.mark.contract("A3", "A8")
@pytest.mark.parametrize("fate", ["hold_ok", "hold_lose"])
def test_a_refresh_that_is_not_verified_stops_the_staging(stage: Stage, fate: str) -> None:
    """Scenario 16: the owner stops on anything but Verified, and drops nothing while its write may still land."""
    stage.publish()
    refresh = Cue("authority_cas", "CLAIMED", fate=fate)  # type: ignore[arg-type]
    took = stage.attempt("later", refresh, stale_after_ms=0).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    assert "PREPARED" not in {effect.what[-8:] for effect in took.wire.sent}
    stage.attempt("later").expect("success")
    refresh.land()
    stage.settled()
