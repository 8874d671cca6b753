"""``dpone status``: the words for every phase, and what a real server shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.cli.next_step import Sighting, next_step, relation
from dpone_provider.cli.status_report import report
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
        facts=CatalogFacts(live=NamedTable(name="t", uuid=live, comment="") if live else None, private=()),
    )
    return attrs.evolve(saw, **changes)


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("phase", "live", "told"),
    [
        ("CLAIMED", OLD, "takes over at once"),
        ("REJECTED", OLD, "the old table is untouched"),
        ("PREPARED", OLD, "publishes without the source"),
        ("DISPATCHING", OLD, "can no longer come through"),
        ("DISPATCHING", NEW, "not recorded yet"),
        ("DISPATCHING", OTHER, "nothing more is sent"),
        ("COMMITTED", NEW, "completes without the source"),
        ("COMMITTED", OTHER, "records it as FAILED"),
        ("COMPLETE", NEW, "Nothing to do"),
        ("COMPLETE", OTHER, "another table is live now"),
        ("FAILED", NEW, "Start a new run"),
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
        ({"operation": operation("r2")}, "Another operation holds the slot: run r1"),
        ({"operation": operation("r2"), "archived": True}, "never run again"),
        ({"admission_digest": "sha256:" + "1" * 64}, "finish this operation with the sealed one"),
    ],
)
def test_what_surrounds_the_slot_changes_the_next_step(paper: Desk, changes: dict[str, Any], told: str) -> None:
    assert told in next_step(attrs.evolve(sighting(paper, record("COMMITTED"), live=NEW), **changes))


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
    held = record("PREPARED", capsule=golden_capsule())
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
    held = record("PREPARED", capsule=golden_capsule(), admission_digest=admission_digest(spec))
    saw = sighting(paper, held, admission_digest=admission_digest(spec))
    assert report(saw)["asked"]["same_configuration"] is True


def golden_capsule() -> str:
    """A sealed v1 capsule of another operation: status shows a capsule, it does not check whose it is."""
    for line in (Path(__file__).parents[1] / "replay/data/capsules.jsonl").read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        if vector["accept"] and vector["state"] == "PREPARED":
            return str(vector["payload"])
    raise LookupError
