"""Gates over counted facts: exact arithmetic, missing facts fail, reports that only the runner makes."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.quality.gates import (
    Probe,
    QualityGateReport,
    QualityGateRunner,
    check_coverage,
)
from dpone_provider.quality.policy import GateSpec, QualityPolicy, Tolerance

UINT64 = 2**64 - 1


def reconcile(mode: str = "absolute", value: float = 0, severity: str = "error") -> QualityPolicy:
    tolerance = Tolerance(mode=mode, value=value)
    gate = GateSpec(id="rows", type="row_count_reconciliation", severity=severity, tolerance=tolerance)
    return QualityPolicy(gates=(gate,))


def min_rows(threshold: int, side: str | None = "target", severity: str = "error") -> QualityPolicy:
    gate = GateSpec(id="enough", type="min_rows", severity=severity, side=side, threshold=threshold)
    return QualityPolicy(gates=(gate,))


def run(policy: QualityPolicy, source: int | None, target: int | None) -> QualityGateReport:
    return QualityGateRunner().evaluate(policy, Probe(row_count=source), Probe(row_count=target))


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("mode", "value", "source", "target", "passed"),
    [
        ("absolute", 0, 10, 10, True),
        ("absolute", 0, 10, 9, False),
        ("absolute", 0, 0, 0, True),
        ("absolute", 3, 10, 7, True),
        ("absolute", 3, 10, 13, True),
        ("absolute", 3, 10, 14, False),
        ("absolute", 0.9, 10, 9, False),
        ("absolute", 0, UINT64, UINT64 - 1, False),
        ("pct", 10, 10, 9, True),
        ("pct", 10, 10, 8, False),
        ("pct", 10, 10, 11, True),
        ("pct", 0.1, 1000, 999, True),
        ("pct", 0.1, 999, 998, False),
        ("pct", 0.3, 1000, 997, True),
        ("pct", 0.07, 10000, 9993, True),
        ("pct", 0, UINT64, UINT64 - 1, False),
        ("pct", 50, 0, 0, True),
        ("pct", 50, 0, 1, False),
        ("pct", 200, 10, 30, True),
    ],
)
def test_row_counts_are_reconciled_exactly(mode: str, value: float, source: int, target: int, passed: bool) -> None:
    assert run(reconcile(mode, value), source, target).passed is passed


@pytest.mark.contract("Q1")
@given(
    mode=st.sampled_from(["absolute", "pct"]),
    hundredths=st.integers(0, 100_000),
    source=st.integers(0, UINT64),
    target=st.integers(0, UINT64),
)
def test_no_float_stands_between_a_tolerance_and_its_meaning(
    mode: str, hundredths: int, source: int, target: int
) -> None:
    authored = Fraction(hundredths, 100)
    limit = authored if mode == "absolute" else authored * source / 100
    assert run(reconcile(mode, hundredths / 100), source, target).passed is (abs(source - target) <= limit)


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("side", "source", "target", "passed"),
    [
        ("target", 0, 5, True),
        ("target", 9, 4, False),
        ("source", 5, 0, True),
        ("source", 4, 9, False),
        (None, 0, 5, True),
        (None, 9, 4, False),
    ],
)
def test_min_rows_counts_the_side_it_names(side: str | None, source: int, target: int, passed: bool) -> None:
    report = run(min_rows(5, side), source, target)
    assert report.passed is passed
    assert report.results[0].code == ("rows_reach_threshold" if passed else "rows_below_threshold")


@pytest.mark.contract("Q1")
def test_zero_rows_reach_a_threshold_of_zero() -> None:
    assert run(min_rows(0), 0, 0).passed


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("policy", "source", "target", "code"),
    [
        (reconcile(), None, 0, "source_row_count_unavailable"),
        (reconcile(), 0, None, "target_row_count_unavailable"),
        (reconcile("pct", 1000), None, None, "source_row_count_unavailable"),
        (min_rows(0), 0, None, "target_row_count_unavailable"),
        (min_rows(0, None), 0, None, "target_row_count_unavailable"),
        (min_rows(0, "source"), None, 0, "source_row_count_unavailable"),
    ],
)
def test_a_missing_count_fails_an_error_gate(
    policy: QualityPolicy, source: int | None, target: int | None, code: str
) -> None:
    report = run(policy, source, target)
    assert not report.passed
    assert [(result.status, result.code, result.metrics) for result in report.results] == [("failed", code, ())]


@pytest.mark.contract("Q1")
def test_a_min_rows_gate_without_threshold_fails() -> None:
    policy = QualityPolicy(gates=(GateSpec(id="m", type="min_rows"),))
    assert [(result.status, result.code) for result in run(policy, 1, 1).results] == [("failed", "threshold_missing")]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("policy", "source", "target"), [(reconcile(severity="warn"), 3, 2), (min_rows(5, severity="warn"), 5, None)]
)
def test_a_warning_gate_warns_and_does_not_block(policy: QualityPolicy, source: int, target: int | None) -> None:
    report = run(policy, source, target)
    assert report.passed
    assert [result.status for result in report.results] == ["warned"]


@pytest.mark.contract("Q1", "C2")
@pytest.mark.parametrize("count", [True, -1, 1.0, "1", UINT64 + 1], ids=repr)
def test_a_probe_takes_only_counts(count: Any) -> None:
    with pytest.raises(ValueError, match="row_count"):
        Probe(row_count=count)


@pytest.mark.contract("Q8")
@pytest.mark.parametrize("value", ["", "abc", "A" * 64, "secret " * 20_000, 7], ids=lambda value: str(value)[:8])
def test_a_probe_takes_only_sha256_hashes(value: Any) -> None:
    with pytest.raises(ValueError, match="typed_hash"):
        Probe(typed_hash=value)


@pytest.mark.contract("C1")
def test_a_probe_is_stored_as_its_two_facts() -> None:
    assert Probe(row_count=3, typed_hash="a" * 64).payload() == {"row_count": 3, "typed_hash": "a" * 64}
    assert Probe().payload() == {"row_count": None, "typed_hash": None}


@pytest.mark.contract("Q8")
def test_the_payload_is_an_allow_list_of_codes_and_whole_numbers() -> None:
    policy = QualityPolicy(gates=(*reconcile("pct", 50).gates, *min_rows(11).gates))
    assert run(policy, 12, 10).payload() == {
        "kind": "dpone.data_quality.gates.v1",
        "passed": False,
        "results": [
            {
                "gate_id": "rows",
                "type": "row_count_reconciliation",
                "severity": "error",
                "status": "passed",
                "code": "rows_reconciled",
                "metrics": {"source_rows": 12, "target_rows": 10, "difference_rows": 2, "allowed_rows": 6},
            },
            {
                "gate_id": "enough",
                "type": "min_rows",
                "severity": "error",
                "status": "failed",
                "code": "rows_below_threshold",
                "metrics": {"rows": 10, "threshold_rows": 11},
            },
        ],
    }


@pytest.mark.contract("Q8")
@given(value=st.floats(0, 1.8e19), source=st.none() | st.integers(0, UINT64), target=st.none() | st.integers(0, UINT64))
def test_every_metric_and_code_stays_bounded(value: float, source: int | None, target: int | None) -> None:
    policy = QualityPolicy(gates=(*reconcile("pct", value).gates, *min_rows(UINT64).gates))
    payload = run(policy, source, target).payload()
    assert canonical.decode(canonical.encode(payload), max_bytes=1024) == payload
    for result in payload["results"]:
        assert len(result["code"]) <= 64
        assert all(type(metric) is int and 0 <= metric <= UINT64 for metric in result["metrics"].values())


@pytest.mark.contract("Q7", "C2")
def test_an_empty_policy_gives_the_empty_passing_report() -> None:
    payload = run(QualityPolicy(), None, None).payload()
    assert payload == {"kind": "dpone.data_quality.gates.v1", "passed": True, "results": []}


@pytest.mark.contract("G8")
def test_the_same_policy_and_probes_give_the_stored_report_again() -> None:
    stored = json.loads(json.dumps(run(reconcile(), 5, 5).payload()))
    assert run(reconcile(), 5, 5).same_as(stored)
    assert run(reconcile(), 5, 5) == run(reconcile(), 5, 5)
    assert hash(run(reconcile(), 5, 5)) == hash(run(reconcile(), 5, 5))


@pytest.mark.contract("G8", "C2")
@pytest.mark.parametrize(
    "change",
    [
        {"passed": 1},
        {"passed": False},
        {"kind": "dpone.data_quality.gates.v2"},
        {"results": []},
        {"extra": None},
        {"results": float("nan")},
    ],
    ids=repr,
)
def test_a_stored_report_with_another_byte_does_not_match(change: dict[str, Any]) -> None:
    report = run(reconcile(), 5, 5)
    assert not report.same_as({**report.payload(), **change})


@pytest.mark.contract("G8")
def test_other_probes_give_another_report() -> None:
    one, other = run(reconcile("absolute", 1), 5, 5), run(reconcile("absolute", 1), 5, 4)
    assert one != other
    assert hash(one) != hash(other)
    assert one != "a report"


def _invalid(make: Any) -> None:
    with pytest.raises(DponeError) as refused:
        make()
    assert refused.value.code == "DPONE_QUALITY_GATE_RECEIPT_INVALID"


@pytest.mark.contract("Q3", "Q4")
@pytest.mark.parametrize(
    "make",
    [
        lambda report: QualityGateReport(results=(), policy_fingerprint="sha256:" + "0" * 64),
        lambda report: QualityGateReport(results=(), policy_fingerprint="", permit=object()),
        lambda report: attrs.evolve(report, results=()),
        lambda report: attrs.evolve(report),
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
    ],
    ids=["direct", "foreign permit", "evolve", "same again", "copy", "deepcopy", "pickle"],
)
def test_only_the_runner_makes_reports(make: Any) -> None:
    report = run(reconcile(), 1, 2)
    _invalid(lambda: make(report))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize(
    "tamper",
    [
        lambda results: results[:1],
        lambda results: (*results, results[0]),
        lambda results: (results[0], results[0]),
        lambda results: (results[1], results[0]),
        lambda results: (attrs.evolve(results[0], severity="warn"), results[1]),
        lambda results: (attrs.evolve(results[0], type="min_rows"), results[1]),
        lambda results: (),
    ],
    ids=["missing", "extra", "duplicate", "reordered", "other severity", "other type", "none"],
)
def test_a_report_covers_exactly_the_gates_of_its_policy(tamper: Any) -> None:
    policy = QualityPolicy(gates=(*reconcile().gates, *min_rows(1).gates))
    report = run(policy, 5, 5)
    check_coverage(policy, report)
    object.__setattr__(report, "results", tamper(report.results))
    with pytest.raises(DponeError) as refused:
        check_coverage(policy, report)
    assert refused.value.code == "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"


@pytest.mark.contract("Q3")
def test_a_report_of_another_policy_is_a_mismatch() -> None:
    with pytest.raises(DponeError) as refused:
        check_coverage(reconcile("absolute", 1), run(reconcile("absolute", 0), 5, 5))
    assert refused.value.code == "DPONE_QUALITY_GATE_RECEIPT_MISMATCH"


@pytest.mark.contract("Q3")
@pytest.mark.parametrize(
    "results",
    [
        [],
        None,
        ({"gate_id": "rows"},),
        (None,),
    ],
    ids=["list", "None", "dict", "a result that is None"],
)
def test_a_malformed_report_is_invalid(results: Any) -> None:
    report = run(reconcile(), 5, 5)
    object.__setattr__(report, "results", results)
    _invalid(lambda: check_coverage(reconcile(), report))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("kind", ["dpone.data_quality.gates.v2", "", None, "dpone.acceptance.run_metrics.v1"], ids=repr)
def test_a_report_of_another_kind_is_invalid(kind: Any) -> None:
    report = run(reconcile(), 5, 5)
    object.__setattr__(report, "kind", kind)
    _invalid(lambda: check_coverage(reconcile(), report))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize(
    "fingerprint",
    [None, "0" * 64, "sha256:", "sha256:" + "0" * 63, "sha256:" + "G" * 64, "sha256:" + "A" * 64, b"", 7],
    ids=repr,
)
def test_a_report_with_a_malformed_fingerprint_is_invalid(fingerprint: Any) -> None:
    report = run(reconcile(), 5, 5)
    object.__setattr__(report, "policy_fingerprint", fingerprint)
    _invalid(lambda: check_coverage(reconcile(), report))


@pytest.mark.contract("Q3")
def test_a_report_that_is_bound_to_no_policy_is_required_to_be() -> None:
    with pytest.raises(DponeError) as refused:
        check_coverage(reconcile(), QualityGateReport(results=()))
    assert refused.value.code == "DPONE_QUALITY_GATE_RECEIPT_REQUIRED"


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("thing", [None, {"passed": True}, "report", object()], ids=["None", "dict", "str", "object"])
def test_what_is_no_report_is_invalid(thing: Any) -> None:
    _invalid(lambda: check_coverage(reconcile(), thing))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("status", ["ok", "PASSED", "", "warned", None, True], ids=repr)
def test_an_error_gate_has_one_of_two_statuses(status: Any) -> None:
    _invalid(lambda: _tampered(reconcile(), status=status))


@pytest.mark.contract("Q3")
@pytest.mark.parametrize("status", ["ok", "failed", None], ids=repr)
def test_a_warning_gate_has_one_of_two_statuses(status: Any) -> None:
    _invalid(lambda: _tampered(reconcile(severity="warn"), status=status))


@pytest.mark.contract("Q8")
@pytest.mark.parametrize(
    "code",
    ["", "Rows", "rows reconciled", "a" * 65, "password=hunter2", "9", None, 7, "a\n"],
    ids=lambda c: repr(c)[:16],
)
def test_a_result_with_free_text_for_a_code_is_invalid(code: Any) -> None:
    _invalid(lambda: _tampered(reconcile(), code=code))


@pytest.mark.contract("Q8")
@pytest.mark.parametrize(
    "metrics",
    [
        {"source_rows": 5},
        [("source_rows", 5)],
        ("source_rows",),
        (["source_rows", 5],),
        (("source_rows",),),
        (("source_rows", 5, 5),),
        (("rows", 5),),
        ((["source_rows"], 5),),
        ((7, 5),),
        (("source_rows", True),),
        (("source_rows", -1),),
        (("source_rows", 2**64),),
        (("source_rows", 5.0),),
        (("source_rows", None),),
        (("source_rows", {"password": "hunter2"}),),
        (("source_rows", "hunter2 " * 13_000),),
        (("source_rows", "sha256:" + "0" * 63),),
        (("source_rows", 5), ("password", 7)),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_result_with_a_metric_beyond_the_allow_list_is_invalid(metrics: Any) -> None:
    _invalid(lambda: _tampered(reconcile(), metrics=metrics))


@pytest.mark.contract("Q8")
def test_the_longest_code_and_a_digest_are_sound() -> None:
    _tampered(reconcile(), code="a" * 64, metrics=(("source_rows", "sha256:" + "0" * 64),))


def _tampered(policy: QualityPolicy, **changes: Any) -> None:
    """Check a report whose result was changed behind the runner's back."""
    report = run(policy, 5, 5)
    object.__setattr__(report, "results", (attrs.evolve(report.results[0], **changes),))
    check_coverage(policy, report)


@pytest.mark.contract("Q7")
def test_an_unbound_report_is_empty() -> None:
    report = QualityGateReport()
    assert (report.unbound, report.passed, report.results) == (True, True, ())
    assert report.payload() == {"kind": "dpone.data_quality.gates.v1", "passed": True, "results": []}
    assert not run(QualityPolicy(), 1, 1).unbound


@pytest.mark.contract("Q4", "Q7")
@pytest.mark.parametrize("results", [[], None, (None,), {}], ids=repr)
def test_an_unbound_report_with_anything_in_it_is_refused(results: Any) -> None:
    _invalid(lambda: QualityGateReport(results=results))
