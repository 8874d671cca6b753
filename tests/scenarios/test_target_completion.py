"""Completion with a target obligation, on a real authority and a real live table (protocol 6).

The reader is scripted here: what it answers, and when, is the point. The supervised one has its own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest, Unobserved, Why
from dpone_provider.runtime.sink import ClickHouseSink
from dpone_provider.sandbox.process import RunningSandbox
from tests.crash.wire import CrashWire
from tests.loads import Bench, endpoint_of
from tests.sandbox_fixture import ask

WRITES = ("source_open", "insert", "exchange", "publish_first", "create_table")
Act = Callable[[TargetRequest], TargetCounts] | BaseException


@attrs.define
class ScriptedReader:
    """Does one act an observation. ``asked``: the requests that it got."""

    acts: list[Act]
    unready: DponeError | None = None
    asked: list[TargetRequest] = attrs.field(factory=list)

    def ready(self) -> None:
        if self.unready is not None:
            raise self.unready

    def reserve(self, request: TargetRequest) -> None:
        return None

    def collect(self, request: TargetRequest, *, deadline: float) -> TargetCounts:
        self.asked.append(request)
        act = self.acts.pop(0)
        if isinstance(act, BaseException):
            raise act
        return act(request)


def unobserved(why: Why, reason: str = "network", *, quiescent: bool = True) -> Unobserved:
    return Unobserved(why, reason, quiescent=quiescent)


@attrs.frozen(kw_only=True)
class Target:
    """A bench whose loads observe their target through a scripted reader."""

    bench: Bench

    def honest(self, request: TargetRequest) -> TargetCounts:
        """What the live table really holds."""
        table = f"{request.database}.{request.table}"
        ((rows, nulls, distinct),) = ask(
            self.bench.sandbox, f"SELECT count(), countIf(isNull(id)), uniqExact(id) FROM {table}"
        )
        return TargetCounts(
            replica=request.replicas[0],
            attempt_id=request.attempt_id,
            row_count=rows if request.row_count else None,
            null_counts={"id": nulls} if request.null_columns else {},
            distinct_counts={"id": distinct} if request.distinct_columns else {},
        )

    def run(self, reader: ScriptedReader, *, mode: str = "required", **options: Any) -> LoadOutcome:
        spec = options.pop("spec", None) or self.bench.spec(target=True, mode=mode)
        sink = ClickHouseSink(endpoint_of(self.bench.sandbox), True, target_acceptance_reader=reader)
        return self.bench.run(options.pop("run_id", "r1"), spec=spec, sink=sink, **options)

    def refused(self, reader: ScriptedReader, **options: Any) -> DponeError:
        with pytest.raises(DponeError) as caught:
            self.run(reader, **options)
        return caught.value

    @property
    def capsule(self) -> QualityReplayCapsule:
        record = self.bench.record()
        assert record.capsule is not None
        return QualityReplayCapsule.parse(record.capsule)

    @property
    def owned(self) -> bool:
        return self.bench.record().owner != ""


@pytest.fixture
def target(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Target:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    bench.write(200, 7)
    return Target(bench=bench)


@pytest.mark.contract("G1", "R10", "C1", "O3")
def test_pending_is_durable_and_guarded_before_the_scan_and_the_observation_is_sealed(target: Target) -> None:
    def look(request: TargetRequest) -> TargetCounts:
        assert target.bench.record().phase == "COMMITTED"
        assert target.capsule.state == "TARGET_PENDING"
        assert target.owned
        assert target.bench.live() == request.generation == target.bench.record().generation
        return target.honest(request)

    outcome = target.run(ScriptedReader([look]))
    assert (target.bench.record().phase, target.owned) == ("COMPLETE", False)
    observation = target.capsule.completion[-1].target
    assert (observation["row_count"], observation["null_counts"], observation["distinct_counts"]) == (
        7,
        {"id": 0},
        {"id": 7},
    )
    assert observation["capture_boundary"] == "committed_generation_before_governance_complete"
    assert "captured_before_cleanup" not in observation
    assert outcome.acceptance["target"] == observation
    assert target.capsule.kind == "dpone.quality.replay.v2"
    assert outcome.quality_replay is not None
    assert outcome.quality_replay["kind"] == "dpone.quality.replay.result.v2"


@pytest.mark.contract("R10")
def test_metrics_that_nobody_asked_for_are_null_or_empty(target: Target) -> None:
    quality = {"acceptance": {"enabled": True, "mode": "required", "checks": {"row_count": True}}}
    target.run(ScriptedReader([target.honest]), spec=target.bench.spec(**quality))
    only_rows = target.capsule.completion[-1].target
    assert (only_rows["row_count"], only_rows["null_counts"], only_rows["distinct_counts"]) == (7, {}, {})
    quality["acceptance"]["checks"] = {"row_count": False, "null_counts": ["id"]}
    target.run(ScriptedReader([target.honest]), spec=target.bench.spec(**quality), run_id="r2")
    only_nulls = target.capsule.completion[-1].target
    assert (only_nulls["row_count"], only_nulls["null_counts"], only_nulls["distinct_counts"]) == (None, {"id": 0}, {})


@pytest.mark.contract("G2", "A6")
@pytest.mark.parametrize("quiescent", [True, False])
def test_an_unavailable_observation_leaves_pending_and_frees_the_guard_only_when_nothing_can_act(
    target: Target, quiescent: bool
) -> None:
    error = target.refused(ScriptedReader([unobserved("unavailable", "deadline", quiescent=quiescent)]))
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
    assert (error.retryable, error.target_commit) == (True, "proven")
    assert (target.bench.record().phase, target.capsule.state) == ("COMMITTED", "TARGET_PENDING")
    assert target.owned is not quiescent
    blocked = target.refused(ScriptedReader([target.honest]), run_id="next")
    assert blocked.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"


@pytest.mark.contract("G3", "P7", "M7")
def test_a_later_attempt_observes_again_without_source_and_a_complete_proof_is_never_observed_again(
    target: Target,
) -> None:
    target.refused(ScriptedReader([unobserved("unavailable")]))
    (target.bench.folder / "source.csv").unlink()
    reader, wire = ScriptedReader([target.honest]), CrashWire()
    outcome = target.run(reader, wire=wire)
    assert (len(reader.asked), outcome.replayed) == (1, True)
    assert not {kind: wire.counts[kind] for kind in WRITES if wire.counts[kind]}
    again = ScriptedReader([])
    replay = target.run(again)
    assert again.asked == []
    assert replay.quality_replay == outcome.quality_replay


@pytest.mark.contract("G4")
@pytest.mark.parametrize(("why", "ends"), [("invalid", "INVALID"), ("drift", "MISMATCH")])
@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_bad_evidence_fails_for_good_and_is_never_observed_as_passing(
    target: Target, why: Why, ends: str, mode: str
) -> None:
    error = target.refused(ScriptedReader([unobserved(why, "schema")]), mode=mode)
    assert (error.code, error.retryable) == (f"DPONE_REPLAY_QUALITY_EVIDENCE_{ends}", False)
    assert (target.bench.record().phase, target.capsule.state, target.owned) == ("FAILED", "FAILED", False)
    later = ScriptedReader([target.honest])
    assert target.refused(later, mode=mode).code == "DPONE_REPLAY_QUALITY_EVIDENCE_FAILED"
    assert later.asked == []


@pytest.mark.contract("G2", "G4")
@pytest.mark.parametrize("why", ["invalid", "drift"])
def test_bad_evidence_of_a_child_that_may_still_run_decides_nothing(target: Target, why: Why) -> None:
    error = target.refused(ScriptedReader([unobserved(why, quiescent=False)]))
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
    assert (target.bench.record().phase, target.owned) == ("COMMITTED", True)
    target.run(ScriptedReader([target.honest]))


@pytest.mark.contract("G4")
@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({"row_count": 6}, "MISMATCH"),
        ({"null_counts": {"id": 1}}, "MISMATCH"),
        ({"distinct_counts": {"id": 6}}, "MISMATCH"),
        ({"replica": "other"}, "MISMATCH"),
        ({"row_count": None}, "INVALID"),
        ({"row_count": True}, "INVALID"),
        ({"row_count": -1}, "INVALID"),
        ({"row_count": 2**64}, "INVALID"),
        ({"null_counts": {}}, "INVALID"),
        ({"null_counts": {"id": 0, "name": 0}}, "INVALID"),
        ({"distinct_counts": {"name": 7}}, "INVALID"),
        ({"attempt_id": "f"}, "INVALID"),
    ],
)
def test_counts_that_are_not_the_sealed_ones_fail(target: Target, changes: dict[str, Any], ends: str) -> None:
    error = target.refused(ScriptedReader([lambda request: attrs.evolve(target.honest(request), **changes)]))
    assert (error.code, error.retryable) == (f"DPONE_REPLAY_QUALITY_EVIDENCE_{ends}", False)
    assert target.bench.record().phase == "FAILED"


@pytest.mark.contract("R11")
def test_only_warn_only_turns_a_missing_probe_into_its_exact_record(target: Target) -> None:
    target.run(ScriptedReader([unobserved("probe_unavailable", "probe_unsupported")]), mode="warn_only")
    observation = target.capsule.completion[-1].target
    assert observation["warnings"] == ["target_acceptance_metric_probe_unavailable"]
    assert (observation["row_count"], observation["null_counts"], observation["distinct_counts"]) == (None, {}, {})
    assert observation["columns"] == ["id", "name"]
    error = target.refused(ScriptedReader([unobserved("probe_unavailable")]), run_id="r2")
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"


@pytest.mark.contract("R11", "G2")
def test_warn_only_absorbs_no_deadline(target: Target) -> None:
    error = target.refused(ScriptedReader([unobserved("unavailable", "deadline")]), mode="warn_only")
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
    assert target.capsule.state == "TARGET_PENDING"


class TaskTimeout(BaseException):
    """What Airflow's execution_timeout raises: no Exception."""


