"""What is sealed to be observed of the live table, and what is refused before it is too late (C4, C5, C6, M7)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load import target_plan
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.reader.admission import refuse_distinct_memory
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.sandbox.process import RunningSandbox
from tests.crash.wire import CrashWire
from tests.loads import Bench

UNSUPPORTED = "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED"


@attrs.frozen(kw_only=True)
class Wide:
    """A load of one row with columns of our choice; its target is observed."""

    bench: Bench

    def spec(self, columns: dict[str, str], checks: dict[str, Any], mode: str = "required") -> LoadSpec:
        (self.bench.folder / "source.csv").write_text(
            ",".join(columns) + "\n" + ",".join("1" for _ in columns) + "\n", encoding="utf-8"
        )
        return spec_from_values(
            name="refresh",
            source={"type": "file", "format": "csv", "path": "source.csv"},
            sink={
                "type": "clickhouse",
                "connection_ref": "sink",
                "table": {"schema": self.bench.database, "name": self.bench.table},
                "strategy": {"mode": "full_refresh", "max_source_bytes": 10_000_000},
                "columns": columns,
                "options": {"durable_quality_replay": True},
            },
            quality={
                "acceptance": {
                    "enabled": True,
                    "mode": mode,
                    "capture": {"source": False, "staged": False, "target": True},
                    "checks": checks,
                }
            },
            base=str(self.bench.folder),
        )

    def refused(self, spec: LoadSpec) -> tuple[DponeError, CrashWire]:
        wire = CrashWire()
        with pytest.raises(DponeError) as caught:
            self.bench.run(spec=spec, wire=wire)
        assert wire.counts["exchange"] == wire.counts["publish_first"] == wire.counts["observe"] == 0
        assert self.bench.record().phase == "REJECTED"
        assert self.bench.private() == []
        return caught.value, wire


@pytest.fixture
def wide(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Wide:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    return Wide(bench=bench)


@pytest.mark.contract("C5")
def test_more_than_256_selected_columns_are_refused_before_anything_is_staged(wide: Wide) -> None:
    columns = {f"c{number}": "UInt8" for number in range(257)}
    error, wire = wide.refused(wide.spec(columns, {"null_counts": "all_columns"}))
    assert (error.code, "256" in error.message) == (UNSUPPORTED, True)
    assert wire.counts["create_table"] == 0


@pytest.mark.contract("C5")
def test_256_selected_columns_are_observed(wide: Wide) -> None:
    columns = {f"c{number}": "UInt8" for number in range(256)}
    outcome = wide.bench.run(spec=wide.spec(columns, {"null_counts": "all_columns", "distinct_counts": ["c0"]}))
    target = outcome.acceptance["target"]
    assert target["null_counts"] == dict.fromkeys(columns, 0)
    assert target["distinct_counts"] == {"c0": 1}


@pytest.mark.contract("C6")
@pytest.mark.parametrize("kind", ["Float64", "Nullable(Float32)"])
def test_a_required_distinct_count_of_floats_is_refused_before_anything_is_staged(wide: Wide, kind: str) -> None:
    error, wire = wide.refused(wide.spec({"id": "UInt8", "x": kind}, {"distinct_counts": ["x"]}))
    assert (error.code, " x " in error.message) == (UNSUPPORTED, True)
    assert wire.counts["create_table"] == 0


@pytest.mark.contract("C6")
def test_a_distinct_count_of_floats_is_observed_where_it_only_warns(wide: Wide) -> None:
    outcome = wide.bench.run(spec=wide.spec({"x": "Float64"}, {"distinct_counts": ["x"]}, "warn_only"))
    assert outcome.acceptance["target"]["distinct_counts"] == {"x": 1}


@pytest.mark.contract("C4")
def test_a_proof_that_could_outgrow_its_bound_is_refused_before_the_publication(wide: Wide) -> None:
    columns = {f"{'c' * 190}{number}": "UInt8" for number in range(250)}
    checks = {"null_counts": "all_columns", "distinct_counts": "all_columns"}
    error, wire = wide.refused(wide.spec(columns, checks))
    assert error.code == UNSUPPORTED
    assert wire.counts["insert"] == 1


@pytest.mark.contract("C4", "C6")
def test_distinct_values_that_could_run_out_of_memory_are_refused_before_the_publication(
    wide: Wide, monkeypatch: pytest.MonkeyPatch
) -> None:
    little = functools.partial(refuse_distinct_memory, max_memory_bytes=1000)
    monkeypatch.setattr(target_plan, "refuse_distinct_memory", little)
    error, wire = wide.refused(wide.spec({"id": "UInt8", "name": "String"}, {"distinct_counts": ["id", "name"]}))
    assert (error.code, "column name" in error.message) == (UNSUPPORTED, True)
    assert wire.counts["insert"] == 1


@pytest.mark.contract("C5", "R9")
def test_the_plan_has_the_types_that_the_server_prints_and_survives_columns_named_like_aliases(wide: Wide) -> None:
    columns = {"m0": "Decimal(10,2)", "m1": "Enum('1'=1)", "a`b": "Nullable(String)", "dpone_g": "Decimal32(1)"}
    outcome = wide.bench.run(spec=wide.spec(columns, {"null_counts": "all_columns", "distinct_counts": "all_columns"}))
    capsule = QualityReplayCapsule.parse(wide.bench.record().capsule or "")
    assert capsule.core["target_plan"]["columns"] == [
        ["m0", "Decimal(10, 2)"],
        ["m1", "Enum8('1' = 1)"],
        ["a`b", "Nullable(String)"],
        ["dpone_g", "Decimal(9, 1)"],
    ]
    assert outcome.acceptance["target"]["distinct_counts"] == dict.fromkeys(columns, 1)


@pytest.mark.contract("R10")
def test_an_empty_table_is_observed_as_real_zeros(wide: Wide) -> None:
    spec = wide.spec({"id": "UInt8"}, {"null_counts": ["id"], "distinct_counts": ["id"]})
    (wide.bench.folder / "source.csv").write_text("id\n", encoding="utf-8")
    target = wide.bench.run(spec=spec).acceptance["target"]
    assert (target["row_count"], target["null_counts"], target["distinct_counts"]) == (0, {"id": 0}, {"id": 0})
