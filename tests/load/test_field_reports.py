"""What other people's loads did to values, on whole loads: refused with the column's name, the live table untouched."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import FileSource, LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench
from tests.sandbox_fixture import ask

BOTH = pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    """A bench with a live table of ids 1 to 5."""
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1)
    made.run("earlier")
    return made


def spec_of(bench: Bench, values: pa.Array, kind: str, *, durable: bool) -> LoadSpec:
    """A load of ids and one column ``v`` into the live table, whose ``name`` becomes ``v`` of this type."""
    pq.write_table(pa.table({"id": range(len(values)), "v": values}), bench.folder / "source.parquet")
    ask(bench.sandbox, f"ALTER TABLE {bench.database}.t RENAME COLUMN name TO v SETTINGS mutations_sync = 2")
    acceptance = {
        "enabled": True,
        "mode": "required",
        "capture": {"source": True, "staged": True, "target": False},
        "checks": {"row_count": True, "null_counts": ["v"]},
    }
    spec = bench.spec(durable=durable, acceptance=acceptance)
    source = FileSource(format="parquet", path="source.parquet", base=str(bench.folder))
    return attrs.evolve(spec, source=source, sink=attrs.evolve(spec.sink, columns=(("id", "UInt64"), ("v", kind))))


def refused(bench: Bench, spec: LoadSpec) -> DponeError:
    live = bench.live()
    with pytest.raises(DponeError) as raised:
        bench.run("later", spec=spec)
    assert (bench.live(), bench.private()) == (live, [])
    assert ask(bench.sandbox, f"SELECT count() FROM {bench.database}.t") == [(5,)]
    return raised.value


OVERFLOWS = {
    "300 for Int8": (pa.array([1, 300], pa.int32()), "Int8"),
    "-1 for UInt8": (pa.array([1, -1], pa.int32()), "UInt8"),
    "the year 2200 for DateTime": (
        pa.array([datetime(2024, 1, 1), datetime(2200, 1, 1)], pa.timestamp("s")),
        "DateTime",
    ),
}


@BOTH
@pytest.mark.contract("P8")
@pytest.mark.parametrize("what", OVERFLOWS)
def test_a_value_that_would_overflow_is_refused_by_its_column(bench: Bench, what: str, durable: bool) -> None:
    """Field report B11."""
    values, kind = OVERFLOWS[what]
    error = refused(bench, spec_of(bench, values, kind, durable=durable))
    assert (error.code, error.context["column"], error.context["row"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v", 2)
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")


@BOTH
@pytest.mark.contract("P8")
def test_a_null_for_a_column_without_nulls_is_refused_by_its_column(bench: Bench, durable: bool) -> None:
    """Field report B12."""
    error = refused(bench, spec_of(bench, pa.array(["a", None]), "String", durable=durable))
    assert (error.code, error.context["column"], error.context["row"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v", 2)


@BOTH
@pytest.mark.contract("P8", "M7")
def test_a_column_with_a_default_that_nulls_could_become_is_refused_at_admission(bench: Bench, durable: bool) -> None:
    """Field report B12."""
    spec = spec_of(bench, pa.array([1, None]), "Int32", durable=durable)
    ask(bench.sandbox, f"ALTER TABLE {bench.database}.t MODIFY COLUMN v String DEFAULT '42'")
    (bench.folder / "source.parquet").unlink()  # the source is never looked for
    error = refused(bench, spec)
    assert error.code == "DPONE_TARGET_UNSUPPORTED"
    assert "v" in error.message


@BOTH
@pytest.mark.contract("X5")
def test_null_counts_tell_the_nulls_of_both_sides(bench: Bench, durable: bool) -> None:
    """Field report B12."""
    outcome = bench.run("later", spec=spec_of(bench, pa.array(["a", None, None]), "Nullable(String)", durable=durable))
    assert {side: outcome.acceptance[side]["null_counts"] for side in ("source", "staged")} == {
        "source": {"v": 2},
        "staged": {"v": 2},
    }
