"""The stored proof: tampered with, lost, too large, or decided by an uncertain write (G5, G6, G8, C3, C4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider import canonical
from dpone_provider.load.outcome import failure_document
from dpone_provider.replay import record as records
from dpone_provider.replay.record import AuthorityRecord
from tests.scenarios.stage import Cue, Stage

Change = Callable[[dict[str, Any]], None]


def committed(stage: Stage) -> AuthorityRecord:
    """COMMITTED, and its attempt dead."""
    stage.publish()
    stage.attempt("later", Cue("authority_cas", "COMPLETE", fate="die")).expect("died")
    return stage.bench.record()


def completed(stage: Stage) -> AuthorityRecord:
    """COMPLETE and released."""
    stage.publish()
    stage.attempt("later").expect("success")
    return stage.bench.record()


def tampered(record: AuthorityRecord, change: Change, *, resealed: bool) -> AuthorityRecord:
    """The record with another capsule; ``resealed``: the capsule's own digests are made to agree again."""
    if record.capsule is None:
        raise LookupError("nothing is sealed")
    envelope = canonical.decode(record.capsule, max_bytes=262_144)
    change(envelope["core"])
    if resealed:
        envelope["core_digest"] = canonical.digest(envelope["core"])
        previous = envelope["core_digest"]
        for link in envelope["completion"]:
            link["previous_digest"] = previous
            previous = canonical.digest(link)
    return attrs.evolve(record, capsule=canonical.encode(envelope))


def better_report(core: dict[str, Any]) -> None:
    core["report"]["results"] = []


def other_count(core: dict[str, Any]) -> None:
    core["source_probe"]["row_count"] += 1


def other_generation(core: dict[str, Any]) -> None:
    core["binding"]["desired"]["uuid"] = "00000000-0000-4000-8000-000000000000"


def other_plan(core: dict[str, Any]) -> None:
    core["effective_plan"]["target_schema_digest"] = "sha256:" + "0" * 64


def other_rows(core: dict[str, Any]) -> None:
    core["binding"]["staged_rows"] += 1


CHANGES = (better_report, other_count, other_generation, other_plan, other_rows)


@pytest.mark.contract("G8", "G4")
@pytest.mark.parametrize("change", CHANGES)
def test_a_consistently_tampered_proof_of_a_committed_load_fails_it(stage: Stage, change: Change) -> None:
    """All digests agree, but the probes no longer give the sealed report, or the core is not of this generation."""
    record = committed(stage)
    stage.rewrite(tampered(record, change, resealed=True))
    took = stage.attempt("later").read_no_source().published_nothing()
    took.expect("REPLAY_QUALITY_EVIDENCE_INVALID", "REPLAY_QUALITY_EVIDENCE_MISMATCH")
    after = stage.bench.record()
    assert (after.phase, after.owner) == ("FAILED", "")
    stage.attempt("later").expect("REPLAY_QUALITY_EVIDENCE_FAILED").read_no_source()
    assert stage.bench.live() == record.generation


@pytest.mark.contract("G8", "G3")
@pytest.mark.parametrize("change", CHANGES)
def test_a_consistently_tampered_proof_of_a_complete_load_is_no_success(stage: Stage, change: Change) -> None:
    """A replay validates what it returns; it releases its guard and reports what is wrong."""
    record = tampered(completed(stage), change, resealed=True)
    stage.rewrite(record)
    took = stage.attempt("later").read_no_source().published_nothing()
    took.expect("REPLAY_QUALITY_EVIDENCE_INVALID", "REPLAY_QUALITY_EVIDENCE_MISMATCH")
    after = stage.bench.record()
    assert (after.phase, after.owner, after.capsule) == ("COMPLETE", "", record.capsule)


