"""Sources that fail, retries after failures, leftovers, foreign tables, the cost of a retry (P5, P7, P8)."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from dpone_provider.manifest.spec import FileSource, LoadSpec
from dpone_provider.wire import EffectKind
from tests.scenarios.stage import Cue, Stage

OLD = list(range(100, 105))


def small_blocks(spec: LoadSpec) -> LoadSpec:
    """The load, reading its source a kilobyte at a time."""
    if not isinstance(spec.source, FileSource):
        raise LookupError("not a file")
    return attrs.evolve(spec, source=attrs.evolve(spec.source, options=(("block_size", 1024),)))


def dies_at_row_zero(stage: Stage) -> None:
    (stage.bench.folder / "source.csv").unlink()


def dies_in_its_first_row(stage: Stage) -> None:
    (stage.bench.folder / "source.csv").write_text("id,name\n1,n1,and more\n", encoding="utf-8")


def dies_midway(stage: Stage) -> None:
    stage.bench.write(200, 2000)
    with (stage.bench.folder / "source.csv").open("a", encoding="utf-8") as file:
        file.write("7,n7,and more\n")


def is_empty(stage: Stage) -> None:
    (stage.bench.folder / "source.csv").write_text("id,name\n", encoding="utf-8")


SOURCES = {
    dies_at_row_zero: "SOURCE_NOT_FOUND",
    dies_in_its_first_row: "SOURCE_INVALID",
    dies_midway: "SOURCE_INVALID",
    is_empty: "QUALITY_GATES_FAILED",
}


@pytest.mark.contract("P8")
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])
@pytest.mark.parametrize("breaks", SOURCES)
def test_a_source_that_fails_leaves_the_live_table_alone(
    stage: Stage, breaks: Callable[[Stage], None], durable: bool
) -> None:
    """B22: at row 0, in its first row, midway, or empty where min_rows forbids it; then the same identity succeeds."""
    stage.publish()
    live = stage.bench.live()
    breaks(stage)
    spec = small_blocks(stage.bench.spec(durable=durable))
    took = stage.attempt("later", spec=spec).expect(SOURCES[breaks]).published_nothing()
    assert took.error is not None
    assert took.error.target_commit == "not_started"
    if breaks is dies_midway:
        assert took.wire.counts()["insert"] == 1
        assert took.wire.counts()["source_read"] > 2
    assert (stage.bench.live(), stage.bench.ids(), stage.bench.private()) == (live, OLD, [])
    stage.bench.write(200, 7)
    stage.attempt("later", spec=spec).expect("success")
    assert (stage.bench.ids(), stage.bench.private()) == (list(range(200, 207)), [])


@pytest.mark.contract("A6", "P8")
def test_a_retry_after_a_failure_before_the_commit_starts_again(stage: Stage) -> None:
    """B28: REJECTED and CLAIMED start again under the same identity, as often as it takes; only a commit is final."""
    stage.publish()
    is_empty(stage)
    for _ in range(2):
        stage.attempt("later").expect("QUALITY_GATES_FAILED")
        record = stage.bench.record()
        assert (record.phase, record.owner) == ("REJECTED", "")
    stage.bench.write(200, 7)
    stage.attempt("later", Cue("insert", fate="die")).expect("died")
    assert stage.bench.record().phase == "CLAIMED"
    stage.attempt("later").expect("success")
    stage.attempt("later").expect("success").read_no_source().published_nothing()
    stage.settled()


POINTS = {
    "after create": Cue("create_table", fate="apply_die"),
    "in the insert": Cue("source_read", nth=2, fate="die"),
    "after the insert": Cue("insert", fate="apply_die"),
    "before the seal": Cue("authority_cas", "PREPARED", fate="die"),
}


@pytest.mark.contract("P5", "P6")
@pytest.mark.parametrize(
    ("point", "durable"),
    [*((point, True) for point in POINTS), *((point, False) for point in POINTS if point != "before the seal")],
)
def test_a_run_killed_while_staging_leaks_nothing(stage: Stage, point: str, durable: bool) -> None:
    """B21, B25: three runs in a row die there; the next one sweeps what they left; the live table never saw it."""
    stage.publish()
    spec = stage.bench.spec(durable=durable)
    for _ in range(3):
        stage.attempt("later", attrs.evolve(POINTS[point]), spec=spec).expect("died")
        assert stage.bench.ids() == OLD
        assert len(stage.bench.private()) == 1  # the own one: its predecessor's was swept
    stage.attempt("later", spec=spec).expect("success")
    assert (stage.bench.ids(), stage.bench.private()) == (list(range(200, 207)), [])


@pytest.mark.contract("P5")
@pytest.mark.parametrize("where", ["below", "above", "trash"])
def test_a_foreign_table_under_the_private_prefix_is_left_alone_and_reported(stage: Stage, where: str) -> None:
    """Somebody's table under a name that looks like ours: its comment does not name the operation."""
    stage.publish()
    names = {"below": stage.candidate(0), "above": stage.candidate(2), "trash": stage.operation().trash(0, "a" * 32)}
    name = names[where]
    other = stage.operation("earlier").mark(1)
    stage.sql(f"CREATE TABLE {{db}}.{name} (x Int8) ENGINE = MergeTree ORDER BY x COMMENT '{other}'")
    uuid = stage.uuid(name)
    took = stage.attempt("later").expect("success")
    assert took.leftovers == (name,)
    assert stage.uuid(name) == uuid
    stage.settled(private=(name,))


