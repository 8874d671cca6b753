"""Requests per side and snapshots rebuilt from untrusted answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.quality.acceptance import (
    WARNINGS,
    AcceptanceMetricsRecorder,
    MetricRequest,
    plan_requests,
    query_dataset,
    rebuild_snapshot,
    run_document,
    unavailable_snapshot,
)
from dpone_provider.quality.metric_request import UNAVAILABLE
from dpone_provider.quality.policy import AcceptanceMetricPolicy

UINT64 = 2**64 - 1
SCHEMAS = {"source": ("record_id", "payload"), "staged": ("record_id", "payload", "__dpone__load_id")}
DATASETS = {"source": query_dataset("SELECT secret"), "staged": "mart.__stage"}


def policy(mode: str = "required", **changes: Any) -> AcceptanceMetricPolicy:
    values: dict[str, Any] = {"null_counts": ("record_id",), "distinct_counts": ("record_id",), "target": False}
    return AcceptanceMetricPolicy(enabled=True, mode=mode, **{**values, **changes})


def plan(accepted: AcceptanceMetricPolicy | None, **schemas: tuple[str, ...]) -> tuple[MetricRequest, ...]:
    return plan_requests(accepted, schemas or SCHEMAS, DATASETS)


def request(mode: str = "required", side: str = "source", **changes: Any) -> MetricRequest:
    return next(asked for asked in plan(policy(mode, **changes)) if asked.side == side)


def answer(**changes: Any) -> dict[str, Any]:
    return {"row_count": 3, "null_counts": {"record_id": 0}, "distinct_counts": {"record_id": 3}, **changes}


def refused(error_code: str, call: Callable[[], object]) -> DponeError:
    with pytest.raises(DponeError) as error:
        call()
    assert error.value.code == "DPONE_ACCEPTANCE_UNAVAILABLE"
    assert error.value.context["error_code"] == error_code
    assert error_code in str(error.value)
    return error.value


@pytest.mark.contract("X10", "X8")
def test_a_snapshot_has_exactly_the_sealed_shape() -> None:
    assert rebuild_snapshot(request(), answer()) == {
        "captured_before_cleanup": True,
        "columns": ["record_id", "payload"],
        "dataset": DATASETS["source"],
        "distinct_counts": {"record_id": 3},
        "kind": "dpone.acceptance.metric_snapshot.v1",
        "null_counts": {"record_id": 0},
        "row_count": 3,
        "side": "source",
        "warnings": [],
    }


@pytest.mark.contract("X8")
def test_a_source_query_is_named_by_its_hash() -> None:
    assert query_dataset("SELECT 1") == "source_query:e004ebd5b5532a4b85984a62f8ad48a81aa3460c1ca07701f386135d72cdecf5"


@pytest.mark.contract("X2")
def test_each_side_is_asked_about_its_own_schema() -> None:
    source, staged = plan(policy(null_counts="all_columns", distinct_counts="business_columns"))
    assert (source.null_columns, source.distinct_columns) == (("record_id", "payload"), ("record_id", "payload"))
    assert staged.null_columns == ("record_id", "payload", "__dpone__load_id")
    assert staged.columns == SCHEMAS["staged"]


@pytest.mark.contract("X8")
def test_technical_columns_are_no_business_columns() -> None:
    staged = request(side="staged", null_counts="business_columns")
    assert staged.null_columns == ("record_id", "payload")


@pytest.mark.contract("X2")
@pytest.mark.parametrize("check", ["null_counts", "distinct_counts"])
@pytest.mark.parametrize("side", ["source", "staged"])
def test_an_unknown_column_fails_required_mode_naming_side_and_column(check: str, side: str) -> None:
    schemas = {"source": ("record_id", "gone"), "staged": ("record_id", "gone")}
    schemas[side] = ("record_id",)
    asked = policy(**{check: ("record_id", "gone")})
    error = refused(f"{side}_acceptance_metric_columns_unknown", lambda: plan(asked, **schemas))
    assert error.context["acceptance_side"] == side
    assert side in error.message
    assert "gone" in error.message


@pytest.mark.contract("X2")
def test_an_unknown_column_is_dropped_on_its_side_only_with_a_warning() -> None:
    asked = policy("warn_only", null_counts=("record_id", "extra"))
    source, staged = plan(asked, source=("record_id",), staged=("record_id", "extra"))
    assert (source.null_columns, source.unknown_columns) == (("record_id",), ("extra",))
    assert (staged.null_columns, staged.unknown_columns) == (("record_id", "extra"), ())
    snapshot = rebuild_snapshot(source, answer())
    assert snapshot["warnings"] == ["acceptance_metric_columns_unknown"]
    assert snapshot["null_counts"] == {"record_id": 0}
    assert rebuild_snapshot(staged, answer(null_counts={"record_id": 0, "extra": 1}))["warnings"] == []


@pytest.mark.contract("X2")
def test_a_side_whose_every_column_is_unknown_still_gets_its_snapshot() -> None:
    asked = policy("warn_only", row_count=False, null_counts=("gone",), distinct_counts="none", staged=False)
    (source,) = plan(asked)
    snapshot = rebuild_snapshot(source, {})
    assert (snapshot["row_count"], snapshot["null_counts"], snapshot["distinct_counts"]) == (None, {}, {})
    assert snapshot["warnings"] == ["acceptance_metric_columns_unknown"]


@pytest.mark.contract("X1")
@pytest.mark.parametrize("accepted", [None, AcceptanceMetricPolicy()], ids=["none", "disabled"])
def test_without_an_enabled_policy_nothing_is_asked(accepted: AcceptanceMetricPolicy | None) -> None:
    assert plan(accepted) == ()
    assert AcceptanceMetricsRecorder(()).snapshots() == {}


@pytest.mark.contract("X5")
@pytest.mark.parametrize(
    ("side", "code"),
    [
        ("source", "source_acceptance_metric_probe_unavailable"),
        ("staged", "staged_acceptance_metric_unavailable"),
        ("target", "target_acceptance_metric_probe_unavailable"),
    ],
)
def test_a_required_side_that_the_path_lacks_is_refused_when_planning(side: str, code: str) -> None:
    schemas = {name: ("record_id",) for name in ("source", "staged", "target") if name != side}
    error = refused(code, lambda: plan(policy(target=True), **schemas))
    assert error.context["acceptance_side"] == side


@pytest.mark.contract("X5")
@pytest.mark.parametrize(
    ("side", "code"),
    [
        ("source", "source_acceptance_metric_probe_unavailable"),
        ("staged", "staged_acceptance_metric_unavailable"),
        ("target", "target_acceptance_metric_probe_unavailable"),
    ],
)
def test_a_side_that_the_path_lacks_gives_one_warning_snapshot(side: str, code: str) -> None:
    schemas = {name: ("record_id",) for name in ("source", "staged", "target") if name != side}
    recorder = AcceptanceMetricsRecorder(plan(policy("warn_only", target=True), **schemas))
    for open_request in recorder.open_requests:
        recorder.record(open_request.side, answer())
    snapshots = recorder.snapshots()
    assert sorted(snapshots) == ["source", "staged", "target"]
    assert {name: snapshot["warnings"] for name, snapshot in snapshots.items() if snapshot["warnings"]} == {
        side: [code]
    }
    assert snapshots[side]["row_count"] is None


@pytest.mark.contract("X5", "X8")
@pytest.mark.parametrize("row_count", [True, False])
def test_a_side_that_the_path_lacks_is_asked_for_nothing_but_keeps_its_name(row_count: bool) -> None:
    asked = plan_requests(policy("warn_only", row_count=row_count), {"staged": ("record_id",)}, DATASETS)[0]
    assert asked == MetricRequest(
        side="source", dataset=DATASETS["source"], columns=(), row_count=row_count, required=False, available=False
    )
    assert asked.available is False
    snapshot = rebuild_snapshot(asked, answer())
    assert (snapshot["warnings"], snapshot["dataset"]) == ([UNAVAILABLE["source"]], DATASETS["source"])
    assert (snapshot["row_count"], snapshot["columns"]) == (None, [])


@pytest.mark.contract("X5")
def test_a_side_without_a_dataset_has_no_name() -> None:
    assert [asked.dataset for asked in plan_requests(policy(), SCHEMAS, {})] == ["", ""]


@pytest.mark.contract("X5")
def test_a_failed_probe_is_refused_when_required_and_one_warning_otherwise() -> None:
    code = "source_acceptance_metric_probe_unavailable"
    refused(code, lambda: unavailable_snapshot(request()))
    refused(code, lambda: AcceptanceMetricsRecorder([request()]).unavailable("source"))
    snapshot = AcceptanceMetricsRecorder([request("warn_only")]).unavailable("source")
    assert (snapshot["warnings"], snapshot["row_count"], snapshot["null_counts"]) == ([code], None, {})


class Hostile(dict):  # type: ignore[type-arg]
    """An answer that runs code of its own when it is read."""

    def get(self, key: object, default: object = None) -> Any:
        raise RuntimeError("hostile code ran")


def _nested() -> Any:
    value: Any = "password=hunter2 " * 6000
    for _ in range(200):
        value = {"hunter2": [value]}
    return value


BAD_ANSWERS = [
    pytest.param(None, id="nothing"),
    pytest.param([], id="list"),
    pytest.param({}, id="empty"),
    pytest.param(Hostile(answer()), id="mapping with code of its own"),
    pytest.param(answer(row_count=None), id="row count missing"),
    pytest.param(answer(row_count=-1), id="row count negative"),
    pytest.param(answer(row_count=True), id="row count boolean"),
    pytest.param(answer(row_count="3"), id="row count text"),
    pytest.param(answer(row_count=3.0), id="row count float"),
    pytest.param(answer(row_count=UINT64 + 1), id="row count over UInt64"),
    pytest.param(answer(null_counts={}), id="null count missing"),
    pytest.param(answer(null_counts=None), id="null counts None"),
    pytest.param(answer(null_counts={"payload": 0}), id="null count of another column"),
    pytest.param(answer(null_counts={"record_id": 0, "payload": 0}), id="extra null count"),
    pytest.param(answer(null_counts={"record_id": -1}), id="null count negative"),
    pytest.param(answer(null_counts={"record_id": False}), id="null count boolean"),
    pytest.param(answer(null_counts={"record_id": 4}), id="more nulls than rows"),
    pytest.param(answer(distinct_counts={}), id="distinct count missing"),
    pytest.param(answer(distinct_counts={"record_id": None}), id="distinct count None"),
    pytest.param(answer(distinct_counts={"record_id": 4}), id="more values than rows"),
    pytest.param(answer(distinct_counts={"record_id": UINT64 + 1}), id="distinct count over UInt64"),
    pytest.param(answer(distinct_counts=Hostile({"record_id": 1})), id="counts with code of their own"),
    pytest.param(answer(sum={"record_id": 1}), id="extra metric"),
    pytest.param(answer(dataset="mart.other"), id="identity of its own"),
    pytest.param(answer(warnings=["x"]), id="warning"),
    pytest.param(answer(warnings="x"), id="warning text"),
    pytest.param(answer(null_counts={"record_id": _nested()}), id="100 KiB of nested secrets for a count"),
    pytest.param(answer(password=_nested()), id="100 KiB of nested secrets beside the counts"),
    pytest.param(answer(warnings=["password=hunter2 " * 6000]), id="100 KiB of secrets"),
]


@pytest.mark.contract("X6")
@pytest.mark.parametrize("given", BAD_ANSWERS)
def test_a_bad_answer_is_refused_when_required(given: object) -> None:
    error = refused("source_acceptance_metric_snapshot_invalid", lambda: rebuild_snapshot(request(), given))
    assert "hunter2" not in str(error) + json.dumps(error.context)


@pytest.mark.contract("X6")
@pytest.mark.parametrize("given", BAD_ANSWERS)
def test_a_bad_answer_is_exactly_one_warning_when_only_warned(given: object) -> None:
    snapshot = rebuild_snapshot(request("warn_only"), given)
    assert snapshot["warnings"] == ["acceptance_metric_snapshot_invalid"]
    assert (snapshot["row_count"], snapshot["null_counts"], snapshot["distinct_counts"]) == (None, {}, {})
    assert len(json.dumps(snapshot)) < 1000


@pytest.mark.contract("X6")
def test_an_unasked_row_count_is_extra() -> None:
    asked = request(row_count=False)
    code = "source_acceptance_metric_snapshot_invalid"
    refused(code, lambda: rebuild_snapshot(asked, answer()))
    assert rebuild_snapshot(asked, answer(row_count=None))["row_count"] is None


@pytest.mark.contract("X6", "X8")
def test_an_empty_side_has_real_zeros_and_the_largest_count_is_kept() -> None:
    zeros = answer(row_count=0, distinct_counts={"record_id": 0})
    assert rebuild_snapshot(request(), zeros)["row_count"] == 0
    most = answer(row_count=UINT64, distinct_counts={"record_id": UINT64})
    assert rebuild_snapshot(request(), most)["distinct_counts"] == {"record_id": UINT64}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("record_id"), inner),
    max_leaves=8,
)


@pytest.mark.contract("X6")
@given(
    st.dictionaries(st.sampled_from(["row_count", "null_counts", "distinct_counts", "warnings", "kind"]), ANYTHING)
    | ANYTHING
)
def test_no_answer_changes_identity_or_shape(given_answer: object) -> None:
    asked = request("warn_only")
    snapshot = rebuild_snapshot(asked, given_answer)
    model = rebuild_snapshot(asked, answer())
    assert list(snapshot) == list(model)
    assert [snapshot[key] for key in ("kind", "side", "dataset", "columns")] == [
        model[key] for key in ("kind", "side", "dataset", "columns")
    ]
    assert set(snapshot["warnings"]) <= set(WARNINGS)
    assert set(snapshot["null_counts"]) <= {"record_id"}


@pytest.mark.contract("X5", "X10")
def test_a_recorder_gives_one_snapshot_a_requested_side_and_the_run_document() -> None:
    recorder = AcceptanceMetricsRecorder(plan(policy()))
    assert [open_request.side for open_request in recorder.open_requests] == ["source", "staged"]
    recorder.record("source", answer())
    recorder.record("staged", answer())
    document = recorder.document()
    assert document["kind"] == "dpone.acceptance.run_metrics.v1"
    assert list(document["snapshots"]) == ["source", "staged"]
    assert document["snapshots"] == recorder.snapshots()


@pytest.mark.contract("X10")
def test_the_run_document_has_the_snapshots_that_there_are() -> None:
    source = rebuild_snapshot(request(), answer())
    assert run_document({"source": source, "target": None}) == {
        "kind": "dpone.acceptance.run_metrics.v1",
        "snapshots": {"source": source},
    }
    assert run_document({})["snapshots"] == {}


@pytest.mark.contract("X5")
def test_a_missing_snapshot_is_noticed() -> None:
    recorder = AcceptanceMetricsRecorder(plan(policy("warn_only")))
    recorder.record("source", answer())
    refused("staged_acceptance_metric_unavailable", recorder.snapshots)


@pytest.mark.contract("X5")
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_second_or_unasked_snapshot_is_refused(side: str) -> None:
    recorder = AcceptanceMetricsRecorder(plan(policy()))
    recorder.record("source", answer())
    refused(f"{side}_acceptance_metric_snapshot_unexpected", lambda: recorder.record(side, answer()))


class Probe:
    """A probe that answers once, or raises."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.asked: list[MetricRequest] = []

    def collect(self, asked: MetricRequest) -> Any:
        self.asked.append(asked)
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


