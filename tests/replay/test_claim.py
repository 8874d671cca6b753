"""Who may take the slot: every cell of the table in protocol section 3."""

from __future__ import annotations

import pytest

from dpone_provider.replay.claim import Claim, Refused, decide_claim
from dpone_provider.replay.record import Ended
from tests.replay.records import OTHER, claimant, evolve, found, operation, record

STALE = 1_000 + 900_001
SEALED = ("PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE")


def claim(*args: object, **options: object) -> Claim:
    decision = decide_claim(*args, **options)  # type: ignore[arg-type]
    assert isinstance(decision, Claim)
    return decision


def refusal(*args: object, **options: object) -> str:
    decision = decide_claim(*args, **options)  # type: ignore[arg-type]
    assert isinstance(decision, Refused)
    return decision.error.code


def test_an_empty_slot_is_created_with_epoch_one() -> None:
    decision = claim(found(None), claimant())
    assert (decision.how, decision.record.phase, decision.record.epoch) == ("create", "CLAIMED", 1)
    assert decision.record.owner == OTHER


@pytest.mark.contract("A6")
@pytest.mark.parametrize("phase", ["CLAIMED", "REJECTED"])
def test_the_same_operation_takes_an_unsealed_slot_and_starts_again(phase: str) -> None:
    decision = claim(found(record(phase, epoch=4)), claimant(admission_digest="sha256:" + "2" * 64))
    assert (decision.how, decision.record.phase, decision.record.epoch, decision.attempt) == (
        "take_over",
        "CLAIMED",
        5,
        2,
    )
    assert decision.record.admission_digest == "sha256:" + "2" * 64


@pytest.mark.parametrize("phase", SEALED)
def test_the_same_operation_takes_a_sealed_slot_over_as_it_is(phase: str) -> None:
    before = record(phase, epoch=4)
    decision = claim(found(before), claimant())
    assert decision.record == evolve(before, owner=OTHER, epoch=5)


@pytest.mark.contract("I4")
@pytest.mark.parametrize("phase", SEALED)
def test_another_configuration_is_a_mismatch_once_sealed(phase: str) -> None:
    code = refusal(found(record(phase)), claimant(admission_digest="sha256:" + "2" * 64))
    assert code == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"


def test_another_inventory_is_a_mismatch_once_sealed() -> None:
    assert refusal(found(record("PREPARED")), claimant(replicas=("other",))) == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"


def test_a_failed_operation_stays_failed() -> None:
    decision = decide_claim(found(record("FAILED")), claimant())
    assert isinstance(decision, Refused)
    assert (decision.error.code, decision.error.retryable) == ("DPONE_REPLAY_QUALITY_EVIDENCE_FAILED", False)


@pytest.mark.parametrize("phase", ["CLAIMED", "PREPARED"])
def test_a_successor_waits_for_a_fresh_claim_and_supersedes_a_stale_one(phase: str) -> None:
    assert refusal(found(record(phase)), claimant("r2")) == "DPONE_REPLAY_SLOT_BUSY"
    decision = claim(found(record(phase, epoch=4), now=STALE), claimant("r2"))
    assert (decision.how, decision.record.epoch, decision.record.ended, decision.attempt) == ("supersede", 5, (), 1)


@pytest.mark.parametrize("phase", ["CLAIMED", "PREPARED", "REJECTED"])
def test_a_successor_supersedes_a_released_claim_at_once(phase: str) -> None:
    assert claim(found(record(phase, owner="")), claimant("r2")).how == "supersede"


@pytest.mark.contract("A6")
@pytest.mark.parametrize("phase", ["DISPATCHING", "COMMITTED"])
@pytest.mark.parametrize("owner", ["", "a" * 32])
def test_an_unfinished_publication_blocks_every_successor_for_ever(phase: str, owner: str) -> None:
    decision = decide_claim(found(record(phase, owner=owner), now=STALE * 100), claimant("r2"))
    assert isinstance(decision, Refused)
    assert decision.error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
    assert "run_id=r1" in decision.error.message


def test_a_complete_released_slot_is_succeeded_and_its_window_ends() -> None:
    decision = claim(found(record("COMPLETE", owner="", epoch=7)), claimant("r2"))
    assert (decision.how, decision.record.epoch) == ("succeed", 8)
    assert [item.operation_id for item in decision.record.ended] == [operation().operation_id]


def test_a_complete_held_slot_is_busy_until_stale() -> None:
    assert refusal(found(record("COMPLETE")), claimant("r2")) == "DPONE_REPLAY_SLOT_BUSY"
    assert claim(found(record("COMPLETE"), now=STALE), claimant("r2")).how == "succeed"


@pytest.mark.contract("A6")
def test_a_failed_record_is_archived_before_it_is_succeeded() -> None:
    failed = record("FAILED")
    decision = claim(found(failed), claimant("r2"))
    assert (decision.how, decision.archive) == ("succeed", failed)


@pytest.mark.contract("I7")
def test_an_operation_whose_window_has_ended_is_never_run_again() -> None:
    ended = Ended(operation_id=operation("r2").operation_id, phase="COMPLETE", capsule_digest="")
    busy = record("CLAIMED", ended=(ended,))
    for slot in (busy, evolve(busy, owner=""), record("COMPLETE", ended=(ended,), owner="")):
        assert refusal(found(slot), claimant("r2")) == "DPONE_REPLAY_WINDOW_ENDED"
    assert refusal(found(record("COMPLETE", owner="")), claimant("r2"), archived=True) == "DPONE_REPLAY_WINDOW_ENDED"


def test_ended_remembers_thirty_two_operations() -> None:
    many = tuple(Ended(operation_id=f"{n:064x}", phase="COMPLETE", capsule_digest="") for n in range(32))
    decision = claim(found(record("COMPLETE", owner="", ended=many)), claimant("r2"))
    assert len(decision.record.ended) == 32
    assert decision.record.ended[0] == many[1]