@pytest.mark.contract("P5")
def test_a_foreign_table_under_the_very_name_of_the_candidate_is_left_alone(stage: Stage) -> None:
    """The staging fails on it, drops nothing of it, and the next epoch has another name."""
    stage.publish()
    name = stage.candidate(1)
    stage.sql(f"CREATE TABLE {{db}}.{name} (x Int8) ENGINE = MergeTree ORDER BY x")
    uuid = stage.uuid(name)
    stage.attempt("later").expect("STAGING_FAILED").published_nothing()
    assert stage.uuid(name) == uuid
    took = stage.attempt("later").expect("success")
    assert took.leftovers == (name,)
    stage.settled(private=(name,))


@pytest.mark.contract("P7")
@pytest.mark.parametrize("phase", ["COMMITTED", "COMPLETE"])
def test_a_committed_retry_costs_the_server_no_insert_no_create_and_no_switch(stage: Stage, phase: str) -> None:
    """Counted by the server itself; the source is gone, so it cannot even have been opened."""
    stage.publish()
    if phase == "COMMITTED":
        stage.attempt("later", Cue("authority_cas", "COMPLETE", fate="die")).expect("died")
    else:
        stage.attempt("later").expect("success")
    (stage.bench.folder / "source.csv").unlink()
    before = kinds(stage)
    assert before["Insert"] >= 1  # the counting sees what it should see
    took = stage.attempt("later").expect("success").read_no_source().published_nothing()
    assert took.outcome is not None
    assert (took.outcome.extracted_rows, took.outcome.inserted_rows, took.outcome.final_rows) == (0, 0, 7)
    after = kinds(stage)
    new = {kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)}
    # only a COMMITTED one still has its predecessor to drop, under its last name
    assert new.keys() <= {"Select", "Alter"} | ({"Rename", "Drop"} if phase == "COMMITTED" else set())
    assert new.get("Rename", 0) <= 1
    stage.settled()


def kinds(stage: Stage) -> dict[str, int]:
    """How many statements of each kind the server has started in this database so far; EXCHANGE apart from RENAME."""
    stage.sql("SYSTEM FLUSH LOGS query_log")
    rows = stage.sql(
        "SELECT if(startsWith(query, 'EXCHANGE'), 'Exchange', query_kind), count() FROM system.query_log "
        "WHERE type = 'QueryStart' AND is_initial_query AND client_name LIKE '%dpone%' AND position(query, '{db}') > 0 "
        "GROUP BY 1"
    )
    return {str(kind): int(count) for kind, count in rows}


@pytest.mark.contract("P3", "P5", "P6")
@pytest.mark.parametrize("moment", ["rename", "drop"])
def test_a_late_exchange_of_the_plain_route_drops_nothing_that_was_live(stage: Stage, moment: EffectKind) -> None:
    """Without the authority: the EXCHANGE lands while the staging, believed unpublished, is being withdrawn."""
    stage.publish()
    old = stage.bench.live()
    spec = stage.bench.spec(durable=False)
    late = Cue("exchange", fate="hold_lose")
    took = stage.attempt("later", late, Cue(moment, before=late.land), spec=spec).expect("PUBLICATION_UNCERTAIN")
    assert took.error is not None
    assert took.error.target_commit == "unknown"
    if moment == "rename":  # it came first: published, and the old table is still there
        assert stage.bench.ids() == list(range(200, 207))
        assert [stage.uuid(name) for name in stage.bench.private()] == [old]
    else:  # it came too late: its name was gone
        assert (stage.bench.live(), stage.bench.private()) == (old, [])


@pytest.mark.contract("P5", "P6")
def test_a_late_exchange_of_a_dead_plain_run_meets_the_sweep_of_the_next(stage: Stage) -> None:
    """Without the authority: the dead run's EXCHANGE lands when the next run has checked its leftover and drops it."""
    stage.publish()
    spec = stage.bench.spec(durable=False)
    late = Cue("exchange", fate="hold_die")
    stage.attempt("later", late, spec=spec).expect("died")
    landed: list[int] = []
    sweep = Cue("drop", before=lambda: landed.append(late.land()))
    stage.attempt("later", sweep, spec=spec).expect("success")
    assert landed == [60]
    assert stage.switches == 2
    assert (stage.bench.ids(), stage.bench.private()) == (list(range(200, 207)), [])


@pytest.mark.contract("P6")
def test_a_later_exchange_of_the_plain_route_meets_no_table(stage: Stage) -> None:
    """Without the authority: the EXCHANGE lands after the next run has published; its private name is gone."""
    stage.publish()
    spec = stage.bench.spec(durable=False)
    late = Cue("exchange", fate="hold_lose")
    stage.attempt("later", late, spec=spec).expect("PUBLICATION_UNCERTAIN")
    stage.bench.write(300, 4)
    stage.attempt("later", spec=spec).expect("success")
    assert late.land() == 60
    assert (stage.bench.ids(), stage.bench.private()) == (list(range(300, 304)), [])
