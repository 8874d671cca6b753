"""What an author may write under ``quality``, and how everything else is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_provider.errors import CATALOGUE, DponeError
from dpone_provider.quality.policy import (
    AcceptanceMetricConfigurationError,
    AcceptanceMetricPolicy,
    GateSpec,
    QualityPolicy,
    Tolerance,
    parse_quality,
)

GATE = {"id": "rows", "type": "row_count_reconciliation"}
MIN_ROWS = {"id": "enough", "type": "min_rows", "threshold": 1}


def reported(raw: object) -> list[tuple[str, str]]:
    return [(problem.field_path, problem.code) for problem in parse_quality(raw)[1]]


def acceptance(**changes: Any) -> dict[str, Any]:
    return {"enabled": True, **changes}


@pytest.mark.contract("Q1")
def test_a_full_block_becomes_values() -> None:
    policy, problems = parse_quality(
        {
            "gates": [
                {**GATE, "severity": "warn", "tolerance": {"mode": "pct", "value": 0.5}},
                {**MIN_ROWS, "side": "source", "threshold": 1000},
            ],
            "acceptance": {
                "enabled": True,
                "mode": "required",
                "capture": {"source": True, "staged": True, "target": True},
                "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": "business_columns"},
            },
        }
    )
    assert problems == []
    assert policy == QualityPolicy(
        gates=(
            GateSpec(
                id="rows",
                type="row_count_reconciliation",
                severity="warn",
                tolerance=Tolerance(mode="pct", value=0.5),
            ),
            GateSpec(id="enough", type="min_rows", side="source", threshold=1000),
        ),
        acceptance=AcceptanceMetricPolicy(
            enabled=True, mode="required", null_counts=("id",), distinct_counts="business_columns"
        ),
    )


@pytest.mark.contract("Q1")
def test_omitted_fields_get_the_strict_defaults() -> None:
    policy, problems = parse_quality({"gates": [GATE, MIN_ROWS]})
    assert problems == []
    assert [gate.severity for gate in policy.gates] == ["error", "error"]
    assert policy.gates[0].tolerance == Tolerance(mode="absolute", value=0)
    assert policy.gates[1].side == "target"


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("gates", "path"),
    [
        pytest.param({}, "quality.gates", id="not a list"),
        pytest.param(None, "quality.gates", id="null"),
        pytest.param(["rows"], "quality.gates[0]", id="gate is a word"),
        pytest.param([{"type": "min_rows", "threshold": 1}], "quality.gates[0].id", id="no id"),
        pytest.param([{**GATE, "id": ""}], "quality.gates[0].id", id="empty id"),
        pytest.param([{**GATE, "id": 7}], "quality.gates[0].id", id="number as id"),
        pytest.param([{**GATE, "id": "a\nb"}], "quality.gates[0].id", id="line break in id"),
        pytest.param([{**GATE, "id": "x" * 129}], "quality.gates[0].id", id="long id"),
        pytest.param([GATE, {**MIN_ROWS, "id": "rows"}], "quality.gates[1].id", id="same id twice"),
        pytest.param([{"id": "rows"}], "quality.gates[0].type", id="no type"),
        pytest.param([{**GATE, "type": "rowcount"}], "quality.gates[0].type", id="unknown type"),
        pytest.param([{**GATE, "type": ["min_rows"]}], "quality.gates[0].type", id="list as type"),
        pytest.param([{**GATE, "severity": "ERROR"}], "quality.gates[0].severity", id="other severity"),
        pytest.param([{**GATE, "severity": None}], "quality.gates[0].severity", id="null severity"),
        pytest.param([{**GATE, "treshold": 1}], "quality.gates[0].treshold", id="unknown field"),
        pytest.param([{**GATE, "side": "source"}], "quality.gates[0].side", id="side where it has no sense"),
        pytest.param([{**GATE, "threshold": 1}], "quality.gates[0].threshold", id="threshold where unused"),
        pytest.param([{**GATE, "sql": "SELECT 1"}], "quality.gates[0].sql", id="sql where unused"),
        pytest.param([{**MIN_ROWS, "tolerance": {}}], "quality.gates[0].tolerance", id="tolerance where unused"),
        pytest.param([{**MIN_ROWS, "side": "staged"}], "quality.gates[0].side", id="unknown side"),
        pytest.param([{"id": "a", "type": "min_rows"}], "quality.gates[0].threshold", id="no threshold"),
        pytest.param([{**MIN_ROWS, "threshold": -1}], "quality.gates[0].threshold", id="negative threshold"),
        pytest.param([{**MIN_ROWS, "threshold": 1.0}], "quality.gates[0].threshold", id="fractional threshold"),
        pytest.param([{**MIN_ROWS, "threshold": True}], "quality.gates[0].threshold", id="boolean threshold"),
        pytest.param([{**MIN_ROWS, "threshold": "1"}], "quality.gates[0].threshold", id="text as threshold"),
        pytest.param([{**MIN_ROWS, "threshold": 2**64}], "quality.gates[0].threshold", id="threshold over UInt64"),
        pytest.param([{**GATE, "tolerance": 5}], "quality.gates[0].tolerance", id="bare tolerance"),
        pytest.param(
            [{**GATE, "tolerance": {"value": 1}}], "quality.gates[0].tolerance.mode", id="tolerance without mode"
        ),
        pytest.param(
            [{**GATE, "tolerance": {"mode": "pct"}}], "quality.gates[0].tolerance.value", id="tolerance without value"
        ),
        pytest.param(
            [{**GATE, "tolerance": {"mode": "percent", "value": 1}}],
            "quality.gates[0].tolerance.mode",
            id="unknown tolerance mode",
        ),
        pytest.param(
            [{**GATE, "tolerance": {"mode": "pct", "value": 1, "of": "source"}}],
            "quality.gates[0].tolerance.of",
            id="unknown tolerance field",
        ),
    ],
)
def test_a_malformed_gate_is_refused_at_its_field(gates: object, path: str) -> None:
    assert reported({"gates": gates}) == [(path, "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.5, -1, True, "1", None, [1], 10**400, float(2**64)], ids=repr
)
def test_a_tolerance_is_a_finite_number_of_zero_or_more(value: object) -> None:
    path = "quality.gates[0].tolerance.value"
    raw = {"gates": [{**GATE, "tolerance": {"mode": "absolute", "value": value}}]}
    assert reported(raw) == [(path, "DPONE_QUALITY_CONFIGURATION")]


SQL_GATES = [
    pytest.param({"id": "g", "type": kind, "sql": "a", **needed}, id=kind)
    for kind, needed in (
        ("not_null", {}),
        ("unique", {}),
        ("accepted_values", {}),
        ("freshness", {"threshold": 60}),
        ("custom_sql", {}),
    )
]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("gate", SQL_GATES)
def test_a_gate_of_sql_keeps_its_text_and_threshold(gate: dict[str, Any]) -> None:
    policy, problems = parse_quality({"gates": [{**gate, "sql": "a\n\t> 1", "threshold": 7}]})
    assert problems == []
    assert policy.gates == (GateSpec(id="g", type=gate["type"], sql="a\n\t> 1", threshold=7),)


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("kind", ["not_null", "unique", "accepted_values", "custom_sql"])
def test_a_gate_of_sql_passes_at_zero_unless_it_says_otherwise(kind: str) -> None:
    policy, problems = parse_quality({"gates": [{"id": "g", "type": kind, "sql": "a"}]})
    assert problems == []
    assert policy.gates[0].threshold == 0


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("gate", SQL_GATES)
@pytest.mark.parametrize(
    "sql",
    [None, "", " \n\t", 7, True, ["a"], b"a", "a\x00", "a\r", "a\x1f", "a\x7f", "a\x85", "a\ud800", "x" * 65_537],
    ids=lambda value: repr(value)[:12],
)
def test_sql_is_bounded_text_without_control_characters(gate: dict[str, Any], sql: Any) -> None:
    raw = {"gates": [{**gate, "sql": sql}]}
    assert reported(raw) == [("quality.gates[0].sql", "DPONE_QUALITY_CONFIGURATION")]
    del raw["gates"][0]["sql"]
    assert reported(raw) == [("quality.gates[0].sql", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("sql", [" ", "a\x00", "x" * 65_537, 7], ids=lambda value: repr(value)[:12])
def test_a_gate_made_in_python_refuses_the_same_sql_without_telling_it(sql: Any) -> None:
    with pytest.raises(ValueError, match="sql must be text") as refused:
        GateSpec(id="g", type="not_null", sql=sql)
    assert "xx" not in str(refused.value)


@pytest.mark.contract("Q1")
def test_the_longest_sql_and_every_other_script_are_taken() -> None:
    raw = {"gates": [{"id": "g", "type": "not_null", "sql": "ÄÖ💶\u00a0" + "x" * 65_532}]}
    assert reported(raw) == []


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("gate", SQL_GATES)
@pytest.mark.parametrize("threshold", [-1, 0.5, True, "1", None, 2**64], ids=repr)
def test_a_threshold_of_a_scalar_is_a_whole_number(gate: dict[str, Any], threshold: Any) -> None:
    raw = {"gates": [{**gate, "threshold": threshold}]}
    assert reported(raw) == [("quality.gates[0].threshold", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
def test_freshness_must_say_how_old_is_too_old() -> None:
    raw = {"gates": [{"id": "g", "type": "freshness", "sql": "at"}]}
    assert reported(raw) == [("quality.gates[0].threshold", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(
    ("gate", "field"),
    [
        *((gate.values[0], field) for gate in SQL_GATES for field in ("side", "tolerance", "mode")),
        *(
            ({"id": "g", "type": "typed_hash_reconciliation"}, field)
            for field in ("side", "threshold", "tolerance", "sql")
        ),
    ],
)
def test_a_field_that_the_type_does_not_use_is_refused(gate: dict[str, Any], field: str) -> None:
    raw = {"gates": [{**gate, field: "full"}]}
    assert reported(raw) == [(f"quality.gates[0].{field}", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
def test_a_typed_hash_is_over_all_rows_unless_it_says_sample() -> None:
    kind = "typed_hash_reconciliation"
    policy, problems = parse_quality({"gates": [{"id": "a", "type": kind}, {"id": "b", "type": kind, "mode": "full"}]})
    assert problems == []
    assert [gate.mode for gate in policy.gates] == ["full", "full"]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("mode", ["FULL", "", None, True, 1, ["full"]], ids=repr)
def test_a_typed_hash_knows_two_modes(mode: Any) -> None:
    raw = {"gates": [{"id": "a", "type": "typed_hash_reconciliation", "mode": mode}]}
    assert reported(raw) == [("quality.gates[0].mode", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("Q1")
def test_typed_hashes_of_one_policy_have_one_mode() -> None:
    kind = "typed_hash_reconciliation"
    gates = [{"id": "a", "type": kind, "mode": "sample"}, GATE, {"id": "b", "type": kind}]
    assert reported({"gates": gates}) == [("quality.gates[2].mode", "DPONE_QUALITY_CONFIGURATION")]
    values = (GateSpec(id="a", type=kind, mode="sample"), GateSpec(id="b", type=kind, mode="full"))
    with pytest.raises(ValueError, match="one mode"):
        QualityPolicy(gates=values)


@pytest.mark.contract("Q1", "X1")
def test_every_problem_is_reported_at_once() -> None:
    raw = {
        "gate": [],
        "gates": [{"id": "a", "type": "min_rows"}, {**GATE, "severity": 1}, 3],
        "acceptance": {"enabled": "yes", "mode": "strict"},
    }
    assert reported(raw) == [
        ("quality.gate", "DPONE_QUALITY_CONFIGURATION"),
        ("quality.gates[0].threshold", "DPONE_QUALITY_CONFIGURATION"),
        ("quality.gates[1].severity", "DPONE_QUALITY_CONFIGURATION"),
        ("quality.gates[2]", "DPONE_QUALITY_CONFIGURATION"),
        ("quality.acceptance.enabled", "DPONE_ACCEPTANCE_CONFIGURATION"),
        ("quality.acceptance.mode", "DPONE_ACCEPTANCE_CONFIGURATION"),
    ]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("raw", [None, [], "off", 0, False], ids=repr)
def test_a_quality_block_that_is_no_mapping_is_refused(raw: object) -> None:
    assert reported(raw) == [("quality", "DPONE_QUALITY_CONFIGURATION")]


@pytest.mark.contract("X1")
def test_acceptance_defaults_are_the_documented_ones() -> None:
    policy, problems = parse_quality({"acceptance": {"enabled": True}})
    assert problems == []
    assert policy.acceptance == AcceptanceMetricPolicy(
        enabled=True,
        mode="warn_only",
        source=True,
        staged=True,
        target=True,
        row_count=True,
        null_counts="none",
        distinct_counts="none",
    )


@pytest.mark.contract("X1")
@pytest.mark.parametrize(
    ("authored", "meaning"),
    [
        (True, "business_columns"),
        (False, "none"),
        ("off", "none"),
        ("none", "none"),
        ("all_columns", "all_columns"),
        ("business_columns", "business_columns"),
        ("source_and_binary_semantics", "business_columns"),
        ("strict", "business_columns"),
        (["b", "a"], ("b", "a")),
    ],
)
def test_every_documented_column_check_is_accepted(authored: object, meaning: object) -> None:
    policy, problems = parse_quality({"acceptance": acceptance(checks={"null_counts": authored})})
    assert problems == []
    assert policy.acceptance is not None
    assert policy.acceptance.null_counts == meaning


MALFORMED_ACCEPTANCE = [
    pytest.param(None, "", id="null"),
    pytest.param([], "", id="list"),
    pytest.param({}, ".enabled", id="no enabled"),
    pytest.param({"enabled": None}, ".enabled", id="null enabled"),
    pytest.param({"enabled": "true"}, ".enabled", id="text enabled"),
    pytest.param({"enabled": 1}, ".enabled", id="number enabled"),
    pytest.param(acceptance(mode="requierd"), ".mode", id="misspelled mode"),
    pytest.param(acceptance(mode=True), ".mode", id="boolean mode"),
    pytest.param(acceptance(mode=None), ".mode", id="null mode"),
    pytest.param(acceptance(sides=[]), ".sides", id="unknown key"),
    pytest.param(acceptance(capture=True), ".capture", id="capture is no mapping"),
    pytest.param(acceptance(capture=["source"]), ".capture", id="capture is a list"),
    pytest.param(acceptance(capture={"sink": True}), ".capture.sink", id="unknown side"),
    pytest.param(acceptance(capture={"source": "yes"}), ".capture.source", id="text side"),
    pytest.param(acceptance(capture={"staged": 1}), ".capture.staged", id="number side"),
    pytest.param(acceptance(capture={"target": None}), ".capture.target", id="null side"),
    pytest.param(acceptance(checks="all"), ".checks", id="checks is no mapping"),
    pytest.param(acceptance(checks={"sum": True}), ".checks.sum", id="unknown check"),
    pytest.param(acceptance(checks={"row_count": "off"}), ".checks.row_count", id="word as row_count"),
    pytest.param(acceptance(checks={"row_count": 0}), ".checks.row_count", id="number as row_count"),
    pytest.param(acceptance(checks={"null_counts": "every"}), ".checks.null_counts", id="unknown word"),
    pytest.param(acceptance(checks={"null_counts": None}), ".checks.null_counts", id="null check"),
    pytest.param(acceptance(checks={"null_counts": 1}), ".checks.null_counts", id="number as check"),
    pytest.param(acceptance(checks={"null_counts": {}}), ".checks.null_counts", id="mapping as check"),
    pytest.param(acceptance(checks={"distinct_counts": []}), ".checks.distinct_counts", id="empty list"),
    pytest.param(acceptance(checks={"distinct_counts": ["a", ""]}), ".checks.distinct_counts[1]", id="empty name"),
    pytest.param(acceptance(checks={"distinct_counts": ["a", " "]}), ".checks.distinct_counts[1]", id="blank name"),
    pytest.param(acceptance(checks={"distinct_counts": [True]}), ".checks.distinct_counts[0]", id="boolean name"),
    pytest.param(acceptance(checks={"distinct_counts": [["a"]]}), ".checks.distinct_counts[0]", id="nested list"),
    pytest.param(acceptance(checks={"distinct_counts": ["a", "a"]}), ".checks.distinct_counts[1]", id="twice"),
    pytest.param(acceptance(capture={"source": False, "staged": False, "target": False}), ".capture", id="no side"),
    pytest.param(acceptance(checks={"row_count": False, "null_counts": "off"}), ".checks", id="no check"),
    pytest.param({"enabled": False, "mode": "no"}, ".mode", id="disabled, bad mode"),
    pytest.param({"enabled": False, "checks": {"x": 1}}, ".checks.x", id="disabled, unknown check"),
]


@pytest.mark.contract("X1")
@pytest.mark.parametrize(("raw", "suffix"), MALFORMED_ACCEPTANCE)
def test_malformed_acceptance_is_refused_alike_by_the_parser_and_by_python(raw: object, suffix: str) -> None:
    expected = ("quality.acceptance" + suffix, "DPONE_ACCEPTANCE_CONFIGURATION")
    assert reported({"acceptance": raw}) == [expected]
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy.from_load_config({"quality": {"acceptance": raw}})
    assert (refused.value.field_path, refused.value.code) == expected
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, DponeError)


@pytest.mark.contract("X1")
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"enabled": None}, "enabled"),
        ({"enabled": 1}, "enabled"),
        ({"enabled": "true"}, "enabled"),
        ({"mode": "requierd"}, "mode"),
        ({"mode": None}, "mode"),
        ({"source": "yes"}, "capture.source"),
        ({"staged": 1}, "capture.staged"),
        ({"target": None}, "capture.target"),
        ({"row_count": 0}, "checks.row_count"),
        ({"null_counts": "every"}, "checks.null_counts"),
        ({"null_counts": ()}, "checks.null_counts"),
        ({"null_counts": None}, "checks.null_counts"),
        ({"distinct_counts": ("a", " ")}, "checks.distinct_counts[1]"),
        ({"distinct_counts": ("a", "a")}, "checks.distinct_counts[1]"),
        ({"distinct_counts": (True,)}, "checks.distinct_counts[0]"),
        ({"enabled": True, "source": False, "staged": False, "target": False}, "capture"),
        ({"enabled": True, "row_count": False}, "checks"),
        ({"enabled": False, "mode": "no"}, "mode"),
    ],
    ids=repr,
)
def test_a_policy_made_in_python_refuses_what_an_author_may_not_write(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy(**fields)
    assert refused.value.code == "DPONE_ACCEPTANCE_CONFIGURATION"
    assert refused.value.field_path == f"quality.acceptance.{path}"


@pytest.mark.contract("X1")
@pytest.mark.parametrize("check", [True, "strict", "source_and_binary_semantics", "business_columns"])
def test_a_policy_made_in_python_takes_the_words_of_an_author(check: Any) -> None:
    made = AcceptanceMetricPolicy(enabled=True, null_counts=check)
    assert made == AcceptanceMetricPolicy(enabled=True, null_counts="business_columns")
    assert AcceptanceMetricPolicy(null_counts="off", distinct_counts=False) == AcceptanceMetricPolicy()  # type: ignore[arg-type]
    assert AcceptanceMetricPolicy(null_counts=["b", "a"]).null_counts == ("b", "a")  # type: ignore[arg-type]


@pytest.mark.contract("X1")
def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy(mode="x")
    assert refused.value.message == "quality.acceptance.mode: This is not one of the allowed words."
    assert refused.value.next_step == "Use one of warn_only, required."


@pytest.mark.contract("X1")
def test_a_disabled_policy_may_ask_for_nothing() -> None:
    off = {"source": False, "staged": False, "target": False}
    policy, problems = parse_quality({"acceptance": {"enabled": False, "capture": off}})
    assert problems == []
    assert policy.acceptance is not None
    assert policy.acceptance.sides == ()


@pytest.mark.contract("X1")
@pytest.mark.parametrize("config", [{}, {"quality": {}}, {"quality": {"gates": []}}], ids=repr)
def test_python_without_acceptance_gets_a_disabled_policy(config: dict[str, Any]) -> None:
    assert AcceptanceMetricPolicy.from_load_config(config) == AcceptanceMetricPolicy(enabled=False)


@pytest.mark.contract("X1")
def test_python_refuses_a_quality_block_that_is_no_mapping() -> None:
    with pytest.raises(AcceptanceMetricConfigurationError) as refused:
        AcceptanceMetricPolicy.from_load_config({"quality": None})
    assert (refused.value.field_path, refused.value.code) == reported(None)[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "type", "severity", "tolerance", "mode", "value", "enabled", "capture", "checks"])
            | st.text(max_size=8),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.contract("Q1", "X1", "M11")
@settings(deadline=None)
@given(gates=JSON, accept=JSON)
def test_the_parser_never_raises_never_changes_its_input_and_uses_catalogued_codes(gates: Any, accept: Any) -> None:
    raw = {"gates": gates, "acceptance": accept}
    before = repr(copy.deepcopy(raw))
    policy, problems = parse_quality(raw)
    assert repr(raw) == before
    assert {problem.code for problem in problems} <= set(CATALOGUE)
    assert all(problem.message and problem.remedy for problem in problems)
    assert policy.snapshot_id.startswith("sha256:")
