"""What the operation before left behind, and which of it a successor may drop (protocol 4; P5)."""

from __future__ import annotations

import attrs
import pytest

from dpone_provider.manifest.spec import LoadSpec
from tests.scenarios.stage import Cue, Stage

pytestmark = pytest.mark.contract("P5")


def keeping(stage: Stage) -> LoadSpec:
    """The load, configured to keep what it replaces."""
    spec = stage.bench.spec()
    return attrs.evolve(spec, sink=attrs.evolve(spec.sink, keep_previous=True))


def test_a_successor_drops_what_a_complete_operation_had_replaced(stage: Stage) -> None:
    """It died between its release and its cleanup, and its window has ended: nobody else would."""
    stage.publish()
    stage.attempt("later", Cue("rename", fate="die")).expect("died")
    assert stage.bench.private() == [stage.candidate(1)]
    stage.attempt("successor").expect("success")
    stage.settled()


def test_a_successor_drops_the_staging_of_an_operation_that_it_supersedes(stage: Stage) -> None:
    stage.publish()
    stage.attempt("later", Cue("authority_cas", "DISPATCHING", fate="die")).expect("died")
    assert stage.bench.private() == [stage.candidate(1)]
    stage.attempt("successor", stale_after_ms=0).expect("success")
    stage.settled()
    stage.attempt("later").expect("success")
    stage.settled()


@pytest.mark.parametrize("kept_by", ["both", "the operation before"])
def test_a_successor_leaves_a_table_that_was_kept_on_purpose(stage: Stage, kept_by: str) -> None:
    stage.publish()
    stage.attempt("later", spec=keeping(stage)).expect("success")
    kept = stage.candidate(1)
    assert stage.bench.private() == [kept]
    spec = keeping(stage) if kept_by == "both" else stage.bench.spec()
    stage.attempt("successor", spec=spec).expect("success")
    assert kept in stage.bench.private()


def test_a_successor_leaves_a_published_generation_that_a_person_has_put_aside(stage: Stage) -> None:
    stage.publish()
    stage.attempt("later", spec=keeping(stage)).expect("success")
    published, aside = stage.bench.live(), stage.candidate(1)
    stage.sql(f"EXCHANGE TABLES {{db}}.t AND {{db}}.{aside}")
    stage.forget()
    stage.attempt("successor", spec=keeping(stage)).expect("success")
    assert stage.uuid(aside) == published


def test_a_successor_leaves_what_a_failed_operation_left(stage: Stage) -> None:
    """What an investigation may need."""
    stage.publish()
    back = f"EXCHANGE TABLES {{db}}.t AND {{db}}.{stage.candidate(1)}"
    took = stage.attempt("later", Cue("authority_cas", "COMMITTED", after=lambda: stage.sql(back)))
    took.expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")
    stage.forget()
    stage.attempt("successor").expect("success")
    assert stage.candidate(1) in stage.bench.private()


@pytest.mark.parametrize("at", [("insert", ""), ("authority_cas", "DISPATCHING")])
def test_a_superseded_attempt_finds_its_staging_gone_and_is_fenced(stage: Stage, at: tuple[str, str]) -> None:
    stage.publish()

    def meanwhile() -> None:
        stage.attempt("successor", stale_after_ms=0).expect("success")

    stage.attempt("later", Cue(*at, before=meanwhile)).expect("REPLAY_FENCED")  # type: ignore[arg-type]
    stage.settled()
