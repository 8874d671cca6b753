"""How windows end: FAILED and its archive, held guards, successors, new runs (protocol 9: 10, 11; I2, I7)."""

from __future__ import annotations

import attrs
import pytest

from dpone_provider.load.outcome import RunIdentity
from dpone_provider.replay.record import AuthorityRecord, parse_slot
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from tests.loads import OneEndpoint, endpoint_of
from tests.scenarios.stage import Cue, Stage

HOUR = 3_600_000


def archive_of(stage: Stage, run_id: str = "later") -> AuthorityRecord | None:
    """The archived record of an operation."""
    operation = stage.operation(run_id)
    key = f"{operation.target.key}@{operation.operation_id}"
    with stage.store() as store:
        return parse_slot(store.read(key), key=key).record


def fails(stage: Stage, run_id: str = "later") -> AuthorityRecord:
    """Make an operation end FAILED: the server loses its publication again."""
    back = f"EXCHANGE TABLES {{db}}.t AND {{db}}.{stage.candidate(1, run_id)}"
    took = stage.attempt(run_id, Cue("authority_cas", "COMMITTED", after=lambda: stage.sql(back)))
    took.expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")
    stage.forget()
    return stage.bench.record()


def guarded(stage: Stage) -> None:
    """COMPLETE with the guard held: the attempt died before its release."""
    stage.attempt("later", Cue("authority_cas", "COMPLETE", nth=2, fate="die")).expect("died")
    record = stage.bench.record()
    assert record.phase == "COMPLETE"
    assert record.owner


