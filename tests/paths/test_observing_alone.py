"""What a load says of a live table that it counted, or could not count, after its commit (X4, X5, X6)."""

from __future__ import annotations

import attrs
import pytest

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.observing import answer_of, record_live
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.wire import StatementFailed

ASKED = MetricRequest(side="target", dataset="d.t", columns=("id", "name"), row_count=True, null_columns=("name",))
WARNED = attrs.evolve(ASKED, required=False)
COUNTED = StagedMetrics(row_count=8, null_counts=(("name", 2),), distinct_counts=(("id", 3),))


def fails(code: int | None) -> StagedMetrics:
    raise StatementFailed(code)


@pytest.mark.contract("X4")
def test_what_was_counted_is_the_snapshot() -> None:
    asked: list[MetricRequest] = []

    def observe(request: MetricRequest) -> StagedMetrics:
        asked.append(request)
        return attrs.evolve(COUNTED, distinct_counts=())

    shot = record_live(ASKED, observe)
    assert (shot["row_count"], shot["null_counts"], shot["warnings"], asked) == (8, {"name": 2}, [], [ASKED])


@pytest.mark.contract("X6")
def test_only_what_was_asked_for_is_answered() -> None:
    answer = {"row_count": 8, "null_counts": {"name": 2}, "distinct_counts": {"id": 3}}
    assert answer_of(ASKED, COUNTED) == answer
    assert answer_of(attrs.evolve(ASKED, row_count=False), COUNTED) == {**answer, "row_count": None}


@pytest.mark.contract("X5", "X7")
@pytest.mark.parametrize(("code", "why"), [(241, "server error 241"), (None, "no answer")])
def test_a_required_count_that_fails_is_a_failure_after_the_commit(code: int | None, why: str) -> None:
    with pytest.raises(DponeError) as raised:
        record_live(ASKED, lambda request: fails(code))
    error, missing = raised.value, "target_acceptance_metric_probe_unavailable"
    message = f"Acceptance of target: The live table was not counted ({why}). ({missing})"
    assert (error.code, error.message) == ("DPONE_ACCEPTANCE_UNAVAILABLE", message)
    assert error.boundary == "post_commit"
    assert error.context == {"acceptance_side": "target", "error_code": missing}
    assert isinstance(error.__cause__, StatementFailed)


@pytest.mark.contract("X5")
@pytest.mark.parametrize("code", [241, None])
def test_a_count_that_fails_is_one_warning_where_it_is_only_warned_about(code: int | None) -> None:
    shot = record_live(WARNED, lambda request: fails(code))
    assert (shot["row_count"], shot["dataset"]) == (None, "d.t")
    assert shot["warnings"] == ["target_acceptance_metric_probe_unavailable"]


@pytest.mark.contract("X6", "X7")
def test_an_answer_that_cannot_be_trusted_is_a_failure_after_the_commit() -> None:
    with pytest.raises(DponeError) as raised:
        record_live(ASKED, lambda request: attrs.evolve(COUNTED, row_count=1))
    assert raised.value.context["error_code"] == "target_acceptance_metric_snapshot_invalid"
    assert raised.value.boundary == "post_commit"


@pytest.mark.contract("X5")
def test_a_side_that_has_nothing_to_observe_is_not_asked() -> None:
    shot = record_live(attrs.evolve(WARNED, available=False), lambda request: fails(None))
    assert shot["warnings"] == ["target_acceptance_metric_probe_unavailable"]
    with pytest.raises(DponeError) as raised:
        record_live(attrs.evolve(ASKED, available=False), lambda request: fails(None))
    assert "It cannot be observed on this route." in raised.value.message
    assert raised.value.boundary == "post_commit"
