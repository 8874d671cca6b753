"""The historical matrix of docs/recovery.md: what an earlier state may become, on a real authority (D4).

Nothing that is known today is ever promoted to what was not sealed at its time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider import canonical
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.replay.record import AuthorityRecord
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest
from dpone_provider.runtime.sink import ClickHouseSink
from tests.loads import endpoint_of
from tests.scenarios.stage import Cue, Stage, Took

INERT: dict[str, Any] = {"gates": []}
COMPLETES = "move the slot to COMPLETE"


@attrs.define
class CountingReader:
    """Counts honestly. ``asked``: how often it was asked for anything."""

    stage: Stage
    asked: int = 0

    def ready(self) -> None:
        self.asked += 1

    def reserve(self, request: TargetRequest) -> None:
        self.asked += 1

    def collect(self, request: TargetRequest, *, deadline: float) -> TargetCounts:
        self.asked += 1
        ids = self.stage.bench.ids()
        return TargetCounts(
            replica=request.replicas[0],
            attempt_id=request.attempt_id,
            row_count=len(ids),
            null_counts={"id": 0},
            distinct_counts={"id": len(set(ids))},
        )


def observing(stage: Stage, run_id: str, reader: CountingReader) -> Took:
    """One attempt with today's manifest asking for the target."""
    sink = ClickHouseSink(endpoint_of(stage.bench.sandbox), True, target_acceptance_reader=reader)
    return stage.attempt(run_id, spec=stage.bench.spec(target=True), sink=sink)


def capsule_of(record: AuthorityRecord) -> QualityReplayCapsule:
    assert record.capsule is not None
    return QualityReplayCapsule.parse(record.capsule)


@pytest.fixture
def loaded(stage: Stage) -> LoadOutcome:
    """A complete v1 operation with gates and acceptance, run ``old``."""
    stage.publish()
    outcome = stage.attempt("old").expect("success").outcome
    assert outcome is not None
    return outcome


@pytest.fixture
def committed(stage: Stage) -> AuthorityRecord:
    """The same operation, published; its attempt died before it completed the proof."""
    stage.publish()
    stage.attempt("old", Cue("authority_cas", COMPLETES, fate="die")).expect("died")
    return stage.bench.record()


# -- inert -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("D4", "Q7")
def test_an_operation_without_gates_recovers_as_it_always_did_and_gains_no_claim(stage: Stage) -> None:
    stage.publish()
    spec = stage.bench.spec(**INERT)
    stage.attempt("old", Cue("exchange", fate="apply_die"), spec=spec).expect("died")
    took = stage.attempt("old", spec=spec).expect("success").read_no_source().published_nothing()
    assert took.outcome is not None
    result = took.outcome.quality_replay
    assert result is not None
    assert result["quality_gates"]["results"] == []
    assert result["acceptance"] == {"source": None, "staged": None}
    assert capsule_of(stage.bench.record()).kind == "dpone.quality.replay.v1"
    stage.settled()


@pytest.mark.contract("D4")
def test_gates_that_are_added_later_are_not_claimed_for_an_operation_that_had_none(stage: Stage) -> None:
    stage.publish()
    stage.attempt("old", spec=stage.bench.spec(**INERT)).expect("success")
    before = stage.bench.record()
    stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_MISMATCH").read_no_source()
    assert stage.bench.record() == before


@pytest.mark.contract("D4")
def test_a_load_with_the_selector_off_is_never_answered_as_a_proven_one(stage: Stage) -> None:
    stage.publish()
    stage.attempt("old", spec=stage.bench.spec(durable=False)).expect("success")
    assert stage.bench.slot() == (None, -1)
    took = stage.attempt("old").expect("success")
    assert took.wire.counts()["source_open"] == 1
    assert took.outcome is not None
    assert not took.outcome.replayed


# -- no proof --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("D4", "G6")
@pytest.mark.parametrize("phase", ["COMMITTED", "COMPLETE"])
def test_a_published_operation_without_a_proof_is_required_and_never_adopted(
    stage: Stage, committed: AuthorityRecord, phase: Any
) -> None:
    """Its table, counts and UUID are all as they should be; that is no proof."""
    stage.rewrite(attrs.evolve(committed, capsule=None, phase=phase))
    for _ in range(2):
        took = stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_REQUIRED").read_no_source().published_nothing()
        assert took.error is not None
        assert (took.error.retryable, took.error.target_commit) == (False, "proven")
        record = stage.bench.record()
        assert (record.phase, record.capsule, record.generation) == (phase, None, stage.bench.live())


@pytest.mark.contract("D4", "A6")
def test_an_operation_without_a_proof_blocks_a_successor_that_would_bypass_it(
    stage: Stage, committed: AuthorityRecord
) -> None:
    stage.rewrite(attrs.evolve(committed, capsule=None))
    before = stage.bench.record()
    stage.attempt("next").expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source()
    assert stage.bench.record() == before