@pytest.mark.contract("G7", "F4")
@pytest.mark.parametrize("ends", [KeyboardInterrupt(), TaskTimeout(), DponeError("DPONE_CANCELLED")])
def test_a_cancelled_observation_passes_through_and_nothing_is_written_after_it(
    target: Target, ends: BaseException
) -> None:
    wire = CrashWire()
    sent: list[int] = []

    def cancelled(request: TargetRequest) -> TargetCounts:
        sent.append(len(wire.effects))
        raise ends

    with pytest.raises(type(ends)):
        target.run(ScriptedReader([cancelled]), wire=wire)
    assert wire.effects[sent[0] :] == []
    assert (target.capsule.state, target.owned) == ("TARGET_PENDING", True)
    assert target.run(ScriptedReader([target.honest])).replayed


@pytest.mark.contract("G4", "P6")
def test_a_table_that_is_exchanged_during_the_observation_fails_the_operation(target: Target) -> None:
    def replaced(request: TargetRequest) -> TargetCounts:
        counts = target.honest(request)
        place = f"{target.bench.database}"
        ask(target.bench.sandbox, f"CREATE TABLE {place}.theirs ENGINE = MergeTree ORDER BY id AS {place}.t")
        ask(target.bench.sandbox, f"EXCHANGE TABLES {place}.t AND {place}.theirs")
        return counts

    error = target.refused(ScriptedReader([replaced]))
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"
    assert error.target_commit == "unknown"
    assert target.bench.record().phase == "FAILED"