@pytest.mark.contract("A6", "A3")
@pytest.mark.parametrize("fate", ["hold_lose", "hold_ok", "hold_die", "apply_lose"])
def test_a_failed_record_is_archived_before_it_is_succeeded(stage: Stage, fate: str) -> None:
    """Scenario 10: the archive's insert is late or unknown; nobody succeeds the record until the archive is read."""
    stage.publish()
    failed = fails(stage)
    archive = Cue("authority_create", fate=fate)  # type: ignore[arg-type]
    took = stage.attempt("successor", archive)
    if fate == "apply_lose":
        took.expect("success")
    else:
        took.expect("died" if fate == "hold_die" else "REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source()
        assert stage.bench.record() == failed
        stage.attempt("rival").expect("success")
        assert archive.land() == 999  # its key is there
        stage.attempt("successor").expect("success")
    assert archive_of(stage) == failed
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source().published_nothing()
    assert stage.bench.ids() == list(range(200, 207))


@pytest.mark.contract("A6", "A8")
def test_of_two_successors_of_a_failed_record_one_gets_the_slot(stage: Stage) -> None:
    """Scenario 10: both have archived it; the second one's claim finds a newer row."""
    stage.publish()
    failed = fails(stage)
    race = Cue("authority_cas", "CLAIMED", before=lambda: stage.attempt("rival").expect("success"))
    stage.attempt("successor", race).expect("REPLAY_SLOT_BUSY").read_no_source()
    assert archive_of(stage) == failed
    assert [ended.phase for ended in stage.bench.record().ended] == ["FAILED"]
    stage.attempt("successor").expect("success")
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source()


@pytest.mark.contract("A6", "I7")
def test_the_archive_alone_ends_a_window(stage: Stage) -> None:
    """Scenario 10: the slot has forgotten the failed operation (33 others came after it); the archive has not."""
    stage.publish()
    fails(stage)
    stage.attempt("successor").expect("success")
    stage.rewrite(attrs.evolve(stage.bench.record(), ended=()))
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source()


@pytest.mark.contract("G4")
def test_a_failed_operation_is_final_under_its_identity(stage: Stage) -> None:
    """FAILED is never tried again by itself and never changes again."""
    stage.publish()
    failed = fails(stage)
    took = stage.attempt("later").expect("REPLAY_QUALITY_EVIDENCE_FAILED").read_no_source().published_nothing()
    assert took.error is not None
    assert not took.error.retryable
    assert stage.bench.record() == failed


@pytest.mark.contract("A6", "I7")
def test_a_held_guard_makes_a_successor_wait_until_it_is_stale(stage: Stage) -> None:
    """Scenario 11: busy, then stale; the first operation is told WINDOW_ENDED after one and after two successors."""
    stage.publish()
    guarded(stage)
    stage.attempt("second", stale_after_ms=HOUR).expect("REPLAY_SLOT_BUSY").read_no_source()
    stage.attempt("second", stale_after_ms=0).expect("success")
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source().published_nothing()
    stage.attempt("third").expect("success")
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source().published_nothing()
    stage.attempt("second").expect("REPLAY_WINDOW_ENDED").read_no_source().published_nothing()
    assert stage.bench.record().operation.run_id == "third"
    assert stage.switches == 4


@pytest.mark.contract("G6", "G5", "P7")
def test_a_held_guard_is_taken_by_a_later_attempt_of_its_own_operation(stage: Stage) -> None:
    """Scenario 11: the proof is validated, nothing is scanned or sent, the guard is released."""
    stage.publish()
    guarded(stage)
    took = stage.attempt("later").expect("success").read_no_source().published_nothing()
    assert took.outcome is not None
    assert took.outcome.replayed
    assert took.wire.counts()["query"] == 0
    stage.settled()


@pytest.mark.contract("A6", "G6")
@pytest.mark.parametrize("phase", ["DISPATCHING", "COMMITTED"])
def test_time_never_gives_a_dispatched_slot_to_a_successor(stage: Stage, phase: str) -> None:
    """From the permit on the slot is blocked until that operation is finished, however stale it looks."""
    stage.publish()
    point = Cue("exchange", fate="die") if phase == "DISPATCHING" else Cue("authority_cas", "COMPLETE", fate="die")
    stage.attempt("later", point).expect("died")
    before = stage.bench.slot()
    took = stage.attempt("successor", stale_after_ms=0).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source()
    assert took.error is not None
    assert "run_id=later" in took.error.message
    assert stage.bench.slot() == before
    stage.attempt("later").expect("success").read_no_source()
    stage.attempt("successor").expect("success")
    stage.settled()


@pytest.mark.contract("A6")
@pytest.mark.parametrize("phase", ["CLAIMED", "PREPARED"])
def test_a_stale_claim_is_superseded_and_its_operation_may_start_again(stage: Stage, phase: str) -> None:
    """Before the permit time decides, by the server's clock; the superseded operation's window stays open."""
    stage.publish()
    point = Cue("insert", fate="die") if phase == "CLAIMED" else Cue("authority_cas", "DISPATCHING", fate="die")
    stage.attempt("later", point).expect("died")
    stage.attempt("successor", stale_after_ms=HOUR).expect("REPLAY_SLOT_BUSY").read_no_source()
    stage.attempt("successor", stale_after_ms=0).expect("success")
    took = stage.attempt("later").expect("success")
    assert took.outcome is not None
    assert [attempt.number for attempt in took.outcome.attempts] == [1, 2]
    stage.settled()
    assert stage.switches == 3


@pytest.mark.contract("I2")
def test_a_new_run_is_a_new_operation_and_reads_the_source(stage: Stage) -> None:
    """The same load under another run id is another operation, with rows, generation and proof of its own."""
    stage.publish()
    first = stage.attempt("later").expect("success").outcome
    stage.bench.write(300, 4)
    second = stage.attempt("next").expect("success").outcome
    assert first is not None
    assert second is not None
    assert first.operation_id != second.operation_id
    assert (second.extracted_rows, second.replayed) == (4, False)
    stage.settled(range(300, 304))


@pytest.mark.contract("I7")
def test_reprocess_runs_an_ended_operation_again_on_purpose(stage: Stage) -> None:
    """An ended window is final under its identity; ``reprocess`` makes another operation of the same run."""
    stage.publish()
    stage.attempt("later").expect("success")
    stage.attempt("next").expect("success")
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source()
    stage.bench.write(300, 4)
    connections = OneEndpoint(where=endpoint_of(stage.bench.sandbox))
    identity: RunIdentity = attrs.evolve(stage.bench.identity("later"), reprocess="1")
    outcome = run_load(stage.bench.spec(), identity, connections, Surroundings())
    assert (outcome.extracted_rows, outcome.replayed) == (4, False)
    stage.attempt("later").expect("REPLAY_WINDOW_ENDED").read_no_source()
    stage.settled(range(300, 304))
