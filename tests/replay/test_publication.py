"""What an attempt does next, case by case (protocol 3, 4 and 6)."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.replay import publication as do
from dpone_provider.replay.record import AuthorityRecord
from tests.replay.records import FOREIGN, NEW, OLD, facts, operation, record

CANDIDATE = operation().candidate(1)
FENCED = operation().candidate(2)


def decide(phase: str, progress: do.Progress | None = None, **changes: Any) -> do.Action:
    return do.decide(record(phase, **changes), progress or do.Progress())


def seen(live: str | None, **private: str) -> dict[str, Any]:
    return {"single": facts(live, **private)}


def test_a_claim_stages_then_looks_then_seals() -> None:
    assert decide("CLAIMED") == do.Stage()
    assert decide("CLAIMED", do.Progress(staged=NEW)) == do.Observe("single")
    assert decide("CLAIMED", do.Progress(staged=NEW, seen=seen(OLD, e1=NEW))) == do.Seal({"single": OLD})
    assert decide("CLAIMED", do.Progress(staged=NEW, seen=seen(None, e1=NEW))) == do.Seal({"single": None})


def test_a_generation_that_is_not_under_its_name_is_rejected() -> None:
    for private in ({}, {"e1": FOREIGN}, {"e2": NEW}):
        progress = do.Progress(staged=NEW, seen=seen(OLD, **private))
        assert decide("CLAIMED", progress) == do.Reject("generation_lost")


def test_a_table_that_is_live_on_some_replicas_only_is_rejected() -> None:
    both = record("CLAIMED", replicas=("one", "two"))
    progress = do.Progress(staged=NEW, seen={"one": facts(OLD, e1=NEW), "two": facts(None, e1=NEW)})
    assert do.decide(both, progress) == do.Reject("live_on_some_replicas")


@pytest.mark.contract("P2")
def test_prepared_dispatches_only_what_is_still_there() -> None:
    assert decide("PREPARED") == do.Observe("single")
    assert decide("PREPARED", do.Progress(seen=seen(OLD, e1=NEW))) == do.Dispatch({"single": CANDIDATE})
    assert decide("PREPARED", do.Progress(seen=seen(OLD, e1=FOREIGN))) == do.Restart()


def test_the_holder_of_a_fresh_permit_sends_once_and_then_looks() -> None:
    assert decide("DISPATCHING") == do.Send("single", CANDIDATE, first=False)
    assert decide("DISPATCHING", predecessor={"single": None}) == do.Send("single", CANDIDATE, first=True)
    assert decide("DISPATCHING", do.Progress(sent=frozenset({"single"}))) == do.Observe("single")


@pytest.mark.contract("P3")
def test_an_inherited_permit_is_looked_at_before_anything_is_sent() -> None:
    assert decide("DISPATCHING", do.Progress(inherited=True)) == do.Observe("single")


@pytest.mark.contract("P3")
@pytest.mark.parametrize("inherited", [True, False])
def test_a_proven_replica_never_sees_a_second_statement(inherited: bool) -> None:
    progress = do.Progress(inherited=inherited, sent=frozenset({"single"}), seen=seen(NEW, e1=OLD))
    assert decide("DISPATCHING", progress) == do.Commit()


@pytest.mark.contract("P3")
def test_what_was_not_applied_is_fenced_then_readdressed_then_sent_once_more() -> None:
    progress = do.Progress(inherited=True, seen=seen(OLD, e1=NEW))
    assert decide("DISPATCHING", progress) == do.Fence("single", CANDIDATE, FENCED)
    fenced = do.Progress(inherited=True, seen=seen(OLD, e2=NEW), fenced={"single": FENCED})
    assert decide("DISPATCHING", fenced) == do.Readdress("single", FENCED)
    readdressed = record("DISPATCHING", epoch=2)
    assert do.decide(readdressed, fenced) == do.Send("single", FENCED, first=False)
    again = do.Progress(inherited=True, seen=seen(OLD, e2=NEW), fenced={"single": FENCED}, resent=frozenset({"single"}))
    assert do.decide(readdressed, again) == do.Stop("not_applied")


@pytest.mark.contract("P3")
def test_a_fence_that_does_not_show_its_new_name_stops() -> None:
    progress = do.Progress(inherited=True, seen=seen(OLD, e1=NEW), fenced={"single": FENCED})
    assert decide("DISPATCHING", progress) == do.Stop("fence_unclear")


def test_a_fence_finds_the_generation_by_uuid_under_any_name() -> None:
    progress = do.Progress(inherited=True, seen=seen(OLD, e7=NEW))
    assert decide("DISPATCHING", progress) == do.Fence("single", operation().candidate(7), FENCED)


@pytest.mark.contract("P4")
@pytest.mark.parametrize(("live", "private"), [(FOREIGN, {"e1": NEW}), (OLD, {}), (None, {"e1": NEW}), (None, {})])
def test_anything_else_has_diverged(live: str | None, private: dict[str, str]) -> None:
    progress = do.Progress(inherited=True, seen=seen(live, **private))
    assert decide("DISPATCHING", progress) == do.Stop("diverged")


@pytest.mark.contract("P4")
def test_a_partial_publication_resumes_at_the_replica_that_is_missing() -> None:
    both: AuthorityRecord = record(
        "DISPATCHING",
        replicas=("one", "two"),
        predecessor={"one": OLD, "two": FOREIGN},
        candidates={"one": CANDIDATE, "two": CANDIDATE},
    )
    progress = do.Progress(inherited=True, seen={"one": facts(NEW, e1=OLD), "two": facts(FOREIGN, e1=NEW)})
    assert do.decide(both, progress) == do.Fence("two", CANDIDATE, FENCED)


def test_a_commit_is_looked_at_again_before_it_completes() -> None:
    assert decide("COMMITTED") == do.Observe("single")
    assert decide("COMMITTED", do.Progress(seen=seen(NEW))) == do.Complete()
    assert decide("COMPLETE", do.Progress(seen=seen(NEW))) == do.Release()


@pytest.mark.parametrize("live", [OLD, FOREIGN, None])
def test_a_commit_that_the_server_lost_fails_and_is_never_sent_again(live: str | None) -> None:
    assert decide("COMMITTED", do.Progress(seen=seen(live, e1=NEW))) == do.Fail()
    assert decide("COMPLETE", do.Progress(seen=seen(live, e1=NEW))) == do.Stop("live_changed")