@pytest.mark.contract("X5")
def test_a_probe_is_asked_once_with_its_own_request() -> None:
    recorder, probe = AcceptanceMetricsRecorder(plan(policy())), Probe(answer())
    snapshot = recorder.collect("staged", probe)
    assert probe.asked == [request(side="staged")]
    assert snapshot == rebuild_snapshot(request(side="staged"), answer())
    refused("staged_acceptance_metric_snapshot_unexpected", lambda: recorder.collect("staged", probe))
    assert len(probe.asked) == 1


@pytest.mark.contract("X5")
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_required_side_without_a_probe_is_refused(side: str) -> None:
    recorder = AcceptanceMetricsRecorder(
        plan(policy(target=True, staged=False), source=("record_id",), target=("record_id",))
    )
    error = refused(f"{side}_acceptance_metric_probe_unavailable", lambda: recorder.collect(side, None))
    assert error.context["acceptance_side"] == side


@pytest.mark.contract("X5")
def test_a_side_without_a_probe_is_one_warning_when_only_warned() -> None:
    recorder = AcceptanceMetricsRecorder([request("warn_only")])
    assert recorder.collect("source", None)["warnings"] == ["source_acceptance_metric_probe_unavailable"]
    assert recorder.open_requests == ()


@pytest.mark.contract("X6")
@pytest.mark.parametrize("mode", ["required", "warn_only"])
@pytest.mark.parametrize("side", ["source", "staged"])
@pytest.mark.parametrize(
    "raised", [RuntimeError("password=hunter2"), KeyboardInterrupt(), DponeError("DPONE_SERVER_REFUSED")]
)
def test_the_exception_of_a_probe_passes_as_it_was_and_records_nothing(
    mode: str, side: str, raised: BaseException
) -> None:
    recorder = AcceptanceMetricsRecorder([request(mode, side)])
    with pytest.raises(type(raised)) as error:
        recorder.collect(side, Probe(raised))
    assert error.value is raised
    assert [asked.side for asked in recorder.open_requests] == [side]
    refused(UNAVAILABLE[side], recorder.snapshots)


