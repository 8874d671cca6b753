"""A policy that changes while its load runs is noticed, however it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.quality.policy import AcceptanceMetricPolicy, GateSpec, QualityPolicy, Tolerance
from dpone_provider.quality.snapshot import QualityExecutionSnapshot

ROWS = GateSpec(id="rows", type="row_count_reconciliation", tolerance=Tolerance())
ENOUGH = GateSpec(id="enough", type="min_rows", side="target", threshold=1)
POLICY = QualityPolicy(gates=(ROWS, ENOUGH), acceptance=AcceptanceMetricPolicy(enabled=True, mode="required"))
BOUNDARIES = ["admission", "pre_commit", "post_commit", "resume_validation"]


def drifted(call: Callable[[], object]) -> DponeError:
    with pytest.raises(DponeError) as error:
        call()
    assert error.value.code == "DPONE_QUALITY_POLICY_DRIFT"
    return error.value


@pytest.mark.contract("Q6")
def test_a_snapshot_has_the_policy_and_its_digest() -> None:
    snapshot = QualityExecutionSnapshot.of(POLICY)
    assert (snapshot.policy, snapshot.policy_snapshot_id) == (POLICY, POLICY.snapshot_id)


@pytest.mark.contract("Q6")
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_an_equal_policy_read_anew_is_no_drift(boundary: Any) -> None:
    again = QualityPolicy(gates=(attrs.evolve(ROWS), attrs.evolve(ENOUGH)), acceptance=attrs.evolve(POLICY.acceptance))
    QualityExecutionSnapshot.of(POLICY).require_unchanged(again, boundary)


@pytest.mark.contract("Q6")
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "current",
    [
        QualityPolicy(),
        attrs.evolve(POLICY, gates=()),
        attrs.evolve(POLICY, gates=(ROWS,)),
        attrs.evolve(POLICY, gates=(ENOUGH, ROWS)),
        attrs.evolve(POLICY, gates=(attrs.evolve(ROWS, severity="warn"), ENOUGH)),
        attrs.evolve(POLICY, acceptance=None),
        attrs.evolve(POLICY, acceptance=AcceptanceMetricPolicy(enabled=True)),
        None,
        {},
    ],
    ids=[
        *("to nothing", "to no gates", "a gate less", "another order", "another severity"),
        *("to no acceptance", "another mode", "None", "a mapping"),
    ],
)
def test_drift_is_a_typed_failure_of_its_boundary(current: Any, boundary: Any) -> None:
    error = drifted(lambda: QualityExecutionSnapshot.of(POLICY).require_unchanged(current, boundary))
    assert error.boundary == boundary


@pytest.mark.contract("Q6")
def test_drift_from_nothing_to_gates_is_drift() -> None:
    drifted(lambda: QualityExecutionSnapshot.of(QualityPolicy()).require_unchanged(POLICY, "pre_commit"))


@pytest.mark.contract("Q6")
def test_no_cached_digest_hides_a_policy_that_was_changed_in_place() -> None:
    policy = attrs.evolve(POLICY)
    snapshot = QualityExecutionSnapshot.of(policy)
    assert policy.snapshot_id == snapshot.policy_snapshot_id
    object.__setattr__(policy, "gates", ())
    drifted(lambda: snapshot.require_unchanged(policy, "pre_commit"))
    drifted(lambda: snapshot.require_unchanged(POLICY, "pre_commit"))


@pytest.mark.contract("Q6")
def test_a_snapshot_is_immutable_and_of_a_policy() -> None:
    snapshot = QualityExecutionSnapshot.of(POLICY)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        snapshot.policy = QualityPolicy()  # type: ignore[misc]
    with pytest.raises(TypeError):
        QualityExecutionSnapshot(policy={"gates": []})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        QualityExecutionSnapshot(policy=POLICY, policy_snapshot_id="sha256:0")  # type: ignore[call-arg]


@pytest.mark.contract("Q6")
def test_a_drift_tells_nothing_of_the_policies() -> None:
    policy = QualityPolicy(gates=(GateSpec(id="hunter2", type="custom_sql", sql="hunter2"),))
    error = drifted(lambda: QualityExecutionSnapshot.of(policy).require_unchanged(POLICY, "pre_commit"))
    assert "hunter2" not in str(error) + repr(error.context)
