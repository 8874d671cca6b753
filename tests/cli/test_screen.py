"""What the screens say and how they look, from documents alone."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dpone_provider.cli import plain, progress
from dpone_provider.cli.outcome_screen import outcome_screen
from dpone_provider.cli.render import render


def attempt(number: int, reads: int, rows: int, publications: int) -> dict[str, Any]:
    phases = ["CLAIMED", "PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE"] if reads else ["COMPLETE"]
    counters = {"source_reads": reads, "rows": rows, "publications": publications}
    return {"number": number, "epoch": number, "phases": phases, **counters}


def snapshot(rows: int, nulls: int) -> dict[str, Any]:
    return {"row_count": rows, "null_counts": {"name": nulls}, "distinct_counts": {}}


def success(*, replayed: bool = False, durable: bool = True, staged: int = 1000, **effects: int) -> dict[str, Any]:
    attempts = [attempt(1, 1, 1000, 1)] + ([attempt(2, 0, 0, 0)] if replayed else [])
    gate = {
        "gate_id": "rows",
        "type": "row_count_reconciliation",
        "severity": "error",
        "status": "passed",
        "code": "rows_reconciled",
        "metrics": {"source_rows": 1000},
    }
    metrics: dict[str, Any] = {
        "acceptance": {"snapshots": {"source": snapshot(1000, 5), "staged": snapshot(staged, 5)}},
        "quality_gates": {"results": [gate]},
    }
    if replayed:
        metrics["quality_replay"] = {"replayed_from": {"run_id": "r1", "load_id": "l1"}}
    rows = 0 if replayed else 1000
    return {
        "manifest": "m.yaml",
        "process": "p",
        "selector": "main.t",
        "run_id": "r1",
        "passed": True,
        "target": "demo.t",
        "attempts": len(attempts),
        "effects": effects,
        "result": {
            "status": "succeeded",
            "inserted_rows": rows,
            "updated_rows": 0,
            "final_rows": 1000,
            "extracted_rows": rows,
            "duration_seconds": 0.5,
            "errors": [],
            "details": {
                "target_commit": "proven",
                "governance": "complete",
                "durable_quality_replay": durable,
                "replayed": replayed,
                "operation_id": "0" * 64,
                "load_id": "l1",
                "generation": "uuid",
                "attempts": attempts,
                "reconciliation_metrics": metrics,
            },
        },
    }


def failure(**replay: Any) -> dict[str, Any]:
    return {
        "manifest": "m.yaml",
        "process": "p",
        "selector": "main.t",
        "run_id": "r1",
        "passed": False,
        "attempts": 1,
        "error_code": "DPONE_SOURCE_FAILED",
        "quality_gates": None,
        "evidence": None,
        "failure_context": {"failure_boundary": "pre_commit", "retryable": True, "next_step": "Retry."},
        "replay_details": {"error_code": "DPONE_SOURCE_FAILED", "governance": "blocked", **replay},
        "result": {
            "status": "failed",
            "inserted_rows": 0,
            "updated_rows": 0,
            "final_rows": None,
            "extracted_rows": 10,
            "duration_seconds": 0.1,
            "errors": [{"code": "DPONE_SOURCE_FAILED", "message": "It broke.", "next_step": "Retry."}],
        },
    }


def text(document: dict[str, Any]) -> str:
    return "\n".join(plain.lines(outcome_screen(document)))


@pytest.mark.contract("O3")
def test_a_replay_says_plainly_that_nothing_was_repeated() -> None:
    shown = text(success(replayed=True, source_reads=0, inserts=0, exchanges=0))
    assert "nothing repeated: 0 source reads, 0 inserts, 0 publications" in shown
    assert "run r1, load l1" in shown


@pytest.mark.contract("O3")
def test_a_replay_whose_counters_are_not_zero_does_not_say_so() -> None:
    shown = text(success(replayed=True, source_reads=1, inserts=1, exchanges=0))
    assert "nothing repeated" not in shown
    assert "1 source read, 1 insert, 0 publications" in shown


@pytest.mark.contract("O3")
def test_without_the_selector_no_durable_proof_is_claimed() -> None:
    shown = text(success(durable=False))
    assert "nothing durable" in shown
    assert "sealed" not in shown


@pytest.mark.contract("O4")
@pytest.mark.parametrize(
    ("replay", "told"),
    [
        ({}, "no claim"),
        ({"target_commit": "not_started"}, "no: the table is as it was before"),
        ({"target_commit": "unknown"}, "not known"),
        ({"target_commit": "proven"}, "yes: the server's catalog"),
    ],
)
def test_a_failure_claims_exactly_what_its_document_says(replay: dict[str, Any], told: str) -> None:
    (line,) = [line for line in text(failure(**replay)).splitlines() if "Is the new table live?" in line]
    assert told in line


def test_sides_stand_beside_each_other_with_their_difference() -> None:
    lines = text(success(staged=998)).splitlines()
    assert ["rows", "1,000", "998", "-2"] in [line.split() for line in lines]
    assert any(line.split()[-3:] == ["5", "5", "0"] for line in lines)


def test_attempts_that_left_the_history_are_not_silently_missing() -> None:
    document = success()
    document["result"]["details"]["attempts"] = [attempt(7, 0, 0, 0)]
    assert "before 7: no longer in the history" in text(document)


@pytest.mark.parametrize("document", [success(), success(replayed=True), failure(target_commit="unknown")])
def test_plain_and_rich_say_the_same_words(document: dict[str, Any]) -> None:
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(render(outcome_screen(document)))
    rich_words = out.getvalue().split()
    for word in text(document).replace(":", " ").split():
        assert any(word in found for found in rich_words), word


def test_names_cannot_move_the_terminals_cursor() -> None:
    document = success()
    document["target"] = "demo.\x1b[2J[bold]t[/bold]"
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(render(outcome_screen(document)))
    assert "\x1b" not in out.getvalue()
    assert "[bold]t[/bold]" in out.getvalue()


def test_pace_tells_rate_and_the_time_left_when_the_total_is_known() -> None:
    pace = progress.pace({"rows": 500, "total": 2000, "bytes": 1_500_000}, 2.0)
    assert pace.line == "500 rows · 1.5 MB · 250 rows/s · 0:06 left"
    assert pace.done == 0.25


def test_pace_claims_no_time_left_without_a_total() -> None:
    pace = progress.pace({"rows": 500, "total": None, "bytes": 10}, 2.0)
    assert "left" not in pace.line
    assert pace.done is None


def test_plain_progress_is_one_line_a_step_and_few_while_rows_come() -> None:
    written: list[str] = []
    steps = progress.PlainSteps(written.append)
    steps("stage", {}, 0.0)
    for tenth in range(120):
        steps("rows", {"rows": tenth, "total": None, "bytes": 0}, tenth / 10)
    steps("publish", {}, 12.0)
    assert len(written) == 4
    assert not any("\x1b" in line or "\r" in line for line in written)


@pytest.mark.contract("O4")
@pytest.mark.parametrize(
    ("steps", "commit"),
    [
        ([], None),
        ([("claim", {})], None),
        ([("claim", {}), ("claimed", {"phase": "CLAIMED", "attempt": 1})], "not_started"),
        ([("claimed", {"phase": "DISPATCHING", "attempt": 2})], "unknown"),
        ([("claimed", {"phase": "COMPLETE", "attempt": 2})], "proven"),
        ([("claimed", {"phase": "CLAIMED"}), ("stage", {}), ("permit", {}), ("publish", {})], "unknown"),
        ([("claimed", {"phase": "CLAIMED"}), ("publish", {}), ("committed", {})], "proven"),
    ],
)
def test_an_interrupted_load_knows_how_far_it_came(steps: list[tuple[str, dict[str, Any]]], commit: str | None) -> None:
    told = progress.Told(lambda step, facts, seconds: None, clock=lambda: 0.0)
    for step, facts in steps:
        told.notify(step, facts)
    assert told.known.target_commit == commit
