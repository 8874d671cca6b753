"""Typed hashes on real loads: made of what was sent and of what is stored, sealed, and judged again (Q1, Q8, G8)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.manifest.spec import FileSource, LoadSpec
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Effect, StatementFailed
from tests.crash.wire import Died
from tests.loads import Bench
from tests.sandbox_fixture import ask

T = TypeVar("T")
BOTH = pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])
MODES = pytest.mark.parametrize("mode", ["full", "sample"])
HASHING = "hash the generation"


class Wire(DirectWire):
    """Counts what was asked of the server, and does ``before`` in front of one effect."""

    def __init__(self, what: str = HASHING, before: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._what = what
        self._before = before

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        self.asked.append(effect.what)
        if effect.what == self._what:
            self._before()
        return super().send(effect, call)


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1, rows=200)
    return made


def spec_of(bench: Bench, *, durable: bool, **gate: Any) -> LoadSpec:
    gates = [{"id": "rows", "type": "row_count_reconciliation"}, {"id": "hash", "type": "typed_hash_reconciliation"}]
    gates[1].update(gate)
    return bench.spec(durable=durable, gates=gates)


def verdict(outcome: LoadOutcome) -> dict[str, Any]:
    found: dict[str, Any] = outcome.gates["results"][1]
    return found


def change(bench: Bench, update: str) -> Callable[[], None]:
    """Somebody changes the private generation without changing its number of rows."""

    def changed() -> None:
        (name,) = bench.private()
        ask(bench.sandbox, f"ALTER TABLE {bench.database}.{name} UPDATE {update} SETTINGS mutations_sync = 2")

    return changed


@BOTH
@MODES
@pytest.mark.contract("Q1")
def test_what_was_sent_is_what_is_stored(bench: Bench, durable: bool, mode: str) -> None:
    outcome = bench.run(spec=spec_of(bench, durable=durable, mode=mode))
    found = verdict(outcome)
    assert (found["status"], found["code"]) == ("passed", "typed_hashes_equal")
    assert found["metrics"]["source_hash"] == found["metrics"]["target_hash"]
    assert found["metrics"]["source_hash"].startswith("sha256:")


@pytest.mark.contract("Q1")
def test_every_type_of_a_file_has_one_hash_on_both_sides(bench: Bench) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 1, 250_000)
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int16()),
            "small": pa.array([-1, None, 7], pa.int8()),
            "real": pa.array([0.5, -0.0, None], pa.float32()),
            "sum": pa.array([Decimal("1.20"), None, Decimal("-3.00")], pa.decimal128(10, 2)),
            "day": pa.array([date(2024, 1, 1), None, date(1970, 1, 1)], pa.date32()),
            "at": pa.array([moment, moment, None], pa.timestamp("us", "UTC")),
            "text": pa.array(["", None, "ü\x00"], pa.string()),
            "tags": pa.array([["a", None], [], ["b"]], pa.list_(pa.string())),
            "yes": pa.array([True, False, None], pa.bool_()),
        }
    )
    pq.write_table(table, bench.folder / "source.parquet")
    spec = spec_of(bench, durable=False)
    source = FileSource(format="parquet", path="source.parquet", base=str(bench.folder))
    spec = attrs.evolve(spec, source=source, sink=attrs.evolve(spec.sink, columns=(("id", "Int64"),)))
    assert verdict(bench.run(spec=spec))["code"] == "typed_hashes_equal"


@BOTH
@pytest.mark.contract("Q1", "Q5")
def test_one_changed_value_ends_the_load(bench: Bench, durable: bool) -> None:
    bench.run("earlier", spec=bench.spec(durable=durable))
    live = bench.live()
    wire = Wire(before=change(bench, "name = concat(name, ' ') WHERE id = 7"))
    with pytest.raises(DponeError) as raised:
        bench.run("later", spec=spec_of(bench, durable=durable), wire=wire)
    error = raised.value
    assert (error.code, error.boundary, error.target_commit) == (
        "DPONE_QUALITY_GATES_FAILED",
        "pre_commit",
        "not_started",
    )
    assert error.context["quality_gates"]["results"][1]["code"] == "typed_hashes_differ"
    assert (bench.live(), bench.private()) == (live, [])


@pytest.mark.contract("Q1")
def test_a_sample_sees_a_change_of_all_rows(bench: Bench) -> None:
    wire = Wire(before=change(bench, "name = 'x' WHERE 1"))
    with pytest.raises(DponeError) as raised:
        bench.run(spec=spec_of(bench, durable=False, mode="sample"), wire=wire)
    assert raised.value.code == "DPONE_QUALITY_GATES_FAILED"


@pytest.mark.contract("Q1")
def test_a_sample_by_a_key_that_is_an_expression_is_of_whole_rows(bench: Bench) -> None:
    spec = spec_of(bench, durable=False, mode="sample")
    design = attrs.evolve(spec.sink.design, order_by=("intDiv(id, 2)",))
    spec = attrs.evolve(spec, sink=attrs.evolve(spec.sink, design=design))
    assert verdict(bench.run(spec=spec))["code"] == "typed_hashes_equal"


@BOTH
@pytest.mark.contract("Q1")
def test_without_a_gate_for_it_nothing_is_hashed(bench: Bench, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("dpone_provider.sources.typed_hash.MultisetHasher.add")
    wire = Wire()
    bench.run(spec=bench.spec(durable=durable), wire=wire)
    assert HASHING not in wire.asked


def with_document(bench: Bench, *, durable: bool, **gate: Any) -> LoadSpec:
    """A load with a column whose type has no hash."""
    (bench.folder / "source.csv").write_text('id,name\n1,"{""a"": 1}"\n', encoding="utf-8")
    spec = spec_of(bench, durable=durable, **gate)
    return attrs.evolve(spec, sink=attrs.evolve(spec.sink, columns=(("id", "UInt64"), ("name", "JSON"))))


@BOTH
@pytest.mark.contract("Q1", "Q5")
def test_a_column_that_cannot_be_hashed_is_named_before_anything_is_staged(bench: Bench, durable: bool) -> None:
    wire = Wire()
    with pytest.raises(DponeError) as raised:
        bench.run(spec=with_document(bench, durable=durable), wire=wire)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_ACCEPTANCE_UNAVAILABLE", "pre_commit")
    assert "name" in raised.value.message
    assert (wire.counts["create_table"], wire.counts["insert"], wire.counts["source_read"]) == (0, 0, 0)
    assert (bench.live(), bench.private()) == (None, [])


@BOTH
@pytest.mark.contract("Q1")
def test_a_column_that_cannot_be_hashed_is_a_warning_where_the_gate_warns(bench: Bench, durable: bool) -> None:
    found = verdict(bench.run(spec=with_document(bench, durable=durable, severity="warn")))
    assert (found["status"], found["code"]) == ("warned", "source_typed_hash_unavailable")


def refusing(code: int | None) -> Wire:
    def refuse() -> None:
        raise StatementFailed(code)

    return Wire(before=refuse)


@pytest.mark.contract("Q1")
def test_a_server_that_refuses_the_hash_is_a_warning_where_the_gate_warns(bench: Bench) -> None:
    found = verdict(bench.run(spec=spec_of(bench, durable=False, severity="warn"), wire=refusing(241)))
    assert (found["status"], found["code"]) == ("warned", "target_typed_hash_unavailable")


@BOTH
@pytest.mark.contract("Q1", "Q5")
@pytest.mark.parametrize(("severity", "code"), [("error", 241), ("error", None), ("warn", None)])
def test_a_hash_that_is_not_answered_ends_the_load(
    bench: Bench, durable: bool, severity: str, code: int | None
) -> None:
    with pytest.raises(DponeError) as raised:
        bench.run(spec=spec_of(bench, durable=durable, severity=severity), wire=refusing(code))
    assert (raised.value.code, raised.value.retryable) == ("DPONE_STAGING_FAILED", True)
    assert (bench.live(), bench.private()) == (None, [])


def committed(bench: Bench, **gate: Any) -> LoadSpec:
    """A load that is live and whose process died before its proof was complete."""

    def die(step: str, facts: dict[str, Any]) -> None:
        if step == "complete":
            raise Died

    spec = spec_of(bench, durable=True, **gate)
    with pytest.raises(Died):
        bench.run(spec=spec, notify=die)
    return spec


@MODES
@pytest.mark.contract("G8", "Q5")
def test_a_committed_retry_judges_the_sealed_hashes_again_and_asks_nobody(bench: Bench, mode: str) -> None:
    spec = committed(bench, mode=mode)
    (bench.folder / "source.csv").unlink()
    wire = Wire()
    outcome = bench.run(spec=spec, wire=wire)
    assert outcome.replayed
    assert verdict(outcome)["code"] == "typed_hashes_equal"
    assert (HASHING in wire.asked, wire.counts["source_open"], wire.counts["insert"]) == (False, 0, 0)


@pytest.mark.contract("G8")
def test_a_committed_retry_warns_as_the_first_attempt_did(bench: Bench) -> None:
    spec = with_document(bench, durable=True, severity="warn")

    def die(step: str, facts: dict[str, Any]) -> None:
        if step == "complete":
            raise Died

    with pytest.raises(Died):
        bench.run(spec=spec, notify=die)
    assert verdict(bench.run(spec=spec))["status"] == "warned"


def rewritten(bench: Bench, change: Callable[[dict[str, Any]], None]) -> None:
    """The slot's capsule, changed by somebody who knows how digests are made."""
    from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
    from dpone_provider.clickhouse.control import ControlClient
    from dpone_provider.replay.ports import Expect
    from dpone_provider.runtime.compose import REPLICA
    from tests.loads import endpoint_of

    record, version = bench.slot()
    assert record is not None
    assert record.capsule is not None
    envelope = canonical.decode(record.capsule, max_bytes=262_144)
    change(envelope["core"])
    envelope["core_digest"] = canonical.digest(envelope["core"])
    changed = attrs.evolve(record, capsule=canonical.encode(envelope))
    client = ControlClient(endpoint_of(bench.sandbox), DirectWire())
    try:
        expect = Expect(
            version=version, operation_id=record.operation.operation_id, owner=record.owner, phase=record.phase
        )
        ClickHouseReplayQualityStore({REPLICA: client}, bench.database).update(changed.row(), expect)
    finally:
        client.close()


