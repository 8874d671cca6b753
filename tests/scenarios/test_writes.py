"""Every write of the slot, lost, late or believed (protocol 9: 9; B13)."""

from __future__ import annotations

import pytest

from tests.loads import endpoint_of
from tests.scenarios.stage import Cue, Fate, Stage
from tests.wirelab import TcpProxy

# name -> (effect kind, what, nth of that in an attempt that starts from nothing)
WRITES = {
    "claim": ("authority_create", "create", 1),
    "prepared": ("authority_cas", "PREPARED", 1),
    "dispatching": ("authority_cas", "DISPATCHING", 1),
    "committed": ("authority_cas", "COMMITTED", 1),
    "complete": ("authority_cas", "COMPLETE", 1),
    "release": ("authority_cas", "COMPLETE", 2),
}
EVERY_WRITE = pytest.mark.parametrize("write", [*WRITES, "takeover", "readdress"])
SEALED = ("dispatching", "committed", "complete", "release", "readdress")


def cue_of(write: str, fate: Fate) -> tuple[Cue, ...]:
    """The cue at one write, and what must come before it."""
    if write == "takeover":
        return (Cue("authority_cas", "CLAIMED", fate=fate),)
    if write == "readdress":  # the CAS between a fence and the second statement
        return (Cue("authority_cas", "DISPATCHING", nth=2, fate=fate), Cue("exchange", fate="hold_lose"))
    kind, what, nth = WRITES[write]
    return (Cue(kind, what, nth=nth, fate=fate),)  # type: ignore[arg-type]


def set_up(stage: Stage, write: str) -> None:
    stage.publish()
    if write == "takeover":
        stage.attempt("later", Cue("insert", fate="die")).expect("died")


@pytest.mark.contract("A2", "A3", "P6", "G6")
@EVERY_WRITE
def test_a_write_that_lands_after_a_takeover_changes_nothing(stage: Stage, write: str) -> None:
    """Scenario 9, applied late: the sender is dead, a later attempt has taken over and finished."""
    set_up(stage, write)
    cues = cue_of(write, "hold_die")
    stage.attempt("later", *cues).expect("died")
    took = stage.attempt("later").expect("success")
    if write in SEALED:
        took.read_no_source()
    before = stage.bench.slot()
    cues[0].land()
    assert stage.bench.slot() == before
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("A2", "A3", "A8")
@EVERY_WRITE
def test_a_write_that_lands_while_a_later_attempt_works_changes_nothing(stage: Stage, write: str) -> None:
    """Scenario 9, applied late: it lands right after the later attempt's claim and right before its last write."""
    set_up(stage, write)
    cues = cue_of(write, "hold_die")
    stage.attempt("later", *cues).expect("died")
    nth = 1 if stage.bench.slot()[0] is not None else 2  # an empty slot has the facts read before its claim too
    after_claim = Cue("catalog_read", "facts", nth=nth, before=cues[0].land)
    took = stage.attempt("later", after_claim).expect("success")
    if write in SEALED:
        took.read_no_source()
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("A3", "G5", "G6")
@EVERY_WRITE
def test_a_write_whose_acknowledgement_is_lost_is_decided_by_reading_back(stage: Stage, write: str) -> None:
    """Scenario 9, lost acknowledgement: it was applied, so the same attempt goes on and sends it only once."""
    set_up(stage, write)
    took = stage.attempt("later", *cue_of(write, "apply_lose")).expect("success")
    assert took.wire.switches() == 1
    record = stage.bench.record()
    ids = [entry.write_id for entry in record.history]
    assert len(set(ids)) == len(ids)
    stage.settled()


@pytest.mark.contract("A3", "P2", "G5", "G6")
@EVERY_WRITE
@pytest.mark.parametrize("fate", ["hold_ok", "hold_lose"])
def test_a_write_that_is_not_seen_is_unknown_whatever_was_acknowledged(stage: Stage, write: str, fate: Fate) -> None:
    """Scenario 9, OK but old version: no permit, no success; a later attempt decides, and the late write is nothing."""
    set_up(stage, write)
    cues = cue_of(write, fate)
    took = stage.attempt("later", *cues).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE")
    assert took.error is not None
    assert took.error.retryable
    kind = cues[0].kind
    assert [effect.kind for effect in took.wire.sent][-2:] == [kind, "authority_read"], "it went on after an Unknown"
    if write not in ("committed", "complete", "release"):
        assert took.wire.switches() == 0
    stage.attempt("later").expect("success")
    before = stage.bench.slot()
    cues[0].land()
    assert stage.bench.slot() == before
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("A3", "P2")
def test_a_permit_that_lands_before_its_read_back_is_verified(stage: Stage) -> None:
    """Scenario 9: the answer is lost and the server is slow; what counts is the row that the attempt then reads."""
    stage.publish()
    slow = Cue("authority_cas", "DISPATCHING", fate="hold_lose")

    def land() -> None:
        if slow.held is not None:
            slow.land()

    reads = [Cue("authority_read", nth=number, before=land, optional=True) for number in range(1, 12)]
    took = stage.attempt("later", slow, *reads).expect("success")
    assert took.wire.switches() == 1
    stage.settled()


@pytest.mark.contract("A2", "A4")
def test_every_write_is_strict_without_retries_and_sent_once_over_a_torn_wire(stage: Stage) -> None:
    """B13: the reply of one KeeperMap write is torn off the wire; the server has seen each write exactly once."""
    stage.publish()
    with TcpProxy(stage.bench.sandbox.tcp_port) as proxy:
        torn = proxy.rule("lose_reply", match=b"ALTER TABLE")
        took = stage.attempt("later", endpoint=endpoint_of(stage.bench.sandbox, native_port=proxy.port))
        took.expect("success")
        assert torn.fired.is_set()
        assert proxy.seen(b"ALTER TABLE") == took.wire.counts()["authority_cas"]
    stage.sql("SYSTEM FLUSH LOGS query_log")
    writes = stage.sql(
        "SELECT query_kind, Settings['keeper_map_strict_mode'], Settings['insert_keeper_max_retries'], "
        "Settings['keeper_max_retries'] FROM system.query_log WHERE type = 'QueryStart' AND is_initial_query "
        "AND query_kind IN ('Alter', 'Insert') AND position(query, '{db}') > 0 "
        "AND position(query, 'dpone_replay_authority') > 0 AND position(query, 'query_log') = 0"
    )
    assert len(writes) == took.wire.counts()["authority_cas"] + took.wire.counts()["authority_create"]
    assert {row[1:] for row in writes} == {("1", "0", "0")}
    stage.settled()


@pytest.mark.contract("A2", "A8")
def test_of_two_writers_on_one_version_one_wins_and_the_other_is_told(stage: Stage) -> None:
    """B13: both claims were decided on the same version; the second one finds a newer row and writes nothing."""
    stage.publish()
    stage.attempt("later", Cue("insert", fate="die")).expect("died")
    rival = Cue("authority_cas", "CLAIMED", before=lambda: stage.attempt("later").expect("success"))
    stage.attempt("later", rival).expect("REPLAY_SLOT_BUSY").read_no_source()
    stage.settled()


@pytest.mark.contract("A2", "A8")
def test_of_two_first_claims_one_wins_and_the_other_is_told(stage: Stage) -> None:
    """B13: two strict inserts of one key; the loser stages nothing."""
    stage.publish()
    rival = Cue("authority_create", before=lambda: stage.attempt("later").expect("success"))
    stage.attempt("later", rival).expect("REPLAY_SLOT_BUSY").read_no_source()
    stage.settled()
