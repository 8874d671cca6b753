"""full_refresh by partitions: one generation, each partition once, artefacts instead of a second reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.wire import StatementFailed
from tests.partitions.bench import QUARTERS, Moving, Parts
from tests.partitions.disk import committed
from tests.paths.wires import On

EVERYTHING = {
    "enabled": True,
    "mode": "required",
    "capture": {"source": True, "staged": False, "target": True},
    "checks": {"row_count": True, "null_counts": ["name"]},
}


def lost(code: int | None = None) -> Callable[[], None]:
    def lose() -> None:
        raise StatementFailed(code)

    return lose


@pytest.mark.contract("N2", "N5", "N6")
def test_every_partition_is_loaded_once_and_counted(bench: Parts) -> None:
    outcome = bench.run(spec=bench.spec(acceptance=EVERYTHING))
    assert bench.ids() == list(range(40))
    assert set(bench.states().values()) == {"committed"}
    assert (outcome.extracted_rows, outcome.inserted_rows, outcome.final_rows) == (40, 40, 40)
    shots = {side: (shot["row_count"], shot["null_counts"]) for side, shot in outcome.acceptance.items()}
    assert shots == {"source": (40, {"name": 8}), "target": (40, {"name": 8})}
    assert outcome.acceptance["source"]["dataset"].startswith("source_query:")
    report = bench.report()
    assert report is not None
    assert (report["passed"], report["rows"], report["committed_count"]) == (True, 40, 4)


def test_nothing_is_left_behind_but_checkpoints_and_reports(bench: Parts) -> None:
    bench.run()
    assert bench.private() == []
    files = {path.name for path in bench.kept.rglob("*") if path.is_file()}
    assert files == {"checkpoints.jsonl", "lock", "report.json", "report.md"}


def test_a_new_run_is_a_new_operation_and_skips_nothing(bench: Parts) -> None:
    bench.run()
    bench.ask(f"TRUNCATE TABLE {bench.database}.s")
    bench.fill(5, 25)
    bench.run("r2")
    assert bench.ids() == list(range(5, 25))


def test_a_source_without_rows_makes_an_empty_table(bench: Parts) -> None:
    bench.ask(f"TRUNCATE TABLE {bench.database}.s")
    bench.run(spec=bench.spec(gates=()))
    assert bench.ids() == []


@pytest.mark.contract("N1")
def test_a_retry_reads_from_artefacts_what_an_earlier_attempt_has_exported(bench: Parts) -> None:
    bench.refused("DPONE_STAGING_FAILED", wire=On("query", lost(), what="count in the generation"))
    assert set(bench.states().values()) == {"loaded"}
    wire = Moving()
    outcome = bench.run(wire=wire, notify=wire.told)
    assert (wire.counts["source_open"], outcome.extracted_rows, outcome.inserted_rows) == (0, 0, 40)
    assert outcome.attempts[-1].number == 2
    assert bench.ids() == list(range(40))


@pytest.mark.contract("N1")
def test_an_artefact_that_is_not_whole_is_read_from_the_source_again(bench: Parts) -> None:
    bench.refused("DPONE_STAGING_FAILED", wire=On("query", lost(), what="count in the generation"))
    torn = bench.artefacts()[0]
    torn.write_bytes(torn.read_bytes()[:-1])
    wire = Moving()
    outcome = bench.run(wire=wire, notify=wire.told)
    assert (wire.counts["source_open"], outcome.extracted_rows) == (1, 10)
    assert bench.ids() == list(range(40))


@pytest.mark.contract("N1")
def test_an_artefact_of_other_rows_is_not_used(bench: Parts) -> None:
    bench.refused("DPONE_STAGING_FAILED", wire=On("query", lost(), what="count in the generation"))
    first, second, *_ = bench.artefacts()
    first.write_bytes(second.read_bytes())
    bench.run()
    assert bench.ids() == list(range(40))


@pytest.mark.contract("N2", "N3")
def test_mixed_full_refresh_reactivates_and_counts_each_partition_once(bench: Parts) -> None:
    bench.refused("DPONE_TRANSFER_CHECKPOINT", files=committed(4))
    assert sorted(bench.states().values()) == ["committed", "committed", "committed", "finalized"]
    wire = Moving()
    outcome = bench.run(spec=bench.spec(acceptance=EVERYTHING), wire=wire, notify=wire.told)
    scope = outcome.document()["result"]["details"]["quality_scope"]
    counts = ("planned_count", "active_count", "skipped_committed_count", "reactivated_count")
    assert [scope[name] for name in counts] == [4, 4, 3, 3]
    assert [shot["row_count"] for shot in outcome.acceptance.values()] == [40, 40]
    assert outcome.gates["results"][0]["metrics"]["source_rows"] == 40
    assert (bench.ids(), wire.counts["source_open"]) == (list(range(40)), 0)


@pytest.mark.contract("N2", "N3")
def test_a_reactivated_partition_that_changed_is_counted_by_its_new_rows(bench: Parts) -> None:
    bench.refused("DPONE_TRANSFER_CHECKPOINT", files=committed(4))
    for path in bench.artefacts():
        path.unlink()
    bench.ask(f"ALTER TABLE {bench.database}.s DELETE WHERE id = 3 SETTINGS mutations_sync = 2")
    bench.run()
    report = bench.report()
    assert report is not None
    assert report["rows"] == 39
    assert len(bench.ids()) == 39


@pytest.mark.contract("N5", "X7")
def test_a_switch_whose_checkpoints_are_not_durable_is_a_failure_after_the_commit(bench: Parts) -> None:
    error = bench.refused("DPONE_TRANSFER_CHECKPOINT", files=committed(1))
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "proven", True)
    assert error.context["failure_context"]["checkpoint_state"] == "unknown"
    assert bench.report() is None
    bench.run()
    assert (bench.ids(), bench.private()) == (list(range(40)), [])


@pytest.mark.contract("N7")
def test_a_gate_that_fails_before_the_commit_leaves_failed_with_its_code_and_no_artefact(bench: Parts) -> None:
    strict = ({"id": "some", "type": "min_rows", "threshold": 41},)
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=bench.spec(gates=strict))
    assert error.boundary == "pre_commit"
    assert {(line["state"], line["error_code"]) for line in bench.lines()[-4:]} == {
        ("failed", "DPONE_QUALITY_GATES_FAILED")
    }
    assert bench.artefacts() == []
    bench.fill(40, 41)
    bench.run(spec=bench.spec(gates=strict))
    assert len(bench.ids()) == 41, "the retry has read what was corrected"


@pytest.mark.contract("N7")
def test_a_value_that_does_not_fit_fails_its_partition_alone(bench: Parts) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    bench.ask(f"CREATE TABLE {bench.database}.t (id Int64, name String) ENGINE = MergeTree ORDER BY id")
    where = f"SELECT id, if(id = 25, NULL, 'n') AS name FROM {bench.database}.s"
    source = {"type": "clickhouse", "connection_ref": "source", "query": where}
    spec = bench.spec(source=source, partitions={**QUARTERS, "workers": 1})
    bench.refused("DPONE_SOURCE_VALUE_REFUSED", spec=spec)
    assert list(bench.states().values()) == ["loaded", "loaded", "failed"]
    assert [line["error_code"] for line in bench.lines()][-1] == "DPONE_SOURCE_VALUE_REFUSED"
    assert len(bench.artefacts()) == 2


@pytest.mark.contract("N1")
def test_artefacts_may_lie_in_any_place_of_fsspec(bench: Parts) -> None:
    spec = bench.spec(partitions={**QUARTERS, "artifacts": f"memory://{bench.database}"})
    bench.refused("DPONE_STAGING_FAILED", spec=spec, wire=On("query", lost(), what="count in the generation"))
    wire = Moving()
    outcome = bench.run(spec=spec, wire=wire, notify=wire.told)
    assert (wire.counts["source_open"], outcome.extracted_rows, bench.ids()) == (0, 0, list(range(40)))


@pytest.mark.contract("N1")
def test_two_attempts_at_once_are_one_too_many(bench: Parts) -> None:
    def second() -> None:
        bench.refused("DPONE_TRANSFER_BUSY")

    bench.run(wire=On("exchange", second))
    assert bench.ids() == list(range(40))


def test_a_source_that_breaks_off_is_the_failure_and_leaves_nothing_running(bench: Parts) -> None:
    import threading

    before = threading.active_count()
    spec = bench.spec(source={"type": "clickhouse", "connection_ref": "source", "query": failing(bench)})
    bench.refused("DPONE_SOURCE_FAILED", spec=spec)
    assert threading.active_count() == before
    assert (bench.private(), bench.ids()) == ([], [])
    assert bench.failure()["error_code"] == "DPONE_SOURCE_FAILED"


def failing(bench: Parts) -> str:
    """A query that fails in its third partition."""
    return f"SELECT id, if(id = 25, toString(throwIf(1)), name) AS name FROM {bench.database}.s"


def test_an_interrupt_while_partitions_move_leaves_no_table_no_thread_and_no_lock(bench: Parts) -> None:
    import threading

    before = threading.active_count()
    told: list[str] = []

    def interrupt() -> None:
        if "create" in told:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(notify=lambda step, facts: told.append(step), check_cancelled=interrupt)
    assert threading.active_count() == before
    assert bench.private() == []
    bench.run()
    assert bench.ids() == list(range(40))


def test_progress_names_partitions_rows_and_bytes(bench: Parts) -> None:
    told: list[dict[str, Any]] = []

    def notify(step: str, facts: dict[str, Any]) -> None:
        if step == "partition":
            told.append(facts)

    bench.run(notify=notify)
    last = told[-1]
    assert (last["partitions"], last["planned"], last["rows"]) == (4, 4, 40)
    assert last["bytes"] > 0


def test_the_budget_is_of_all_partitions_together(bench: Parts) -> None:
    import attrs

    spec = bench.spec()
    strategy = attrs.evolve(spec.sink.strategy, max_source_bytes=300)
    bench.refused("DPONE_SOURCE_TOO_LARGE", spec=attrs.evolve(spec, sink=attrs.evolve(spec.sink, strategy=strategy)))


def test_files_are_partitions_too(bench: Parts) -> None:
    for number in range(3):
        path: Path = bench.folder / f"part{number}.csv"
        path.write_text("id,name\n" + "".join(f"{number * 10 + each},n\n" for each in range(5)))
    source = {"type": "file", "format": "csv", "path": "part*.csv"}
    bench.run(spec=bench.spec(source=source, partitions={"file": True}))
    assert bench.ids() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]


@pytest.mark.contract("N3", "X5")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_what_has_no_sum_over_partitions_is_warned_about_and_never_passed(bench: Parts, mode: str) -> None:
    gates = (
        {"id": "hash", "type": "typed_hash_reconciliation", "severity": "warn"},
        {"id": "named", "type": "not_null", "sql": "name", "severity": "warn"},
    )
    every = {**EVERYTHING, "mode": "warn_only", "capture": {"source": True, "staged": True, "target": True}}
    for _ in ("a load", "a resume"):
        outcome = bench.run(spec=bench.spec(mode, gates=gates, acceptance=every))
        assert [result["status"] for result in outcome.gates["results"]] == ["warned", "warned"]
        warnings = {side: shot["warnings"] for side, shot in outcome.acceptance.items()}
        assert warnings == {"source": [], "staged": ["staged_acceptance_metric_unavailable"], "target": []}
