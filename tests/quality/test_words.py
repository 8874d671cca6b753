"""The sentences that people read, each as it is: what is wrong, and what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.quality.acceptance import AcceptanceMetricsRecorder, plan_requests, rebuild_snapshot
from dpone_provider.quality.gates import Probe, QualityGateReport, QualityGateRunner, check_coverage
from dpone_provider.quality.policy import (
    AcceptanceMetricConfigurationError,
    AcceptanceMetricPolicy,
    GateSpec,
    QualityPolicy,
    Tolerance,
    parse_quality,
)
from dpone_provider.quality.receipt import (
    QualityGateExecution,
    QualityGateReceipt,
    report_from_staged_quality_receipt,
)

GATE = {"id": "g", "type": "row_count_reconciliation"}
HASH = {"id": "g", "type": "typed_hash_reconciliation"}
WORDS = "off, none, all_columns, business_columns, source_and_binary_semantics, strict"
FIELDS = "id, type, severity, side, threshold, tolerance, mode, sql"


def gates(*authored: Any) -> dict[str, Any]:
    return {"gates": list(authored)}


def accept(**authored: Any) -> dict[str, Any]:
    return {"acceptance": {"enabled": True, **authored}}


AUTHORED = [
    (None, "This must be a mapping.", "Use the fields gates, acceptance."),
    ({"gate": []}, "Unknown field.", "The fields here are gates, acceptance."),
    ({"gates": {}}, "This must be a list of gates.", "Write one list item a gate."),
    (gates("rows"), "This must be a mapping.", f"Use the fields {FIELDS}."),
    (gates({**GATE, "id": ""}), "This must be a name of 1 to 128 printable characters.", "Write a short name."),
    (gates(GATE, GATE), "Two gates have this id.", "Give every gate an id of its own."),
    (
        gates({**GATE, "type": "rows"}),
        "This is not one of the allowed words.",
        "Use one of row_count_reconciliation, min_rows, typed_hash_reconciliation, not_null, unique, accepted_values, "
        "freshness, custom_sql.",
    ),
    (gates({**GATE, "severity": "x"}), "This is not one of the allowed words.", "Use one of error, warn."),
    (
        gates({**GATE, "sql": "1"}),
        "Gates of type row_count_reconciliation do not use this field.",
        "Remove it.",
    ),
    (
        gates({"id": "g", "type": "min_rows"}),
        "This must be a whole number of zero or more.",
        "Write a number such as 1000.",
    ),
    (
        gates({**GATE, "tolerance": {"mode": "pct", "value": -1}}),
        "This must be a finite number of zero or more.",
        "Write a number such as 0 or 0.5.",
    ),
    (gates({**GATE, "tolerance": 1}), "This must be a mapping.", "Use the fields mode, value."),
    (
        gates({"id": "g", "type": "unique"}),
        "This must be text of at most 65536 characters, without control characters.",
        "Write one expression or statement, as the type of gate asks.",
    ),
    (
        gates(HASH, {**HASH, "id": "h", "mode": "sample"}),
        "Another typed hash has another mode.",
        "Give all typed hashes of a load one mode: each side is hashed once.",
    ),
    (accept(enabled=1), "This must be exactly true or false.", "Write true or false, without quotes."),
    (
        accept(capture=dict.fromkeys(("source", "staged", "target"), False)),
        "No side is captured.",
        "Set source, staged or target to true.",
    ),
    (
        accept(checks={"row_count": False}),
        "No check is asked for.",
        "Ask for a check, or set enabled to false.",
    ),
    (
        accept(checks={"null_counts": []}),
        "This does not select columns.",
        f"Use true, false, one of {WORDS}, or a list of column names.",
    ),
    (accept(checks={"null_counts": [" "]}), "This must be a column name.", "Write the name of a column."),
    (accept(checks={"null_counts": ["a", "a"]}), "This column is listed twice.", "List every column once."),
]


@pytest.mark.contract("M11")
@pytest.mark.parametrize(("raw", "message", "remedy"), AUTHORED, ids=range(len(AUTHORED)))
def test_a_problem_says_what_is_wrong_and_what_to_write(raw: Any, message: str, remedy: str) -> None:
    assert [(problem.message, problem.remedy) for problem in parse_quality(raw)[1]] == [(message, remedy)]


@pytest.mark.contract("X1")
@pytest.mark.parametrize(
    ("config", "path", "said", "remedy"),
    [
        ([], "", "The load configuration must be a mapping.", "Pass the mapping of a process."),
        ({"quality": 1}, "quality", "This must be a mapping.", "Use the fields gates, acceptance."),
        ({"quality": {"acceptance": 1}}, "quality.acceptance", "This must be a mapping.", None),
    ],
)
def test_python_is_told_the_same(config: Any, path: str, said: str, remedy: str | None) -> None:
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy.from_load_config(config)
    assert (refused.value.field_path, refused.value.message) == (path, f"{path}: {said}")
    assert refused.value.next_step == (remedy or "Use the fields enabled, mode, capture, checks.")


def test_a_path_alone_is_said_alone() -> None:
    refused = AcceptanceMetricConfigurationError("DPONE_ACCEPTANCE_CONFIGURATION", "quality.acceptance")
    assert (refused.message, refused.next_step) == ("quality.acceptance", "Correct the named field.")


POLICY = QualityPolicy(gates=(GateSpec(id="g", type="row_count_reconciliation", tolerance=Tolerance()),))
COUNTED = {"source": Probe(row_count=1), "target": Probe(row_count=1)}


def execution(boundary: Any = None) -> QualityGateExecution:
    return QualityGateExecution(policy=POLICY, run_id="r", load_id="l", boundary=boundary)


def issued(boundary: str = "pre_commit") -> tuple[QualityGateExecution, QualityGateReceipt]:
    owner = execution()
    return owner, owner.evaluate(**COUNTED, boundary=boundary)


def changed(**values: Any) -> QualityGateReport:
    report = QualityGateRunner().evaluate(POLICY, **COUNTED)
    for name, value in values.items():
        object.__setattr__(report, name, value)
    return report


def asked(mode: str = "required") -> Any:
    policy = AcceptanceMetricPolicy(enabled=True, mode=mode, staged=False, target=False, null_counts=("a", "b"))
    return plan_requests(policy, {"source": ("a", "b")}, {})[0]


RECEIPT, FOREIGN = "DPONE_QUALITY_GATE_RECEIPT_", "DPONE_ACCEPTANCE_UNAVAILABLE"
REFUSALS: list[tuple[Callable[[], object], str, str]] = [
    (
        lambda: QualityGateReport(results=(), policy_fingerprint="x"),
        RECEIPT + "INVALID",
        "It was not made where the gates are evaluated.",
    ),
    (lambda: pickle.dumps(changed()), RECEIPT + "INVALID", "It cannot be copied or stored."),
    (
        lambda: QualityGateReceipt(report=QualityGateReport(), boundary="x"),  # type: ignore[arg-type]
        RECEIPT + "INVALID",
        "The receipt is malformed.",
    ),
    (
        lambda: report_from_staged_quality_receipt(None),  # type: ignore[arg-type]
        RECEIPT + "INVALID",
        "This is not a quality receipt.",
    ),
    (
        lambda: report_from_staged_quality_receipt(issued("post_commit")[1]),
        RECEIPT + "MISMATCH",
        "The receipt is of another boundary.",
    ),
    (lambda: execution().evaluate(**COUNTED, boundary="x"), RECEIPT + "INVALID", "The boundary is unknown."),
    (
        lambda: execution("post_commit").evaluate(**COUNTED, boundary="pre_commit"),
        RECEIPT + "MISMATCH",
        "The execution is of another boundary.",
    ),
    (
        lambda: issued()[0].evaluate(**COUNTED, boundary="pre_commit"),
        RECEIPT + "INVALID",
        "The receipt was used out of order: ISSUED is not OPEN.",
    ),
    (
        lambda: (lambda owner, receipt: owner.accept_payload(receipt, "post_commit"))(*issued()),
        RECEIPT + "MISMATCH",
        "The receipt is of another boundary.",
    ),
    (lambda: execution().accept_state(None), RECEIPT + "REQUIRED", "There is no quality receipt."),
    (
        lambda: execution().accept_state("x"),  # type: ignore[arg-type]
        RECEIPT + "INVALID",
        "This is not a quality receipt.",
    ),
    (
        lambda: execution().accept_state(QualityGateReceipt(report=QualityGateReport())),
        RECEIPT + "REQUIRED",
        "The receipt is bound to nothing.",
    ),
    (
        lambda: QualityGateExecution(policy=QualityPolicy(), run_id="r", load_id="l").accept_state(issued()[1]),
        RECEIPT + "MISMATCH",
        "The receipt is of another policy.",
    ),
    (
        lambda: execution().accept_state(issued()[1]),
        RECEIPT + "REQUIRED",
        "The receipt is of another execution.",
    ),
    (lambda: check_coverage(POLICY, changed(kind="x")), RECEIPT + "INVALID", "The gate report is malformed."),
    (
        lambda: check_coverage(POLICY, changed(results=(None,))),
        RECEIPT + "INVALID",
        "A gate result is malformed.",
    ),
    (
        lambda: check_coverage(POLICY, QualityGateReport()),
        RECEIPT + "REQUIRED",
        "The gate report is bound to no policy.",
    ),
    (
        lambda: check_coverage(POLICY, changed(policy_fingerprint="x")),
        RECEIPT + "INVALID",
        "The fingerprint of the gate report is malformed.",
    ),
    (
        lambda: check_coverage(POLICY, changed(results=())),
        RECEIPT + "MISMATCH",
        "The gate report is of another policy or coverage.",
    ),
    (
        lambda: check_coverage(POLICY, changed(results=(attrs.evolve(changed().results[0], code=""),))),
        RECEIPT + "INVALID",
        "A gate result says what it may not.",
    ),
    (
        lambda: AcceptanceMetricsRecorder([asked()]).unavailable("source"),
        FOREIGN,
        "Acceptance of source: It cannot be observed on this route. (source_acceptance_metric_probe_unavailable)",
    ),
    (
        lambda: plan_requests(AcceptanceMetricPolicy(enabled=True, mode="required"), {}, {}),
        FOREIGN,
        "Acceptance of source: It cannot be observed on this route. (source_acceptance_metric_probe_unavailable)",
    ),
    (
        lambda: plan_requests(
            AcceptanceMetricPolicy(enabled=True, mode="required", null_counts=("a", "b"), distinct_counts=("c",)),
            {"source": ()},
            {},
        ),
        FOREIGN,
        "Acceptance of source: There is no column a, b, c on this side. (source_acceptance_metric_columns_unknown)",
    ),
    (
        AcceptanceMetricsRecorder([asked()]).snapshots,
        FOREIGN,
        "Acceptance of source: Its snapshot is missing. (source_acceptance_metric_probe_unavailable)",
    ),
    (
        lambda: AcceptanceMetricsRecorder([]).record("staged", {}),
        FOREIGN,
        "Acceptance of staged: This snapshot was not asked for, or there is one. "
        "(staged_acceptance_metric_snapshot_unexpected)",
    ),
    (
        lambda: rebuild_snapshot(asked(), {}),
        FOREIGN,
        "Acceptance of source: The answer is not what was asked for. (source_acceptance_metric_snapshot_invalid)",
    ),
]


@pytest.mark.contract("Q3", "X5", "X6")
@pytest.mark.parametrize(("call", "code", "message"), REFUSALS, ids=range(len(REFUSALS)))
def test_a_refusal_has_its_code_and_sentence(call: Callable[[], object], code: str, message: str) -> None:
    with pytest.raises(DponeError) as refused:
        call()
    assert (refused.value.code, refused.value.message) == (code, message)


@pytest.mark.contract("X5", "X9")
@pytest.mark.parametrize(
    ("call", "side"),
    [
        (lambda: AcceptanceMetricsRecorder([asked()]).unavailable("source"), "source"),
        (AcceptanceMetricsRecorder([asked()]).snapshots, "source"),
        (lambda: AcceptanceMetricsRecorder([]).record("staged", {}), "staged"),
        (lambda: rebuild_snapshot(asked(), {}), "source"),
    ],
)
def test_a_refused_observation_names_its_side(call: Callable[[], object], side: str) -> None:
    with pytest.raises(DponeError) as refused:
        call()
    assert refused.value.context["acceptance_side"] == side


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Probe(row_count=-1), "row_count must be a whole number of rows, or None when nobody counted"),
        (
            lambda: Probe(typed_hash=""),
            "typed_hash must be a SHA-256 in lower-case hex, or None when nobody computed it",
        ),
        (lambda: Tolerance(value=-1), "value must be a finite number of zero or more"),
        (lambda: QualityPolicy(gates=(*POLICY.gates, *POLICY.gates)), "gate ids must be unique"),
        (
            lambda: GateSpec(id="g", type="unique", sql=""),
            "sql must be text of at most 65536 characters, without control characters",
        ),
    ],
)
def test_a_value_says_what_it_must_be(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        call()