Material = Callable[[LoadOutcome], Any]
MATERIAL: dict[str, Material] = {
    "result document": lambda outcome: outcome.quality_replay,
    "gate report": lambda outcome: outcome.gates,
    "counts": lambda outcome: outcome.acceptance,
    "core alone": lambda outcome: {"core_digest": (outcome.quality_replay or {})["core_digest"]},
    "row count": lambda outcome: {"row_count": outcome.final_rows},
    "receipt": lambda outcome: {"kind": "dpone.quality.gates.receipt", "passed": True, "run_id": "old"},
}


@pytest.mark.contract("D4", "C2")
@pytest.mark.parametrize("what", MATERIAL)
def test_what_an_old_run_left_behind_cannot_stand_in_for_a_capsule(
    stage: Stage, loaded: LoadOutcome, what: str
) -> None:
    material = canonical.encode(json.loads(json.dumps(MATERIAL[what](loaded))))
    sealed = stage.bench.record()
    for phase in ("COMMITTED", "COMPLETE"):
        stage.rewrite(attrs.evolve(sealed, phase=phase, capsule=material))  # type: ignore[arg-type]
        stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_INVALID").read_no_source().published_nothing()
        assert (stage.bench.record().phase, stage.bench.record().capsule) == (phase, material)


@pytest.mark.contract("D4", "Q4")
def test_a_live_receipt_of_the_same_process_replaces_no_proof(stage: Stage, loaded: LoadOutcome) -> None:
    """The first load's receipt was issued and used up in this very process."""
    assert loaded.quality_replay is not None
    stage.rewrite(attrs.evolve(stage.bench.record(), phase="COMMITTED", capsule=None))
    stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_REQUIRED")


@pytest.mark.contract("D4", "G8")
def test_a_capsule_of_another_operation_completes_nothing(stage: Stage, committed: AuthorityRecord) -> None:
    stage.attempt("old").expect("success")
    stage.attempt("next", Cue("authority_cas", COMPLETES, fate="die")).expect("died")
    stage.rewrite(attrs.evolve(stage.bench.record(), capsule=committed.capsule))
    stage.attempt("next").expect("REPLAY_QUALITY_EVIDENCE_MISMATCH").read_no_source()
    assert stage.bench.record().phase == "FAILED"


# -- a v1 proof and a target -----------------------------------------------------------------------------------------


@pytest.mark.contract("D4", "C7", "P7")
def test_a_v1_proof_without_a_target_completes_as_it_is(stage: Stage, committed: AuthorityRecord) -> None:
    reader = CountingReader(stage)
    sink = ClickHouseSink(endpoint_of(stage.bench.sandbox), True, target_acceptance_reader=reader)
    took = stage.attempt("old", sink=sink).expect("success").read_no_source().published_nothing()
    capsule = capsule_of(stage.bench.record())
    assert (capsule.kind, capsule.core_digest) == ("dpone.quality.replay.v1", capsule_of(committed).core_digest)
    assert [(link.state, link.target) for link in capsule.completion] == [("COMPLETE", {})]
    assert took.outcome is not None
    assert took.outcome.quality_replay is not None
    assert took.outcome.quality_replay["kind"] == "dpone.quality.replay.result.v1"
    assert (reader.asked, took.wire.counts()["observe"]) == (0, 0)


@pytest.mark.contract("D4", "C5")
@pytest.mark.parametrize("phase", ["COMMITTED", "COMPLETE"])
def test_todays_wish_for_a_target_is_not_added_to_a_v1_proof(
    stage: Stage, committed: AuthorityRecord, phase: str
) -> None:
    if phase == "COMPLETE":
        stage.attempt("old").expect("success")
    before, reader = stage.bench.slot(), CountingReader(stage)
    took = observing(stage, "old", reader).expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")
    took.read_no_source().published_nothing()
    assert stage.bench.slot() == before
    assert (reader.asked, took.wire.counts()["observe"]) == (0, 0)
    stage.attempt("old").expect("success")
    assert capsule_of(stage.bench.record()).core_digest == capsule_of(committed).core_digest


@pytest.mark.contract("D4", "C3")
def test_a_later_scan_that_passes_cannot_be_put_into_a_v1_proof(stage: Stage, committed: AuthorityRecord) -> None:
    complete = capsule_of(committed).complete(stage.bench.slot()[1])
    forged = json.loads(complete.encode())
    forged["completion"][0]["target"] = {"kind": "dpone.quality.target-observation.v1", "row_count": 7}
    stage.rewrite(attrs.evolve(committed, phase="COMPLETE", capsule=canonical.encode(forged)))
    before = stage.bench.record().capsule
    stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_INVALID").read_no_source()
    assert stage.bench.record().capsule == before


