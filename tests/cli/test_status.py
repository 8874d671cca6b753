"""``dpone status``: the words for every phase, and what a real server shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.cli.next_step import next_step
from dpone_provider.cli.sighting import Sighting, relation
from dpone_provider.cli.status_report import report
from dpone_provider.cli.status_screen import status_screen
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.read import load_spec
from dpone_provider.replay.identity import Operation, Target
from dpone_provider.replay.ports import CatalogFacts, NamedTable
from dpone_provider.replay.record import AuthorityRecord, Ended, Found, HistoryEntry
from tests.cli.conftest import Desk
from tests.sandbox_fixture import Sql

NEW, OLD, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "abc")


def operation(run_id: str = "r1") -> Operation:
    return Operation(
        namespace="default",
        dag_id="d1",
        run_id=run_id,
        task_id="t",
        map_index=-1,
        process="p",
        target=Target(cluster="", database="demo", table="t"),
    )


def golden_capsule(state: str = "PREPARED") -> str:
    """A sealed capsule of another operation: status shows a capsule, it does not check whose it is."""
    for line in (Path(__file__).parents[1] / "replay/data/capsules.jsonl").read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        if vector["accept"] and vector["state"] == state:
            return str(vector["payload"])
    raise LookupError


def record(phase: str, **changes: Any) -> AuthorityRecord:
    sealed = phase not in ("CLAIMED", "REJECTED")
    entry = HistoryEntry(
        version=0,
        write_id="1" * 32,
        operation_id=operation().operation_id,
        phase=phase,
        epoch=1,
        attempt=1,
        at=0,
        source_reads=1,
        rows=3,
        publications=0,
    )
    made = AuthorityRecord(
        operation=operation(),
        admission_digest="sha256:" + "0" * 64,
        phase=phase,  # type: ignore[arg-type]
        epoch=1,
        owner="" if phase in ("REJECTED", "FAILED", "COMPLETE") else "2" * 32,
        claimed_at=0,
        refreshed_at=0,
        replicas=("single",),
        generation=NEW if sealed else None,
        predecessor={"single": OLD} if sealed else {},
        candidates={"single": operation().candidate(1)} if sealed else {},
        capsule=golden_capsule() if sealed else None,
        write_id="1" * 32,
        history=(entry,),
    )
    return attrs.evolve(made, **changes)


def sighting(desk: Desk, held: AuthorityRecord | None, *, live: str | None = OLD, **changes: Any) -> Sighting:
    spec = load_spec(desk.manifest)
    saw = Sighting(
        spec=spec,
        operation=operation(),
        admission_digest="sha256:" + "0" * 64,
        authority="demo.dpone_replay_authority",
        problem="",
        found=Found(record=held, version=0 if held else -1, now=1_000),
        archived=False,
        facts=CatalogFacts(
            live=NamedTable(name="t", uuid=live, comment="") if live else None,
            private=(NamedTable(name=operation().candidate(1), uuid=OLD if live == NEW else NEW, comment=""),),
        ),
    )
    return attrs.evolve(saw, **changes)


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("phase", "live", "told"),
    [
        ("CLAIMED", OLD, "takes over at once"),
        ("REJECTED", OLD, "the live table is untouched"),
        ("PREPARED", OLD, "publishes without the source"),
        ("DISPATCHING", OLD, "can no longer come through"),
        ("DISPATCHING", NEW, "not recorded yet"),
        ("DISPATCHING", OTHER, "nothing more is sent"),
        ("COMMITTED", NEW, "completes without the source"),
        ("COMMITTED", OTHER, "records it as FAILED"),
        ("COMPLETE", NEW, "Nothing to do"),
        ("COMPLETE", OTHER, "another table is live now"),
        ("FAILED", NEW, "start a new run"),
    ],
)
def test_every_phase_has_its_next_step(paper: Desk, phase: str, live: str, told: str) -> None:
    assert told in next_step(sighting(paper, record(phase), live=live))


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"found": Found(record=None, version=-1, now=0)}, "run the load"),
        ({"found": None, "problem": "The authority is missing."}, "platform owner run `dpone provision`"),
        ({"operation": operation("r2")}, "Another operation is in the slot, run r1"),
        ({"operation": operation("r2"), "archived": True}, "never run again"),
        ({"admission_digest": "sha256:" + "1" * 64}, "put the sealed one back until this operation is finished"),
    ],
)
def test_what_surrounds_the_slot_changes_the_next_step(paper: Desk, changes: dict[str, Any], told: str) -> None:
    assert told in next_step(attrs.evolve(sighting(paper, record("COMMITTED"), live=NEW), **changes))


@pytest.mark.contract("O5", "A6")
@pytest.mark.parametrize(
    ("held", "told"),
    [
        (record("CLAIMED"), "Yours may take it in 899 s"),
        (record("COMPLETE"), "its window ends then"),
        (record("COMPLETE", owner="2" * 32), "Yours may take it in 899 s"),
        (record("FAILED"), "its record goes to the archive"),
        (record("REJECTED"), "has published nothing and may start again later"),
        (record("DISPATCHING"), "yours is blocked until that one is finished"),
    ],
)
def test_another_operation_is_told_when_it_may_go_on(paper: Desk, held: AuthorityRecord, told: str) -> None:
    assert told in next_step(sighting(paper, held, operation=operation("r2")))


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("held", "told"),
    [
        (record("PREPARED"), "stages again from the source"),
        (record("DISPATCHING"), "The sealed generation is gone: nothing more is sent"),
    ],
)
def test_a_sealed_generation_that_is_gone_is_told(paper: Desk, held: AuthorityRecord, told: str) -> None:
    live = NamedTable(name="t", uuid=OLD, comment="")
    assert told in next_step(sighting(paper, held, facts=CatalogFacts(live=live, private=())))


@pytest.mark.contract("O5", "P4")
def test_a_first_publication_that_is_not_applied_has_no_live_table(paper: Desk) -> None:
    held = record("DISPATCHING", predecessor={"single": None})
    saw = sighting(paper, held, live=None)
    assert "sends one more" in next_step(saw)
    values = {fact.label: fact.value for fact in status_screen(report(saw)).facts}
    assert values["Is the new table live?"] == "no: there is no live table"


@pytest.mark.contract("O5")
@pytest.mark.parametrize("phase", ["COMMITTED", "COMPLETE"])
def test_a_generation_whose_table_was_dropped_is_told(paper: Desk, phase: str) -> None:
    assert "there is no live table now" in next_step(sighting(paper, record(phase), live=None))


@pytest.mark.contract("O5", "D4")
@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("", "run the load"),
        (f"sales\n{operation().mark(0)}", "run the load"),
        (f"sales\n{operation().mark(7)}", "the operation asked for published the live table"),
        (operation("r9").mark(1), "an operation published the live table"),
    ],
)
def test_a_live_table_that_an_empty_authority_does_not_know_is_told(paper: Desk, comment: str, told: str) -> None:
    live = NamedTable(name="t", uuid=NEW, comment=comment)
    assert told in next_step(sighting(paper, None, facts=CatalogFacts(live=live, private=())))


@pytest.mark.contract("O5", "G2")
@pytest.mark.parametrize(
    ("owner", "age", "told"),
    [
        ("", 1, "has given the slot back"),
        ("2" * 32, 5, "ends within 60 s"),
        ("2" * 32, 64, "ends within 1 s"),
        ("2" * 32, 65, "still holds the slot"),
    ],
)
def test_a_pending_observation_is_told_with_what_is_left_of_it(paper: Desk, owner: str, age: int, told: str) -> None:
    held = record("COMMITTED", owner=owner, capsule=golden_capsule("TARGET_PENDING"))
    version = json.loads(held.capsule or "")["completion"][0]["authority_version"]
    saw = sighting(paper, held, live=NEW, found=Found(record=held, version=version, now=age * 1000))
    assert told in next_step(saw)
    assert "however long it takes" in next_step(saw)


@pytest.mark.contract("O5")
def test_an_ended_window_is_named(paper: Desk) -> None:
    ended = Ended(operation_id=operation("r0").operation_id, phase="COMPLETE", capsule_digest="")
    saw = sighting(paper, record("COMPLETE", ended=(ended,)), live=NEW, operation=operation("r0"))
    assert relation(saw) == "ended"


@pytest.mark.contract("O5")
def test_age_is_told_by_the_servers_clock_and_a_stale_claim_may_be_taken(paper: Desk) -> None:
    fresh = sighting(paper, record("CLAIMED"), found=Found(record=record("CLAIMED"), version=0, now=60_000))
    stale = attrs.evolve(fresh, found=Found(record=record("CLAIMED"), version=0, now=900_001))
    assert report(fresh)["slot"]["age_seconds"] == 60.0
    assert "in 840 s at the earliest" in next_step(fresh)
    assert "run the next one" in next_step(stale)


@pytest.mark.contract("O5")
def test_private_tables_are_told_apart(paper: Desk) -> None:
    names = {NEW: "sealed generation", OLD: "predecessor", OTHER: "leftover"}
    private = tuple(NamedTable(name=f"t__dpone_{index}", uuid=uuid, comment="") for index, uuid in enumerate(names))
    held = record("PREPARED")
    saw = sighting(paper, held, facts=CatalogFacts(live=None, private=private))
    assert [table["what"] for table in report(saw)["private_tables"]] == list(names.values())


@pytest.mark.contract("O5")
def test_an_unused_authority_is_no_problem(desk: Desk) -> None:
    desk.write_manifest(durable="false")
    document = desk.status().document
    assert document["authority"]["state"] == "not used"
    assert "Nothing to finish" in document["next_step"]


@pytest.mark.contract("O5")
def test_a_missing_authority_is_told_and_not_created(desk: Desk, sql: Sql) -> None:
    sql(f"DROP TABLE {desk.database}.dpone_replay_authority SYNC")
    ran = desk.status()
    assert ran.code == 0
    assert ran.document["authority"]["state"] == "unsupported"
    assert "dpone provision" in ran.document["next_step"]
    assert sql(f"SELECT count() FROM system.tables WHERE database = '{desk.database}'") == [(0,)]


@pytest.mark.contract("O5")
def test_an_empty_slot_is_told(desk: Desk) -> None:
    document = desk.status().document
    assert document["slot"] is None
    assert document["asked"]["relation"] == "none"
    assert document["authority"] == {
        "state": "provisioned",
        "table": f"{desk.database}.dpone_replay_authority",
        "problem": None,
    }


@pytest.mark.contract("O5")
def test_a_row_that_cannot_be_trusted_is_an_error(desk: Desk, sql: Sql) -> None:
    key = Target(cluster="", database=desk.database, table="t").key
    sql(f"INSERT INTO {desk.database}.dpone_replay_authority VALUES ('{key}', 'x', 'COMPLETE', '', '{{}}', 'x')")
    ran = desk.status()
    assert (ran.code, ran.document["error_code"]) == (1, "DPONE_REPLAY_QUALITY_EVIDENCE_INVALID")


@pytest.mark.contract("O5")
def test_the_configuration_asked_for_is_compared_with_the_sealed_one(paper: Desk) -> None:
    spec = load_spec(paper.manifest)
    held = record("PREPARED", admission_digest=admission_digest(spec))
    saw = sighting(paper, held, admission_digest=admission_digest(spec))
    assert report(saw)["asked"]["same_configuration"] is True
