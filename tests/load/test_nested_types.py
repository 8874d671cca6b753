"""Arrays, maps and tuples of a ClickHouse source keep their meaning, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench
from tests.sandbox_fixture import Sql

ENUM = "Enum8('a' = 1, 'b' = 2)"
SWAPPED = "Enum8('b' = 1, 'a' = 2)"
MORE = "Enum8('a' = 1, 'b' = 2, 'c' = 3)"
MOMENT = "'2024-05-05 01:02:03'"


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    return made


def spec_of(bench: Bench, value: str, kind: str, target: str | None) -> LoadSpec:
    """A load of one row, whose ``name`` is ``value`` of type ``kind``."""
    return spec_from_values(
        name="refresh",
        source={
            "type": "clickhouse",
            "connection_ref": "sink",
            "query": f"SELECT toUInt64(1) AS id, CAST({value} AS {kind}) AS name",
        },
        sink={
            "type": "clickhouse",
            "connection_ref": "sink",
            "table": {"schema": bench.database, "name": bench.table},
            "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
            "columns": {"name": target} if target else {},
            "options": {
                "durable_quality_replay": True,
                "physical_design": {"storage": {"clickhouse": {"order_by": ["id"]}}},
            },
        },
        base=str(bench.folder),
    )


@pytest.mark.contract("P8")
@pytest.mark.parametrize(
    ("value", "kind", "target"),
    [
        ("['a', 'b']", f"Array({ENUM})", f"Array({SWAPPED})"),
        ("map('k', 'a')", f"Map(String, {ENUM})", f"Map(String, {SWAPPED})"),
        ("tuple('b')", f"Tuple({ENUM})", f"Tuple({SWAPPED})"),
        ("[['a']]", f"Array(Array({ENUM}))", "Array(Array(Int8))"),
        ("['1.2.3.4']", "Array(IPv4)", "Array(UInt32)"),
        ("[5]", "Array(Int128)", "Array(FixedString(16))"),
        (f"[{MOMENT}]", "Array(DateTime('UTC'))", "Array(UInt32)"),
    ],
)
def test_what_would_mean_something_else_is_refused(bench: Bench, value: str, kind: str, target: str) -> None:
    with pytest.raises(DponeError) as raised:
        bench.run(spec=spec_of(bench, value, kind, target))
    assert raised.value.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert bench.live() is None


@pytest.mark.parametrize(
    ("value", "kind", "target"),
    [
        ("['a', 'b']", f"Array({ENUM})", None),
        ("['a', 'b']", f"Array({ENUM})", f"Array({MORE})"),
        (f"[{MOMENT}, NULL]", "Array(Nullable(DateTime('Asia/Tokyo')))", None),
        (f"map('k', {MOMENT})", "Map(String, DateTime('UTC'))", None),
        (f"(7, {MOMENT}, ['a'])", f"Tuple(x UInt8, y DateTime('UTC'), z Array({ENUM}))", None),
        ("[1.5]", "Array(Decimal(76, 20))", None),
        ("[NULL, 'x']", "Array(LowCardinality(Nullable(String)))", None),
    ],
)
def test_what_means_the_same_arrives(bench: Bench, sql: Sql, value: str, kind: str, target: str | None) -> None:
    bench.run(spec=spec_of(bench, value, kind, target))
    live, cast = f"{bench.database}.t", f"CAST({value} AS {kind})"
    [(same,)] = sql(f"SELECT toString(name) = toString({cast}) FROM {live}")
    [(typed,)] = sql(f"SELECT toTypeName(name) = toTypeName(CAST({value} AS {target or kind})) FROM {live}")
    assert (same, typed) == (1, 1)
