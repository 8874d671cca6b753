"""Random values of every type, read from the server as a source and loaded as a load does it: both sides agree."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from dpone_provider.clickhouse import quote
from dpone_provider.manifest.spec import ClickHouseSource
from dpone_provider.sources.fit import Fit, plan_fit
from dpone_provider.sources.open import open_source
from dpone_provider.wire import DirectWire
from tests.sources.typed_hash_stage import Columns, Stage, sent

pytestmark = pytest.mark.contract("Q1")

WIDE = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (128, 256)]  # only columns of their own, never inside
SCALARS = [
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    *("Float32", "Float64", "Bool", "String", "FixedString(1)", "FixedString(8)", "FixedString(45)"),
    *("Decimal(9, 0)", "Decimal(9, 9)", "Decimal(15, 3)", "Decimal(18, 18)", "Decimal(38, 10)", "Decimal(76, 76)"),
    *("Date", "Date32", "DateTime", "DateTime('Asia/Tokyo')", "DateTime64(3, 'UTC')", "DateTime64(1, 'Asia/Tokyo')"),
    *("UUID", "IPv4", "IPv6", "Enum8('a' = -128, 'b' = 127)", "Enum16('z' = -300)"),
]
NESTED = [
    *(f"LowCardinality({kind})" for kind in ("String", "Nullable(String)", "FixedString(3)")),
    *("Array(Array(Nullable(Int16)))", "Array(LowCardinality(Nullable(String)))", "Array(Tuple(String, UUID))"),
    *("Map(String, UInt64)", "Map(UInt8, Array(Nullable(String)))", "Map(LowCardinality(String), Tuple(a Int8))"),
    *("Tuple(a Nullable(Float32), `b c` Array(Date))", "Tuple(Int8, Tuple(Map(String, Decimal(9, 2)), IPv6))"),
    "Array(Tuple(x Nullable(Decimal(76, 3)), y Array(Map(Date, Nullable(Bool)))))",
    "Array(Tuple(DateTime, Date32, Bool, Enum8('a' = 1), LowCardinality(String), Decimal(9, 2), DateTime64(3)))",
    "Map(DateTime('UTC'), Tuple(Nullable(UUID), IPv4, IPv6, FixedString(3), Float32, Decimal(38, 3), Enum16('b' = 2)))",
]
COLUMNS: list[Columns] = [
    *((("v", kind), ("n", f"Nullable({kind})"), ("a", f"Array(Nullable({kind}))")) for kind in SCALARS),
    *((("v", kind), ("n", f"Nullable({kind})")) for kind in WIDE),
    *((("v", kind),) for kind in NESTED),
]


def random_rows(stage: Stage, columns: Columns, into: Columns) -> tuple[Fit, list[pa.RecordBatch]]:
    structure = ", ".join(f"{name} {kind}" for name, kind in columns)
    query = f"SELECT * FROM generateRandom({quote.string(structure)}, 7, 80, 4) LIMIT 400"
    with open_source(ClickHouseSource(connection_ref="c", query=query), stage.endpoint, wire=DirectWire()) as source:
        fit = plan_fit(source.schema, into)
        return fit, [fit.convert(batch) for batch in source.batches()]


def agree(stage: Stage, fit: Fit, batches: list[pa.RecordBatch]) -> None:
    stage.load(fit, batches)
    columns, first = fit.target_columns, fit.target_columns[0][0]
    pieces = [batch.slice(start, 37) for batch in batches for start in range(0, batch.num_rows, 37)]
    assert sent(fit, pieces) == sent(fit, batches) == stage.stored(columns) is not None
    for key in ((), (first,)):
        assert sent(fit, batches, "sample", key) == stage.stored(columns, "sample", key)


@pytest.mark.parametrize("columns", COLUMNS, ids=[columns[0][1] for columns in COLUMNS])
def test_random_values_hash_alike_on_both_sides(stage: Stage, columns: Columns) -> None:
    agree(stage, *random_rows(stage, columns, columns))


@pytest.mark.parametrize("kind", ["Int32", "Nullable(UInt64)", "Date", "Float64", "Nullable(UUID)", "IPv4"])
def test_numbers_of_low_cardinality_hash_alike_on_both_sides(stage: Stage, kind: str) -> None:
    agree(stage, *random_rows(stage, (("v", kind),), (("v", f"LowCardinality({kind})"),)))


TICKS = [random.Random(3).randrange(86_400) for _ in range(200)]
SINGLES = pa.array([None, *(tick / 2**9 for tick in range(99))], pa.float32())
SPECIAL = [
    ("Nullable(Time)", pa.array([None, *TICKS], pa.time32("s"))),
    ("Nullable(Time64(1))", pa.array([None, *(tick * 100 for tick in TICKS)], pa.time32("ms"))),
    ("Time64(9)", pa.array(TICKS, pa.time64("ns"))),
    ("Array(Time64(6))", pa.array([TICKS, []], pa.list_(pa.time64("us")))),
    ("Nullable(BFloat16)", SINGLES.take(pa.array([0, 1, 2, 4, 8, 16, 64]))),
    ("Array(Nullable(BFloat16))", pa.array([[None, 1.5], [float("nan"), -0.0]], pa.list_(pa.float32()))),
    ("String", pa.array([b"\xff\x00", b"", b"\x00"], pa.large_binary())),
    ("Nullable(String)", pa.array([None, "ü" * 40, ""], pa.string_view())),
    ("Nullable(String)", pa.array([f"{number % 4}" * (number % 90) for number in range(5000)])),
    ("String", pa.array([random.Random(number).randbytes(number * 700) for number in range(120)])),
    ("Decimal(15, 3)", pa.array(["0.000", "-0.001", "-999999999999.999"])),
    ("Map(String, Array(Int8))", pa.array([[("a", [1, 2]), ("a", [])], []], pa.map_(pa.string(), pa.list_(pa.int8())))),
]


@pytest.mark.parametrize(("kind", "array"), SPECIAL, ids=[f"{kind}<-{array.type}" for kind, array in SPECIAL])
def test_what_the_server_does_not_draw_hashes_alike(stage: Stage, kind: str, array: pa.Array) -> None:
    batch = pa.record_batch([array], names=["v"])
    fit = plan_fit(batch.schema, (("v", kind),))
    agree(stage, fit, [fit.convert(batch.slice(0, 1)), fit.convert(batch.slice(1))])
