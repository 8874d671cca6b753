"""Observations on a real load: what is required is made or refused, as early as it can be known (X5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import FileSource, LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.sources import observe
from dpone_provider.wire import DirectWire
from tests.loads import Bench


def acceptance(mode: str, **checks: Any) -> dict[str, Any]:
    capture = {"source": True, "staged": True, "target": False}
    return {"gates": [], "acceptance": {"enabled": True, "mode": mode, "capture": capture, "checks": checks}}


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    table = pa.table({"id": pa.array(range(100_000), pa.uint64()), "tags": pa.array([["a"]] * 100_000)})
    pq.write_table(table, tmp_path / "source.parquet", row_group_size=10_000)
    return made


def parquet(bench: Bench, mode: str, **checks: Any) -> LoadSpec:
    spec = bench.spec(**acceptance(mode, **checks))
    sink = attrs.evolve(
        spec.sink,
        columns=(("id", "UInt64"), ("tags", "Array(String)")),
        strategy=attrs.evolve(spec.sink.strategy, max_source_bytes=10**9),
    )
    return attrs.evolve(
        spec, sink=sink, source=FileSource(format="parquet", path="source.parquet", base=str(bench.folder))
    )


@pytest.mark.contract("X5", "P8")
def test_a_required_count_that_cannot_be_made_is_refused_before_anything_is_created(bench: Bench) -> None:
    wire = DirectWire()
    with pytest.raises(DponeError) as raised:
        bench.run(spec=parquet(bench, "required", distinct_counts=["tags"]), wire=wire)
    assert raised.value.code == "DPONE_ACCEPTANCE_UNAVAILABLE"
    assert "tags" in raised.value.message
    assert (wire.counts["create_table"], wire.counts["insert"], wire.counts["source_read"]) == (0, 0, 0)
    assert bench.private() == []


@pytest.mark.contract("X5")
def test_too_many_distinct_values_are_refused_at_the_batch_that_overflows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = observe.SourceObserver.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "max_bytes", 100_000)
    wire = DirectWire()
    with pytest.raises(DponeError) as raised:
        bench.run(spec=parquet(bench, "required", distinct_counts=["id"]), wire=wire)
    assert raised.value.code == "DPONE_ACCEPTANCE_UNAVAILABLE"
    assert "id" in raised.value.message
    assert wire.counts["source_read"] < 10
    assert bench.live() is None
    assert bench.private() == []


@pytest.mark.contract("X5")
def test_warn_only_records_one_warning_and_publishes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(observe.SourceObserver.__init__.__kwdefaults__, "max_bytes", 100_000)
    outcome = bench.run(spec=parquet(bench, "warn_only", row_count=True, distinct_counts=["id"]))
    source, staged = outcome.acceptance["source"], outcome.acceptance["staged"]
    assert source["warnings"] == ["source_acceptance_metric_probe_unavailable"]
    assert (source["row_count"], source["distinct_counts"]) == (None, {})
    assert (staged["row_count"], staged["distinct_counts"], staged["warnings"]) == (100_000, {"id": 100_000}, [])
