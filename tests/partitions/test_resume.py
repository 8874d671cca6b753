"""A run of which everything is committed: judged again, and no word to the sink but questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dpone_provider.load.outcome import RunIdentity, failure_document
from tests.crash.wire import CrashWire
from tests.partitions.bench import SINK, Parts
from tests.partitions.disk import NoReport, Noting
from tests.partitions.test_full_refresh import EVERYTHING, lost
from tests.paths.wires import On

MODES = pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])


def sent(wire: Any) -> list[str]:
    """What was done to the sink."""
    return [effect.kind for effect in wire.effects if effect.kind in SINK]


def uncounted() -> On:
    """A server that does not count the live table."""
    return On("query", lost(241), what="count in the live table")


@MODES
@pytest.mark.contract("N4", "N7", "Q5")
def test_post_commit_failure_retains_committed_checkpoints_and_retries_without_sink_mutation(
    bench: Parts, mode: str
) -> None:
    spec = bench.spec(mode, acceptance=EVERYTHING)
    error = bench.refused(
        "DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec, wire=On("query", lost(241), what="count in the live table")
    )
    assert (error.boundary, error.target_commit) == ("post_commit", "proven")
    context = error.context["failure_context"]
    assert (context["checkpoint_state"], context["retry_classification"]) == ("committed", "retry_via_native_resume")
    assert (set(bench.states().values()), bench.report()) == ({"committed"}, None)
    before, wire = bench.lines(), CrashWire()
    outcome = bench.run(spec=spec, wire=wire)
    assert (sent(wire), bench.lines()) == ([], before)
    assert (outcome.extracted_rows, outcome.inserted_rows) == (0, 0)
    assert {side: shot["row_count"] for side, shot in outcome.acceptance.items()} == {"source": 40, "target": 40}
    assert outcome.acceptance["source"]["null_counts"] == {"name": 8}
    report = bench.report()
    assert report is not None
    assert (report["passed"], report["boundary"], report["rows"]) == (True, "resume_validation", 40)


@MODES
@pytest.mark.contract("N4", "Q5")
def test_all_skipped_resume_evaluates_matching_committed_counts_and_remains_sink_free(bench: Parts, mode: str) -> None:
    bench.run(spec=bench.spec(mode))
    wire = CrashWire()
    outcome = bench.run(spec=bench.spec(mode), wire=wire)
    assert (sent(wire), outcome.replayed) == ([], True)
    assert {effect.kind for effect in wire.effects} <= {"query", "catalog_read", "source_open", "source_read"}
    metrics = outcome.gates["results"][0]["metrics"]
    assert (metrics["source_rows"], metrics["target_rows"]) == (40, 40)
    scope = outcome.document()["result"]["details"]["quality_scope"]
    assert (scope["planned_count"], scope["active_count"], scope["skipped_committed_count"]) == (4, 0, 4)


@pytest.mark.contract("N4", "N6")
def test_all_skipped_resume_does_not_publish_success_before_acceptance(bench: Parts) -> None:
    spec = bench.spec(acceptance=EVERYTHING)
    bench.refused("DPONE_TRANSFER_REPORT", spec=spec, files=NoReport())
    error = bench.refused(
        "DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec, wire=On("query", lost(), what="count in the live table")
    )
    assert (error.boundary, error.target_commit) == ("resume_validation", "proven")
    assert bench.report() is None


@MODES
@pytest.mark.contract("N4", "N5", "Q10")
def test_resume_failure_rewrites_no_committed_checkpoint(bench: Parts, mode: str) -> None:
    bench.run(spec=bench.spec(mode))
    before, report = bench.lines(), bench.report()
    strict = bench.spec(mode, gates=({"id": "some", "type": "min_rows", "threshold": 41},))
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=strict)
    assert (bench.lines(), bench.report()) == (before, report)
    assert error.boundary == "resume_validation"
    assert error.context["failure_context"] == {
        "failure_boundary": "resume_validation",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "committed",
        "source_state": "not_advanced",
        "retry_classification": "retry_via_native_resume",
    }
    assert bench.failure()["failure_boundary"] == "resume_validation"


@pytest.mark.contract("N6")
def test_a_report_that_cannot_be_published_is_a_failure_after_the_commit_and_a_retry_loads_nothing(
    bench: Parts,
) -> None:
    error = bench.refused("DPONE_TRANSFER_REPORT", files=NoReport())
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "proven", True)
    assert (bench.report(), set(bench.states().values())) == (None, {"committed"})
    wire = CrashWire()
    bench.run(wire=wire)
    assert sent(wire) == []
    assert bench.report() is not None


@MODES
@pytest.mark.contract("N5", "N6")
def test_checkpoints_are_durable_before_gates_capture_and_report(bench: Parts, mode: str) -> None:
    order: list[str] = []

    class Steps(CrashWire):
        def send(self, effect: Any, call: Callable[[], Any]) -> Any:
            answer = super().send(effect, call)
            if effect.what in ("count in the live table", "record the step quality_checked"):
                order.append(effect.what)
            return answer

    provision(bench)
    bench.run(spec=bench.spec(mode, acceptance=EVERYTHING), wire=Steps(), files=Noting(order.append))
    assert order == [
        *["loaded"] * 4,
        "record the step quality_checked",
        *["committed"] * 4,
        "count in the live table",
        "report.md",
        "report.json",
    ]


def provision(bench: Parts) -> None:
    from tests.paths.bench import Appending

    Appending(sandbox=bench.sandbox, database=bench.database, folder=bench.folder).provision()


@pytest.mark.contract("N4")
def test_statements_before_the_load_are_not_run_when_there_is_nothing_to_load(bench: Parts) -> None:
    hooks = {"pre_sql": [f"TRUNCATE TABLE {bench.database}.t"], "post_sql": ["SELECT 1"]}
    bench.run(spec=bench.spec("partition_replace", **hooks))
    wire = CrashWire()
    bench.run(spec=bench.spec("partition_replace", **hooks), wire=wire)
    assert [effect.what for effect in wire.effects if effect.kind == "hook"] == ["run statement 1 of post_sql"]
    assert len(bench.ids()) == 40


@pytest.mark.contract("N3")
def test_a_committed_checkpoint_without_a_count_makes_the_sum_unknown_never_less(bench: Parts) -> None:
    bench.run()
    path = bench.kept / "checkpoints.jsonl"
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    path.write_text(
        "\n".join([*lines, json.dumps({**last, "loaded_rows": None}, sort_keys=True, separators=(",", ":"))]) + "\n"
    )
    error = bench.refused("DPONE_QUALITY_GATES_FAILED")
    assert error.context["quality_gates"]["results"][0]["metrics"] == {}
    assert error.context["gates"][0]["code"].endswith("unavailable")


@pytest.mark.contract("Q10", "X7")
def test_the_document_of_a_failure_keeps_counters_attempts_and_context(bench: Parts) -> None:
    spec = bench.spec(acceptance=EVERYTHING)
    error = bench.refused(
        "DPONE_ACCEPTANCE_UNAVAILABLE", spec=spec, wire=On("query", lost(), what="count in the live table")
    )
    document = failure_document(error, spec, RunIdentity(dag_id="dag", run_id="r1", task_id="parts"))
    result = document["result"]
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (40, 40, 40)
    assert document["attempts"] == 1
    assert document["failure_context"]["retry_classification"] == "retry_via_native_resume"
    json.dumps(document, allow_nan=False)


@pytest.mark.contract("X7")
def test_evidence_names_no_partition_no_bound_and_no_path(bench: Parts) -> None:
    bench.run(spec=bench.spec(acceptance=EVERYTHING))
    text = (bench.kept / "report.json").read_text() + (bench.kept / "report.md").read_text()
    for secret in (*bench.states(), str(bench.folder), "SELECT", "intDiv"):
        assert secret not in text


def test_distinct_values_do_not_add_up_and_are_refused_or_warned_about(bench: Parts) -> None:
    checks = {"row_count": True, "distinct_counts": ["name"]}
    warned = bench.run(spec=bench.spec(acceptance={**EVERYTHING, "mode": "warn_only", "checks": checks}))
    assert {side: len(shot["warnings"]) for side, shot in warned.acceptance.items()} == {"source": 1, "target": 1}


def test_the_configuration_of_a_running_transfer_is_compared_before_the_report(bench: Parts) -> None:
    config = {"quality": {"gates": []}}

    def change() -> None:
        config["quality"] = {"gates": [{"id": "other", "type": "min_rows", "threshold": 1}]}  # type: ignore[dict-item]

    error = bench.refused(
        "DPONE_QUALITY_POLICY_DRIFT",
        spec=bench.spec(gates=()),
        load_config=config,
        wire=On("exchange", change, after=True),
    )
    assert (error.boundary, bench.report()) == ("post_commit", None)