@pytest.mark.contract("G8", "Q8")
@pytest.mark.parametrize("stored", ["0" * 64, "no hash at all", None])
@pytest.mark.parametrize("side", ["source_probe", "target_probe"])
def test_a_stored_hash_that_was_changed_is_refused(bench: Bench, side: str, stored: str | None) -> None:
    spec = committed(bench)

    def tamper(core: dict[str, Any]) -> None:
        core[side]["typed_hash"] = stored

    rewritten(bench, tamper)
    wire = Wire()
    with pytest.raises(DponeError) as raised:
        bench.run(spec=spec, wire=wire, stale_after_ms=0)
    assert (raised.value.code, raised.value.boundary) == ("DPONE_REPLAY_QUALITY_EVIDENCE_INVALID", "resume_validation")
    assert (wire.counts["source_open"], wire.counts["exchange"]) == (0, 0)
    assert bench.record().phase == "FAILED"


@pytest.mark.contract("C2", "Q8")
def test_a_capsule_without_a_hash_gate_has_the_bytes_that_it_always_had(bench: Bench) -> None:
    bench.run()
    record = bench.record()
    assert record.capsule is not None
    core = QualityReplayCapsule.parse(record.capsule).core
    probe = '{"row_count":200,"typed_hash":null}'
    assert [canonical.encode(core[side]) for side in ("source_probe", "target_probe")] == [probe, probe]
    assert set(core) == {
        *("policy_snapshot_id", "admission_digest", "effective_plan", "run_id", "load_id", "binding"),
        *("source_probe", "target_probe", "report", "acceptance"),
    }
