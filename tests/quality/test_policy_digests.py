"""A policy's digests: stable, sensitive to order and to every gate field; SQL stands in them as a hash only."""

from __future__ import annotations

import json

import attrs
import pytest

from dpone_provider import canonical
from dpone_provider.quality.policy import AcceptanceMetricPolicy, GateSpec, QualityPolicy, Tolerance, parse_quality

ROWS = GateSpec(id="rows", type="row_count_reconciliation", tolerance=Tolerance(mode="absolute", value=0))
ENOUGH = GateSpec(id="enough", type="min_rows", side="target", threshold=10)
CUSTOM = GateSpec(id="sql", type="custom_sql", threshold=1, mode="full", sql="SELECT password FROM vault")
ASKED = AcceptanceMetricPolicy(enabled=True, mode="required", null_counts=("id",))


def fingerprint(*gates: GateSpec) -> str:
    return QualityPolicy(gates=gates).policy_fingerprint


@pytest.mark.contract("Q2")
def test_the_digests_are_the_stored_ones() -> None:
    policy = QualityPolicy(gates=(ROWS, ENOUGH), acceptance=ASKED)
    assert policy.policy_fingerprint == "sha256:1f666e996ed29aec73a1363d846abb846ecc18b26730efbc588dd21cb8716b3f"
    assert policy.snapshot_id == "sha256:04212a7ea0ff95f52cf64c2a39f10fd6941fc4ed03794a747aac46ea21b21d3b"


@pytest.mark.contract("Q2")
def test_the_fingerprint_is_over_exactly_the_ordered_normalized_gates() -> None:
    expected = [
        {
            "ordinal": 0,
            "id": "sql",
            "type": "custom_sql",
            "severity": "error",
            "side": None,
            "threshold": 1,
            "tolerance": None,
            "hash_mode": "full",
            "sql_sha256": canonical.text_digest("SELECT password FROM vault"),
        }
    ]
    assert fingerprint(CUSTOM) == "sha256:" + canonical.digest(expected)


@pytest.mark.contract("Q2")
def test_the_order_of_gates_counts() -> None:
    assert fingerprint(ROWS, ENOUGH) != fingerprint(ENOUGH, ROWS)


@pytest.mark.contract("Q2")
@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"type": "min_rows"},
        {"severity": "warn"},
        {"side": "source"},
        {"threshold": 2},
        {"tolerance": Tolerance(mode="pct", value=0)},
        {"tolerance": Tolerance(mode="absolute", value=1)},
        {"mode": "sample"},
        {"sql": "SELECT 2"},
    ],
    ids=repr,
)
def test_every_gate_field_counts(change: dict[str, object]) -> None:
    gate = attrs.evolve(CUSTOM, tolerance=Tolerance())
    assert fingerprint(gate) != fingerprint(attrs.evolve(gate, **change))


@pytest.mark.contract("Q2")
def test_acceptance_is_in_the_snapshot_and_not_in_the_fingerprint() -> None:
    bare, asked = QualityPolicy(gates=(ROWS,)), QualityPolicy(gates=(ROWS,), acceptance=ASKED)
    assert bare.policy_fingerprint == asked.policy_fingerprint
    assert bare.snapshot_id != asked.snapshot_id


@pytest.mark.contract("Q2", "X1")
def test_the_snapshot_of_acceptance_is_plain_json() -> None:
    assert ASKED.snapshot() == {
        "mode": "required",
        "capture": {"source": True, "staged": True, "target": True},
        "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": "none"},
    }


@pytest.mark.contract("Q2")
def test_a_disabled_acceptance_asks_for_nothing_and_is_no_other_policy() -> None:
    disabled = AcceptanceMetricPolicy(enabled=False, mode="required", null_counts="all_columns")
    assert QualityPolicy(acceptance=disabled).snapshot_id == QualityPolicy().snapshot_id


@pytest.mark.contract("Q2", "X8")
def test_sql_stands_in_no_snapshot_and_no_repr() -> None:
    policy = QualityPolicy(gates=(CUSTOM,))
    assert "password" not in json.dumps(policy.snapshot()) + repr(policy)


@pytest.mark.contract("Q2")
@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (0, -0.0), (100, 1e2)], ids=repr)
def test_one_number_written_two_ways_is_one_policy(one: float, other: float) -> None:
    def snapshot_id(value: float) -> str:
        gate = {"id": "r", "type": "row_count_reconciliation", "tolerance": {"mode": "absolute", "value": value}}
        policy, problems = parse_quality({"gates": [gate]})
        assert problems == []
        return policy.snapshot_id

    assert snapshot_id(one) == snapshot_id(other)


@pytest.mark.contract("Q2")
def test_equal_column_checks_written_two_ways_are_one_policy() -> None:
    def snapshot_id(check: object) -> str:
        return parse_quality({"acceptance": {"enabled": True, "checks": {"null_counts": check}}})[0].snapshot_id

    assert snapshot_id(True) == snapshot_id("strict") == snapshot_id("business_columns")
    assert snapshot_id("all_columns") != snapshot_id("business_columns")


@pytest.mark.contract("Q1")
def test_values_refuse_two_gates_with_one_id_and_foreign_words() -> None:
    with pytest.raises(ValueError, match="unique"):
        QualityPolicy(gates=(ROWS, attrs.evolve(ENOUGH, id="rows")))
    with pytest.raises(ValueError, match="severity"):
        attrs.evolve(ROWS, severity="fatal")
    with pytest.raises(ValueError, match="finite"):
        Tolerance(mode="pct", value=float("nan"))
