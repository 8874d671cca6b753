"""Rows added to a live table: the exact order, the counts, and what a failure says (X4, X5, X7, X9, Q5, Q10)."""

from __future__ import annotations

import json

import pytest

from dpone_provider.load.outcome import failure_document
from dpone_provider.quality.failure import QualityGateFailure
from tests.crash.wire import CrashWire
from tests.paths.bench import Appending, acceptance

SENT = ("source_open", "source_read", "append", "load_step", "source_state", "hook", "query")


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
        "count in the generation",
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
def test_a_required_staged_side_is_refused_before_the_source_is_opened(bench: Appending) -> None:
    spec = bench.spec(acceptance=acceptance(staged=True, mode="warn_only"))
    outcome = bench.run(spec=spec)
    assert outcome.acceptance["staged"]["warnings"] == ["staged_acceptance_metric_unavailable"]
    assert outcome.acceptance["staged"]["row_count"] is None
