"""What SQL gates and typed hashes say: an answer that is no count, and a hash that nobody has, never pass."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_provider.quality.gate_spec import GATE_TYPES, SQL_TYPES
from dpone_provider.quality.gates import GateResult, Probe, QualityGateRunner, check_coverage
from dpone_provider.quality.policy import GateSpec, QualityPolicy, Tolerance
from dpone_provider.quality.verdicts import EVALUATIONS, METRICS

UINT64 = 2**64 - 1
NOBODY = Probe()
ONE, OTHER = "1" * 64, "2" * 64
NOUNS = {
    "not_null": ("nulls", "null_rows", "threshold_rows"),
    "unique": ("duplicates", "duplicate_rows", "threshold_rows"),
    "accepted_values": ("unaccepted_values", "unaccepted_rows", "threshold_rows"),
    "freshness": ("age", "age_seconds", "threshold_seconds"),
    "custom_sql": ("value", "value", "threshold"),
}


def scalar(kind: str, threshold: Any = 5, severity: str = "error", sql: str | None = "a") -> GateSpec:
    return GateSpec(id="g", type=kind, severity=severity, sql=sql, threshold=threshold)


def judged(gate: GateSpec, answers: Any, source: Probe = NOBODY, target: Probe = NOBODY) -> GateResult:
    policy = QualityPolicy(gates=(gate,))
    report = QualityGateRunner().evaluate(policy, source, target, answers)
    check_coverage(policy, report)
    return report.results[0]


def hashes(source: str | None, target: str | None, severity: str = "error") -> GateResult:
    gate = GateSpec(id="h", type="typed_hash_reconciliation", severity=severity, mode="full")
    return judged(gate, {}, Probe(typed_hash=source), Probe(typed_hash=target))


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", SQL_TYPES)
@pytest.mark.parametrize(("answer", "status"), [(0, "passed"), (5, "passed"), (6, "failed"), (UINT64, "failed")])
def test_a_scalar_passes_up_to_its_threshold(kind: str, answer: int, status: str) -> None:
    noun, metric, limit = NOUNS[kind]
    result = judged(scalar(kind), {"g": answer})
    assert (result.status, result.code) == (status, f"{noun}_{'within' if status == 'passed' else 'over'}_threshold")
    assert dict(result.metrics) == {metric: answer, limit: 5}


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", SQL_TYPES)
@pytest.mark.parametrize("severity", ["error", "warn"])
@pytest.mark.parametrize(
    "answers",
    [{}, {"other": 0}, *({"g": answer} for answer in (None, False, True, -1, 0.0, "0", [0], UINT64 + 1))],
    ids=repr,
)
def test_what_is_no_count_is_no_answer(kind: str, severity: str, answers: Any) -> None:
    result = judged(scalar(kind, UINT64, severity), answers)
    assert (result.status, result.code, result.metrics) == (
        "failed" if severity == "error" else "warned",
        f"{NOUNS[kind][0]}_unavailable",
        (),
    )


@pytest.mark.contract("Q1")
def test_without_answers_no_sql_gate_passes() -> None:
    policy = QualityPolicy(gates=tuple(GateSpec(id=kind, type=kind, sql="a", threshold=1) for kind in SQL_TYPES))
    report = QualityGateRunner().evaluate(policy, NOBODY, NOBODY)
    assert {result.status for result in report.results} == {"failed"}


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", ["not_null", "unique", "accepted_values", "custom_sql"])
def test_without_a_threshold_only_zero_passes(kind: str) -> None:
    assert judged(scalar(kind, None), {"g": 0}).status == "passed"
    assert judged(scalar(kind, None), {"g": 1}).status == "failed"


@pytest.mark.contract("Q1")
def test_a_freshness_gate_without_threshold_fails() -> None:
    result = judged(scalar("freshness", None), {"g": 0})
    assert (result.status, result.code) == ("failed", "threshold_missing")


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", SQL_TYPES)
def test_a_threshold_that_is_no_whole_number_fails(kind: str) -> None:
    result = judged(scalar(kind, 0.5), {"g": 0})
    assert (result.status, result.code) == ("failed", "threshold_missing")


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", SQL_TYPES)
def test_an_answer_to_no_question_is_none(kind: str) -> None:
    result = judged(scalar(kind, sql=None), {"g": 0})
    assert (result.status, result.code) == ("failed", f"{NOUNS[kind][0]}_unavailable")


@pytest.mark.contract("Q1")
def test_each_gate_gets_the_answer_of_its_own_id() -> None:
    gates = tuple(GateSpec(id=name, type="custom_sql", sql="a", threshold=1) for name in "abc")
    report = QualityGateRunner().evaluate(QualityPolicy(gates=gates), NOBODY, NOBODY, {"c": 3, "a": 1, "b": 2})
    assert [dict(result.metrics)["value"] for result in report.results] == [1, 2, 3]


@pytest.mark.contract("Q1")
def test_equal_hashes_pass() -> None:
    assert hashes(ONE, ONE) == GateResult(
        gate_id="h",
        type="typed_hash_reconciliation",
        severity="error",
        status="passed",
        code="typed_hashes_equal",
        metrics=(("source_hash", "sha256:" + ONE), ("target_hash", "sha256:" + ONE)),
    )


@pytest.mark.contract("Q1")
def test_one_hash_written_two_ways_is_one_hash() -> None:
    assert hashes("sha256:" + ONE, ONE) == hashes(ONE, "sha256:" + ONE) == hashes(ONE, ONE)


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(("severity", "status"), [("error", "failed"), ("warn", "warned")])
def test_other_hashes_do_not_pass(severity: str, status: str) -> None:
    result = hashes(ONE, OTHER, severity)
    assert (result.status, result.code) == (status, "typed_hashes_differ")
    assert dict(result.metrics) == {"source_hash": "sha256:" + ONE, "target_hash": "sha256:" + OTHER}


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        (None, ONE, "source_typed_hash_unavailable"),
        (ONE, None, "target_typed_hash_unavailable"),
        (None, None, "source_typed_hash_unavailable"),
    ],
)
@pytest.mark.parametrize(("severity", "status"), [("error", "failed"), ("warn", "warned")])
def test_a_hash_that_nobody_has_does_not_pass(
    source: str | None, target: str | None, code: str, severity: str, status: str
) -> None:
    result = hashes(source, target, severity)
    assert (result.status, result.code, result.metrics) == (status, code, ())


@pytest.mark.contract("Q1", "Q8")
def test_every_gate_type_has_an_evaluation_and_an_allow_list() -> None:
    assert EVALUATIONS.keys() == METRICS.keys() == set(GATE_TYPES)


FACT = st.none() | st.integers(0, UINT64)
PROBE = st.builds(
    Probe, row_count=FACT, typed_hash=st.none() | st.sampled_from([ONE, "sha256:" + ONE, OTHER, "sha256:" + OTHER])
)


@pytest.mark.contract("Q8")
@given(
    kind=st.sampled_from(GATE_TYPES),
    severity=st.sampled_from(["error", "warn"]),
    source=PROBE,
    target=PROBE,
    threshold=FACT,
    answer=FACT | st.just("password") | st.lists(st.just("password")),
)
def test_a_result_is_only_codes_counts_and_digests_of_its_types_allow_list(
    kind: str, severity: str, source: Probe, target: Probe, threshold: int | None, answer: Any
) -> None:
    gate = GateSpec(
        id="g", type=kind, severity=severity, threshold=threshold, tolerance=Tolerance(), mode="full", sql="hunter2"
    )
    result = judged(gate, {"g": answer}, source, target)
    assert result.status in (("passed", "failed") if severity == "error" else ("passed", "warned"))
    assert {name for name, _ in result.metrics} in (set(), METRICS[kind])
    told = json.dumps(result.payload())
    assert "password" not in told
    assert "hunter2" not in told
    assert len(told) < 400


@pytest.mark.contract("Q2", "Q8")
def test_sql_is_in_no_report() -> None:
    gate = scalar("custom_sql", sql="SELECT 'hunter2' -- " + "hunter2 " * 8_000)
    policy = QualityPolicy(gates=(gate,))
    report = QualityGateRunner().evaluate(policy, NOBODY, NOBODY, {"g": 6})
    assert "hunter2" not in json.dumps(report.payload()) + repr(report) + repr(policy)