@pytest.mark.contract("R1", "R2", "M7", "F5")
def test_a_place_without_readers_is_refused_before_authority_and_source(target: Target) -> None:
    wire = CrashWire()
    unready = DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED", target_commit="not_started")
    error = target.refused(ScriptedReader([], unready=unready), wire=wire)
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED"
    assert target.bench.slot()[0] is None
    written = ("authority_create", "authority_cas", *WRITES)
    assert not {kind: wire.counts[kind] for kind in written if wire.counts[kind]}


@pytest.mark.contract("R1")
def test_a_load_that_asks_nothing_of_the_target_starts_no_child(target: Target) -> None:
    reader, wire = ScriptedReader([]), CrashWire()
    outcome = target.run(reader, spec=target.bench.spec(), wire=wire)
    assert (reader.asked, wire.counts["observe"], wire.counts["reader_probe"]) == ([], 0, 0)
    assert target.capsule.kind == "dpone.quality.replay.v1"
    assert "target" not in outcome.acceptance


@pytest.mark.contract("R1", "M1")
def test_a_reader_comes_by_keyword_and_with_the_selector_only() -> None:
    endpoint, reader = Endpoint(host="h"), ScriptedReader([])
    with pytest.raises(TypeError):
        ClickHouseSink(endpoint, True, reader)  # type: ignore[misc]
    with pytest.raises(DponeError, match="durable_quality_replay"):
        ClickHouseSink(endpoint, target_acceptance_reader=reader)
    for word in ("true", 1, None):
        with pytest.raises(TypeError):
            ClickHouseSink(endpoint, word)  # type: ignore[arg-type]


@pytest.mark.contract("C5", "C6")
@pytest.mark.parametrize("mode", ["required", "warn_only"])
def test_an_unknown_column_is_refused_before_anything_is_staged(target: Target, mode: str) -> None:
    quality = {
        "acceptance": {
            "enabled": True,
            "mode": mode,
            "capture": {"source": False, "staged": False, "target": True},
            "checks": {"null_counts": ["id", "nowhere"]},
        }
    }
    wire = CrashWire()
    error = target.refused(ScriptedReader([]), spec=target.bench.spec(**quality), wire=wire)
    assert error.code in ("DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED", "DPONE_ACCEPTANCE_UNAVAILABLE")
    assert wire.counts["create_table"] == 0
    assert target.bench.record().phase == "REJECTED"


@pytest.mark.contract("C5")
def test_the_plan_that_is_observed_is_the_sealed_one(target: Target) -> None:
    target.refused(ScriptedReader([unobserved("unavailable")]))
    reader = ScriptedReader([target.honest])
    changed = {"acceptance": {"enabled": True, "mode": "required", "checks": {"row_count": True}}}
    error = target.refused(reader, spec=target.bench.spec(**changed))
    assert error.code == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"
    assert reader.asked == []
    target.run(reader)
    (request,) = reader.asked
    assert (request.null_columns, request.distinct_columns) == (("id",), ("id",))
    assert request.columns == (("id", "UInt64"), ("name", "String"))
