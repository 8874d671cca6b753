"""The staged path without the authority: its exact order, and failures after the switch (X3, X5, X7, X9; B22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpone_provider.clickhouse.load_steps import ClickHouseLoadStepLog
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.traces import LoadStep, LoadStepLost
from dpone_provider.wire import StatementFailed
from tests.crash.wire import CrashWire
from tests.paths.bench import GATES, Appending
from tests.paths.wires import On

EVERY_SIDE = {"enabled": True, "mode": "required", "checks": {"row_count": True}}
WARN = {**EVERY_SIDE, "mode": "warn_only"}


def refresh(bench: Appending, acceptance: dict[str, Any] | None = None, **options: Any) -> LoadSpec:
    return bench.spec(mode="full_refresh", acceptance=acceptance or EVERY_SIDE, **options)


def fails(code: int | None = 241) -> Callable[[], None]:
    def fail() -> None:
        raise StatementFailed(code)

    return fail


def private(bench: Appending) -> list[str]:
    found = bench.ask(f"SELECT name FROM system.tables WHERE database = '{bench.database}' AND name LIKE '%__dpone_%'")
    return [row[0] for row in found]


@pytest.mark.contract("X3", "X9")
def test_the_order_of_a_staged_load(bench: Appending) -> None:
    wire = CrashWire()
    outcome = bench.run(spec=refresh(bench, pre_sql=("SELECT 1",), post_sql=("SELECT 2",)), wire=wire)
    sent = [effect.what for effect in wire.effects if effect.kind not in ("catalog_read", "source_read")]
    assert sent == [
        "run statement 1 of pre_sql",
        "record the step hook_run",
        "open the source",
        "create the generation",
        "insert into the generation",
        "count in the generation",
        "record the step staged",
        "record the step quality_checked",
        "record the step source_metrics_captured",
        "record the step staged_metrics_captured",
        next(effect.what for effect in wire.effects if effect.kind == "exchange"),
        "record the step finalized",
        "count in the live table",
        "record the step target_metrics_captured",
        *[effect.what for effect in wire.effects if effect.kind in ("rename", "drop")],
        "run statement 1 of post_sql",
        "record the step hook_run",
    ]
    assert [step for step, _ in bench.steps()] == [step["step"] for step in outcome.load_steps]
    assert {side: shot["row_count"] for side, shot in outcome.acceptance.items()} == dict.fromkeys(
        ("source", "staged", "target"), 5
    )


@pytest.mark.contract("X3")
def test_the_target_is_counted_where_it_is_live_and_not_where_it_was_staged(bench: Appending) -> None:
    def somebody_writes() -> None:
        bench.ask(f"INSERT INTO {bench.database}.t VALUES (99, 'theirs')")

    outcome = bench.run(spec=refresh(bench), wire=On("exchange", somebody_writes, after=True))
    rows = {side: shot["row_count"] for side, shot in outcome.acceptance.items()}
    assert rows == {"source": 5, "staged": 5, "target": 6}


@pytest.mark.contract("X5", "X7", "X9")
def test_a_required_target_that_cannot_be_counted_is_a_failure_after_the_commit(bench: Appending) -> None:
    bench.run(spec=refresh(bench))
    bench.write(11)
    wire = On("query", fails(), what="live table")
    error = bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=refresh(bench), run_id="r2", wire=wire)
    assert (error.boundary, error.target_commit) == ("post_commit", "proven")
    assert error.context["failure_context"]["target_state"] == "mutation_returned_success"
    assert error.context["counters"] == {"extracted_rows": 5, "inserted_rows": 5, "final_rows": 5}
    assert bench.ids() == list(range(11, 16)), "nothing is rolled back"
    assert private(bench) == [], "the old table is dropped all the same"
    assert bench.steps()[-1] == (
        "load_governance_failed",
        '{"acceptance_side":"target","error_code":"target_acceptance_metric_probe_unavailable",'
        '"failure_boundary":"post_commit"}',
    )


@pytest.mark.contract("X5")
def test_a_target_that_cannot_be_counted_is_one_warning_when_only_warned(bench: Appending) -> None:
    outcome = bench.run(spec=refresh(bench, WARN), wire=On("query", fails(None), what="live table"))
    assert outcome.acceptance["target"]["warnings"] == ["target_acceptance_metric_probe_unavailable"]
    assert outcome.acceptance["target"]["row_count"] is None


@pytest.mark.contract("X7")
def test_a_failed_cleanup_is_recorded_and_neither_fails_the_load_nor_hides_its_error(bench: Appending) -> None:
    bench.run(spec=refresh(bench))
    outcome = bench.run("r2", spec=refresh(bench), wire=On("drop", fails()))
    assert outcome.leftovers
    assert outcome.load_steps[-1]["error_code"] == "cleanup_incomplete"

    class Both(On):
        def send(self, effect: Any, call: Any) -> Any:
            if effect.kind == "drop":
                raise StatementFailed(241)
            return super().send(effect, call)

    bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=refresh(bench), wire=Both("query", fails(), what="live table"))


@pytest.mark.contract("X7", "X9")
@pytest.mark.parametrize(
    ("step", "boundary", "commit"),
    [
        ("staged", "pre_commit", "not_started"),
        ("quality_checked", "pre_commit", "not_started"),
        ("finalized", "post_commit", "proven"),
        ("target_metrics_captured", "post_commit", "proven"),
    ],
)
def test_a_step_that_cannot_be_recorded_is_no_success_and_says_where_it_was(
    bench: Appending, step: str, boundary: str, commit: str
) -> None:
    wire = On("load_step", fails(), what=step)
    error = bench.refused("DPONE_LOAD_STEP_UNCERTAIN", spec=refresh(bench), wire=wire)
    assert (error.boundary, error.target_commit) == (boundary, commit)
    assert error.retryable is (commit == "not_started")
    assert ("exchange" in wire.kinds) is (commit == "proven")
    assert private(bench) == []


@pytest.mark.contract("X7")
def test_a_failing_log_does_not_stand_in_front_of_the_first_error(
    bench: Appending, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def record(self: ClickHouseLoadStepLog, step: LoadStep) -> None:
        asked.append(step.step)
        if step.step == "load_governance_failed":
            raise LoadStepLost(None)

    monkeypatch.setattr(ClickHouseLoadStepLog, "record", record)
    gates = [{"id": "some", "type": "min_rows", "threshold": 6}]
    bench.refused("DPONE_QUALITY_GATES_FAILED", spec=refresh(bench, gates=gates))
    assert asked[-1] == "load_governance_failed"


@pytest.mark.contract("O4", "Q10")
def test_a_gate_that_fails_before_the_switch_says_that_a_retry_is_free(bench: Appending) -> None:
    bench.run(spec=refresh(bench))
    bench.write(11)
    gates = [{"id": "some", "type": "min_rows", "threshold": 6}]
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=refresh(bench, gates=gates))
    context = error.context["failure_context"]
    assert context == {
        "failure_boundary": "pre_commit",
        "target_state": "not_mutated",
        "checkpoint_state": "not_applicable",
        "source_state": "not_advanced",
        "retry_classification": "retry_before_target_mutation",
    }
    assert error.context["counters"] == {"extracted_rows": 5, "inserted_rows": 0, "final_rows": None}
    assert bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("P8")
@pytest.mark.parametrize("rows", [0, 3])
def test_a_source_that_dies_leaves_the_live_table_as_it_is(bench: Appending, rows: int) -> None:
    bench.run(spec=refresh(bench))
    reads = 0

    def dies() -> None:
        nonlocal reads
        reads += 1
        if reads > (0 if rows == 0 else 1):
            raise DponeError("DPONE_SOURCE_FAILED")

    error = bench.refused("DPONE_SOURCE_FAILED", spec=refresh(bench), wire=On("source_read", dies))
    assert error.target_commit == "not_started"
    assert bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("P8")
def test_an_empty_source_publishes_only_where_the_gates_allow_it(bench: Appending) -> None:
    bench.run(spec=refresh(bench))
    bench.write(1, rows=0)
    bench.refused("DPONE_QUALITY_GATES_FAILED", spec=refresh(bench))
    assert bench.ids() == [1, 2, 3, 4, 5]
    bench.run(spec=refresh(bench, gates=GATES[:1]))
    assert bench.ids() == []