@pytest.mark.contract("C3", "G4", "O4")
@pytest.mark.parametrize("change", CHANGES)
def test_a_proof_whose_digest_does_not_agree_is_invalid_and_kept(stage: Stage, change: Change) -> None:
    """Nothing is rewritten by a proof that cannot be read; the failure still says what is known."""
    record = tampered(committed(stage), change, resealed=False)
    stage.rewrite(record)
    took = stage.attempt("later").expect("REPLAY_QUALITY_EVIDENCE_INVALID").read_no_source().published_nothing()
    after = stage.bench.record()
    assert (after.phase, after.capsule) == ("COMMITTED", record.capsule)
    assert took.error is not None
    document = failure_document(took.error, stage.bench.spec(), stage.bench.identity("later"))
    assert document["attempts"] == 2
    assert document["replay_details"]["target_commit"] == "proven"
    assert document["replay_details"]["quality_state"] == "COMMITTED"


@pytest.mark.contract("A5")
def test_a_row_whose_columns_differ_from_its_record_is_invalid(stage: Stage) -> None:
    """One column changed by hand: nobody trusts the row, nobody clears it."""
    completed(stage)
    stage.sql(
        "ALTER TABLE {db}.dpone_replay_authority UPDATE phase = 'CLAIMED' WHERE 1 SETTINGS keeper_map_strict_mode=1"
    )
    for run_id in ("later", "successor"):
        took = stage.attempt(run_id, stale_after_ms=0).expect("REPLAY_QUALITY_EVIDENCE_INVALID")
        took.read_no_source().published_nothing()


@pytest.mark.contract("G3", "P7")
def test_a_replay_of_a_lost_generation_is_no_success(stage: Stage) -> None:
    """COMPLETE, and today another table is live: the guard is released, the proof is kept, the answer is MISMATCH."""
    record = completed(stage)
    stage.sql("CREATE TABLE {db}.theirs AS {db}.t")
    stage.sql("EXCHANGE TABLES {db}.t AND {db}.theirs")
    took = stage.attempt("later").expect("REPLAY_QUALITY_EVIDENCE_MISMATCH").read_no_source().published_nothing()
    assert took.error is not None
    assert took.error.target_commit == "unknown"
    after = stage.bench.record()
    assert (after.phase, after.owner, after.capsule) == ("COMPLETE", "", record.capsule)


@pytest.mark.contract("G5", "G6")
@pytest.mark.parametrize("nth", [1, 2], ids=["complete", "release"])
def test_an_unseen_last_write_is_never_a_success_and_its_outcome_is_read_later(stage: Stage, nth: int) -> None:
    """COMPLETE or the release was acknowledged, the row says otherwise: INCOMPLETE, then the row's own outcome."""
    stage.publish()
    unseen = Cue("authority_cas", "COMPLETE", nth=nth, fate="hold_ok")
    took = stage.attempt("later", unseen).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    assert took.error is not None
    assert took.error.target_commit == "proven"
    assert stage.bench.record().owner != ""
    unseen.land()  # it was only slow: now the row holds that exact outcome
    record = stage.bench.record()
    assert (record.phase, record.owner == "") == ("COMPLETE", nth == 2)
    again = stage.attempt("later").expect("success").read_no_source().published_nothing()
    assert again.outcome is not None
    assert again.outcome.replayed
    stage.settled()


@pytest.mark.contract("C4", "P1")
def test_a_record_that_could_outgrow_its_bound_is_refused_before_its_permit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the bound: the load is refused before dispatch, or every later write fits; it never gets stuck."""
    stage.publish()
    stage.attempt("later").expect("success")
    largest = len(stage.bench.record().row().record)
    ended: set[str] = set()
    for bound in range(largest - 2000, largest + 9000, 1000):
        other = Stage(attrs.evolve(stage.bench, table=f"t{bound}"))
        other.publish()
        monkeypatch.setattr(records, "MAX_BYTES", bound)
        took = other.attempt("later").expect("success", "REPLAY_QUALITY_EVIDENCE_UNSUPPORTED")
        if took.result != "success":
            took.published_nothing()
            assert other.bench.record().phase == "REJECTED"
        ended.add(took.result)
    assert len(ended) == 2
    assert stage.bench.private() == []