@pytest.mark.contract("D4")
def test_a_new_assessment_is_a_new_operation_and_completes_no_old_one(stage: Stage, loaded: LoadOutcome) -> None:
    assert loaded.quality_replay is not None
    old = stage.bench.record()
    took = observing(stage, "assessment", CountingReader(stage)).expect("success")
    assert took.wire.counts()["source_open"] == 1
    new = stage.bench.record()
    assert new.generation != old.generation
    assert capsule_of(new).core["run_id"] == "assessment"
    (ended,) = new.ended
    assert (ended.operation_id, ended.phase) == (old.operation.operation_id, "COMPLETE")
    assert ended.capsule_digest == old.capsule_digest
    stage.attempt("old").expect("REPLAY_WINDOW_ENDED").read_no_source()


# -- the authority itself ------------------------------------------------------------------------------------------


@pytest.mark.contract("D4", "A1", "A7")
@pytest.mark.parametrize(
    "instead",
    [
        pytest.param((), id="missing"),
        pytest.param(("{columns} ENGINE = MergeTree ORDER BY target_key",), id="another engine"),
        pytest.param(("{columns} ENGINE = KeeperMap('/dpone/{{uuid}}') PRIMARY KEY target_key",), id="a macro path"),
        pytest.param(("(target_key String, record String) ENGINE = KeeperMap('/dpone/{db}x') PRIMARY KEY target_key",),
                     id="another schema"),
    ],
)  # fmt: skip
def test_a_missing_or_replaced_authority_blocks_and_is_not_repaired(
    stage: Stage, committed: AuthorityRecord, instead: tuple[str, ...]
) -> None:
    names = ["target_key", "operation_id", "phase", "owner", "record", "record_sha256"]
    columns = f"({', '.join(f'{name} String' for name in names)})"
    stage.sql("DROP TABLE {db}.dpone_replay_authority SYNC")
    for rest in instead:
        place = rest.format(columns=columns, db=stage.bench.database).replace("{", "{{").replace("}", "}}")
        stage.sql(f"CREATE TABLE {{db}}.dpone_replay_authority {place}")
    for run_id in ("old", "next"):
        took = stage.attempt(run_id).expect("REPLAY_AUTHORITY_UNSUPPORTED").read_no_source().published_nothing()
        assert took.wire.counts()["create_table"] == 0
    assert stage.bench.live() == committed.generation


@pytest.mark.contract("D4")
def test_an_empty_authority_in_its_place_neither_adopts_nor_repeats_what_is_live(
    stage: Stage, loaded: LoadOutcome
) -> None:
    """The live table carries this operation's mark, UUID and rows. It is not loaded again, nor called complete."""
    stage.sql("DROP TABLE {db}.dpone_replay_authority SYNC")
    stage.bench.provision()
    took = stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_REQUIRED").read_no_source().published_nothing()
    assert took.wire.counts()["authority_create"] == 0
    assert took.error is not None
    assert (took.error.retryable, took.error.target_commit) == (False, "unknown")
    assert stage.bench.live() == loaded.generation
    stage.attempt("next").expect("success")


RESTORED = {
    "DISPATCHING": ("REPLAY_PUBLICATION_DIVERGED", "DISPATCHING"),
    "COMMITTED": ("REPLAY_QUALITY_EVIDENCE_MISMATCH", "FAILED"),
    "COMPLETE": ("REPLAY_QUALITY_EVIDENCE_MISMATCH", "COMPLETE"),
}


@pytest.mark.contract("D4", "A5", "P3")
@pytest.mark.parametrize("moment", RESTORED)
def test_an_authority_that_was_restored_to_an_older_moment_is_blocked_by_the_live_table(
    stage: Stage, moment: str
) -> None:
    """Keeper comes back as it was at ``moment`` of run ``old``; meanwhile ``next`` has published."""
    stage.publish()
    dies = {"DISPATCHING": Cue("exchange", fate="die"), "COMMITTED": Cue("authority_cas", COMPLETES, fate="die")}
    stage.attempt("old", *(cue for phase, cue in dies.items() if phase == moment))
    older = stage.bench.record()
    assert older.phase == moment
    stage.attempt("old").expect("success")
    stage.attempt("next").expect("success")
    live = stage.bench.live()
    stage.rewrite(older)
    result, phase = RESTORED[moment]
    stage.attempt("old").expect(result).read_no_source().published_nothing()
    assert (stage.bench.record().phase, stage.bench.live()) == (phase, live)


@pytest.mark.contract("D4", "C3")
def test_a_proof_that_is_newer_than_its_row_is_refused(stage: Stage, loaded: LoadOutcome) -> None:
    """A row of an older Keeper under a capsule of a newer one: the chain names a version that is not there yet."""
    assert loaded.quality_replay is not None
    record, version = stage.bench.slot()
    assert record is not None
    assert record.capsule is not None
    ahead = json.loads(record.capsule)
    ahead["completion"][0]["authority_version"] = version + 100
    stage.rewrite(attrs.evolve(record, capsule=canonical.encode(ahead)))
    before = stage.bench.record().capsule
    stage.attempt("old").expect("REPLAY_QUALITY_EVIDENCE_MISMATCH", "REPLAY_QUALITY_EVIDENCE_INVALID").read_no_source()
    assert stage.bench.record().capsule == before
