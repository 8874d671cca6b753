"""Rows added to a live table: the exact order, the counts, and what a failure says (X4, X5, X7, X9, Q5, Q10)."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.direct import LegacyLoadGovernanceCoordinator
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.outcome import failure_document
from dpone_provider.load.payload import PayloadLoadService
from dpone_provider.quality.acceptance_policy import AcceptanceMetricPolicy
from dpone_provider.quality.failure import QualityGateFailure
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.runtime import paths
from dpone_provider.sources import observe
from dpone_provider.wire import StatementFailed
from tests.crash.wire import CrashWire
from tests.paths.bench import GATES, Appending, acceptance
from tests.paths.wires import On

SENT = ("source_open", "source_read", "append", "load_step", "source_state", "hook", "query")


def refuses() -> None:
    raise StatementFailed(241)


@pytest.mark.contract("X4", "Q5")
def test_rows_are_added_and_both_physical_sides_observed(bench: Appending) -> None:
    bench.run(spec=bench.spec(acceptance=acceptance(row_count=True, null_counts=["id"])))
    bench.write(6)
    outcome = bench.run("r2", spec=bench.spec(acceptance=acceptance(row_count=True, null_counts=["id"])))
    assert bench.ids() == list(range(1, 11))
    assert (outcome.extracted_rows, outcome.inserted_rows, outcome.final_rows) == (5, 5, 10)
    assert {side: shot["row_count"] for side, shot in outcome.acceptance.items()} == {"source": 5, "target": 10}
    details = outcome.document()["result"]["details"]
    assert details["governance_finalization"] == "legacy_post_finalize"
    assert details["target_commit"] == "proven"


@pytest.mark.contract("X4", "X9")
def test_the_source_is_read_and_captured_before_the_first_row_goes_and_the_target_after(bench: Appending) -> None:
    wire = CrashWire()
    spec = bench.spec(
        acceptance=acceptance(),
        cursor="id",
        pre_sql=("SELECT 1",),
        post_sql=("SELECT 2", "SELECT 3"),
    )
    outcome = bench.run(spec=spec, wire=wire)
    sent = [effect.what for effect in wire.effects if effect.kind in SENT and effect.kind != "source_read"]
    assert sent == [
        "read the source's mark",
        "run statement 1 of pre_sql",
        "record the step hook_run",
        "open the source",
        "record the step source_metrics_captured",
        "append to the live table",
        "record the step finalized",
        "record the step quality_checked",
        "count in the live table",
        "record the step target_metrics_captured",
        "advance the source's mark",
        "read the source's mark",
        "record the step state_advanced",
        "run statement 1 of post_sql",
        "run statement 2 of post_sql",
        "record the step hook_run",
        "record the step hook_run",
    ]
    kinds = [effect.kind for effect in wire.effects]
    assert max(index for index, kind in enumerate(kinds) if kind == "source_read") < kinds.index("append")
    assert [step for step, _ in bench.steps()] == [step["step"] for step in outcome.load_steps]


@pytest.mark.contract("X9", "X8")
def test_steps_are_kept_with_their_counts_and_nothing_else(bench: Appending) -> None:
    bench.run(spec=bench.spec(acceptance=acceptance()))
    steps = dict(bench.steps())
    finalized = {"governance_finalization": "legacy_post_finalize", "rows": 5, "written_rows": 5}
    assert json.loads(steps["finalized"]) == finalized
    assert json.loads(steps["quality_checked"]) == {"failed": 0, "gates": 2, "passed": 2, "warned": 0}
    assert "source.csv" not in json.dumps(steps)


def test_without_the_table_of_steps_they_stand_in_the_result_alone(bench: Appending) -> None:
    bench.ask(f"DROP TABLE {bench.database}.dpone_load_steps SYNC")
    wire = CrashWire()
    outcome = bench.run(wire=wire)
    assert [step["step"] for step in outcome.load_steps] == ["finalized", "quality_checked"]
    assert wire.counts["load_step"] == 0


@pytest.mark.contract("Q5", "Q10", "O4", "X7")
def test_a_gate_that_fails_afterwards_says_what_was_written_and_that_a_retry_repeats_it(bench: Appending) -> None:
    spec = bench.spec(gates=[{"id": "some", "type": "min_rows", "threshold": 6}], cursor="id")
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=spec)
    assert isinstance(error, QualityGateFailure)
    assert error.outcome is not None
    assert (error.outcome.failure_boundary, error.outcome.target_state) == ("post_commit", "mutation_returned_success")
    assert error.outcome.retry_classification == "retry_may_repeat_target_mutation"
    document = failure_document(error, spec, bench.identity())
    result = document["result"]
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (5, 5, None)
    assert document["attempts"] == 1
    assert document["failure_context"]["source_state"] == "not_advanced"
    assert document["replay_details"]["target_commit"] == "proven"
    assert document["quality_gates"]["results"][0]["code"] == "rows_below_threshold"
    assert document["failure_context"]["retryable"] is False
    assert "A retry may add the same rows again." in document["failure_context"]["next_step"]
    assert bench.ids() == [1, 2, 3, 4, 5]
    assert bench.mark(spec) is None


@pytest.mark.contract("X4", "X5")
def test_a_staged_side_is_one_warning_and_never_made_up(bench: Appending) -> None:
    outcome = bench.run(spec=bench.spec(acceptance=acceptance(staged=True, mode="warn_only")))
    staged = outcome.acceptance["staged"]
    assert staged["warnings"] == ["staged_acceptance_metric_unavailable"]
    assert (staged["row_count"], staged["null_counts"]) == (None, {})
    assert list(outcome.acceptance) == ["source", "staged", "target"]


@pytest.mark.contract("X4", "X5", "M7")
def test_a_required_staged_side_is_refused_before_anything_is_sent(bench: Appending) -> None:
    """Also of a spec made in Python, which no manifest check has seen."""
    spec = bench.spec(acceptance=acceptance(mode="warn_only", staged=True))
    policy = spec.quality.acceptance
    assert policy is not None
    required = attrs.evolve(spec, quality=attrs.evolve(spec.quality, acceptance=attrs.evolve(policy, mode="required")))
    wire = CrashWire()
    error = bench.refused("DPONE_ROUTE_UNSUPPORTED", spec=required, wire=wire)
    assert "staged_acceptance_metric_unavailable" in error.message
    assert wire.effects == []


@pytest.mark.contract("X5")
def test_a_service_refuses_a_required_side_that_its_path_lacks_without_asking_the_path(bench: Appending) -> None:
    policy = QualityPolicy(acceptance=AcceptanceMetricPolicy(enabled=True, mode="required", target=False))
    execution = LoadExecution(run_id="r", load_id="1" * 32, policy_now=lambda: policy)
    room: Any = None
    coordinator = LegacyLoadGovernanceCoordinator(room)
    service = PayloadLoadService("append", staged=lambda: coordinator, direct=lambda: coordinator)
    with pytest.raises(DponeError, match="staged_acceptance_metric_unavailable"):
        service.admit(execution)


@pytest.mark.contract("X2", "X4")
@pytest.mark.parametrize(("mode", "sides"), [("required", []), ("warn_only", ["source"])])
def test_each_side_is_asked_by_its_own_columns(bench: Appending, mode: str, sides: list[str]) -> None:
    """``note`` has a default in the table, so the source need not have it."""
    bench.ask(f"ALTER TABLE {bench.database}.t ADD COLUMN note String DEFAULT 'x'")
    spec = bench.spec(acceptance=acceptance(mode=mode, row_count=True, null_counts=["note"]))
    if mode == "required":
        bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec)
        assert bench.ids() == []
        return
    outcome = bench.run(spec=spec)
    assert [side for side, shot in outcome.acceptance.items() if shot["warnings"]] == sides
    assert outcome.acceptance["target"]["null_counts"] == {"note": 0}


@pytest.mark.contract("X5", "X7")
def test_a_live_table_that_cannot_be_counted_fails_after_the_commit_and_leaves_the_mark(bench: Appending) -> None:
    spec = bench.spec(acceptance=acceptance(), cursor="id")
    wire = On("query", refuses, what="live table")
    error = bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec, wire=wire)
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "proven", False)
    assert error.context["error_code"] == "target_acceptance_metric_probe_unavailable"
    assert error.context["counters"] == {"extracted_rows": 5, "inserted_rows": 5, "final_rows": None}
    assert bench.ids() == [1, 2, 3, 4, 5]
    assert bench.mark(spec) is None
    assert bench.steps()[-1][0] == "load_governance_failed"


@pytest.mark.contract("X5", "X7")
def test_a_required_count_of_the_source_that_overflows_ends_the_load_before_any_row_is_sent(
    bench: Appending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(observe.SourceObserver.__init__.__kwdefaults__, "max_bytes", 1000)
    bench.write(1, rows=5000)
    wire = CrashWire()
    spec = bench.spec(acceptance=acceptance(distinct_counts=["name"]))
    error = bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec, wire=wire)
    assert (error.target_commit, wire.counts["append"]) == ("not_started", 0)


@pytest.mark.contract("Q1", "X4")
def test_without_rows_nothing_is_sent_and_a_gate_may_still_forbid_it(bench: Appending) -> None:
    spec = bench.spec(gates=GATES[:1], cursor="id")
    bench.run(spec=spec)
    before, wire = bench.mark(spec), CrashWire()
    outcome = bench.run("r2", spec=spec, wire=wire)
    assert (outcome.extracted_rows, outcome.inserted_rows, wire.counts["append"]) == (0, 0, 0)
    assert (bench.mark(spec), wire.counts["source_state"]) == (before, 0)
    strict = bench.spec(cursor="id")
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=strict)
    assert error.context["failure_context"]["target_state"] == "not_mutated"
    assert error.context["failure_context"]["retry_classification"] == "retry_before_target_mutation"


@pytest.mark.contract("X4")
def test_the_mark_moves_with_the_rows_and_only_newer_ones_are_read(bench: Appending) -> None:
    spec = bench.spec(cursor="id")
    first = bench.run(spec=spec)
    bench.write(3, rows=6)
    second = bench.run("r2", spec=spec)
    mark = bench.mark(spec)
    assert mark is not None
    assert (mark.value, mark.load_id, mark.version) == ("number:8", second.load_id, 1)
    assert (first.extracted_rows, second.extracted_rows) == (5, 3)
    assert bench.ids() == list(range(1, 9))


@pytest.mark.contract("X6", "X7")
@pytest.mark.parametrize("count", [True, -1, None, 2**64, "5", 5.0])
@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_a_count_of_the_live_table_that_is_no_count_is_not_taken(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, count: Any, mode: str
) -> None:
    monkeypatch.setattr(paths, "staged_metrics", lambda *_, **__: StagedMetrics(row_count=count))
    spec = bench.spec(acceptance=acceptance(mode=mode))
    if mode == "required":
        error = bench.refused("DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec)
        assert error.context["error_code"] == "target_acceptance_metric_snapshot_invalid"
        assert (error.boundary, error.target_commit) == ("post_commit", "proven")
        return
    outcome = bench.run(spec=spec)
    assert outcome.acceptance["target"]["warnings"] == ["acceptance_metric_snapshot_invalid"]
    assert (outcome.acceptance["target"]["row_count"], outcome.final_rows) == (None, None)