@pytest.mark.contract("X6")
@pytest.mark.parametrize("given", BAD_ANSWERS)
def test_a_probe_with_a_bad_answer_leaves_the_side_open_when_required(given: object) -> None:
    recorder = AcceptanceMetricsRecorder([request()])
    refused("source_acceptance_metric_snapshot_invalid", lambda: recorder.collect("source", Probe(given)))
    assert len(recorder.open_requests) == 1


@pytest.mark.contract("X6")
@pytest.mark.parametrize("given", BAD_ANSWERS)
def test_a_probe_with_a_bad_answer_is_one_warning_when_only_warned(given: object) -> None:
    recorder = AcceptanceMetricsRecorder([request("warn_only")])
    assert recorder.collect("source", Probe(given))["warnings"] == ["acceptance_metric_snapshot_invalid"]
    assert len(recorder.snapshots()) == 1


@pytest.mark.contract("X6")
def test_a_recorded_snapshot_cannot_be_changed_from_outside() -> None:
    recorder = AcceptanceMetricsRecorder([request()])
    recorder.record("source", answer())["row_count"] = 99
    recorder.snapshots()["source"]["warnings"].append("x")
    assert recorder.snapshots()["source"]["row_count"] == 3
    assert recorder.snapshots()["source"]["warnings"] == []
