"""Counts over the source's batches are those that ClickHouse makes of the stored table, or there is none."""

from __future__ import annotations

import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.observe import SourceObserver, Unavailable
from dpone_provider.wire import DirectWire


def observe(arrays: Iterable[pa.Array], **options: Any) -> SourceObserver:
    batches = [pa.record_batch([array], names=["v"]) for array in arrays]
    observer = SourceObserver(batches[0].schema, null_columns=["v"], distinct_columns=["v"], **options)
    for batch in batches:
        observer.observe(batch)
    return observer


def distinct(arrays: Iterable[pa.Array], **options: Any) -> int | Unavailable:
    return observe(arrays, **options).distinct_counts[0][1]


def _nans() -> pa.Array:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0, 1 << 63, 0x7FF0000000000000], np.uint64)
    return pa.array(bits.view(np.float64))


COLUMNS: list[tuple[str, pa.Array]] = [
    ("Nullable(Int64)", pa.array([1, None, 1, -1, 2**63 - 1, -(2**63), None])),
    ("UInt8", pa.array([1, 255, 1], pa.uint8())),
    ("Int16", pa.array([1, -1, 1], pa.int16())),
    ("Int256", pa.array(["1", "-1", "1"])),
    ("Float64", _nans()),
    ("Float32", pa.array([0.0, -0.0, 1.5, 1.5], pa.float32())),
    ("BFloat16", pa.array([0.0, -0.0, 1.5, 1.5], pa.float32())),
    ("Nullable(Bool)", pa.array([True, None, True])),
    ("Nullable(String)", pa.array(["a", "a ", "", None, "a", "A"])),
    ("LowCardinality(String)", pa.array(["a", "b", "a"]).dictionary_encode()),
    ("String", pa.array(["a", "b", "a"], pa.string_view())),
    ("FixedString(3)", pa.array([b"a", b"a\0", b"b"])),
    ("Date", pa.array([1, 2, 1], pa.int32()).cast(pa.date32())),
    ("DateTime('UTC')", pa.array([1, 2, 1]).cast(pa.timestamp("s", "UTC"))),
    ("DateTime64(1, 'UTC')", pa.array([100, 200, 100]).cast(pa.timestamp("ms", "UTC"))),
    ("Nullable(Decimal(9, 2))", pa.array([Decimal("1.0"), Decimal("1.00"), None, Decimal("2")])),
    ("Decimal(76, 2)", pa.array([Decimal("1.0"), Decimal("1.00"), Decimal("2")])),
    ("UUID", pa.array(["12345678-1234-5678-9abc-def01234567a", "12345678-1234-5678-9ABC-DEF01234567A"])),
    ("IPv6", pa.array(["::1", "0::1", "::2"])),
    ("Enum8('a' = 1, 'b' = 2)", pa.array(["a", "b", "a"])),
    ("Nullable(String)", pa.nulls(3)),
]


@pytest.mark.parametrize(("kind", "array"), COLUMNS, ids=[f"{kind}<-{array.type}"[:50] for kind, array in COLUMNS])
def test_counts_equal_the_servers(
    endpoint: Endpoint, database: str, sql: Any, wire: DirectWire, kind: str, array: pa.Array
) -> None:
    batch = pa.record_batch([array], names=["v"])
    fit = plan_fit(batch.schema, (("v", kind),))
    converted = fit.convert(batch)
    observer = SourceObserver(fit.wire_schema, null_columns=["v"], distinct_columns=["v"])
    observer.observe(converted)
    sql(f"CREATE TABLE {database}.v (v {kind}) ENGINE = MergeTree ORDER BY tuple()")
    insert_stream(
        endpoint,
        database=database,
        table="v",
        columns=("v",),
        schema=fit.wire_schema,
        batches=[converted],
        wire=wire,
    )
    (counted,) = sql(f"SELECT count(), countIf(isNull(v)), uniqExact(v) FROM {database}.v")
    assert (observer.row_count, observer.null_counts[0][1], observer.distinct_counts[0][1]) == counted


@pytest.mark.parametrize("shape", ["rising", "shuffled", "repeated", "nearly_rising"])
@pytest.mark.parametrize("make", [lambda v: pa.array(v, pa.int64()), lambda v: pa.array(v).cast(pa.string())])
def test_many_batches_are_counted_as_one(shape: str, make: Any) -> None:
    values = list(range(500_000))
    if shape == "shuffled":
        random.Random(1).shuffle(values)
    elif shape == "repeated":
        values = [value % 70_001 for value in values]
    elif shape == "nearly_rising":
        values[250_000] = 3
    arrays = [make(values[start : start + 60_000]) for start in range(0, len(values), 60_000)]
    assert distinct(arrays) == len(set(values))


@pytest.mark.parametrize("make", [lambda v: pa.array(v, pa.int64()), lambda v: pa.array(v).cast(pa.string())])
def test_beyond_the_bound_the_count_is_unavailable_and_never_wrong(make: Any) -> None:
    values = list(range(600_000))
    random.Random(1).shuffle(values)
    arrays = [make(values[start : start + 60_000]) for start in range(0, len(values), 60_000)]
    observer = observe(arrays, max_bytes=2 << 20)
    found = observer.distinct_counts[0][1]
    assert found == Unavailable(reason="more distinct values than the memory bound allows")
    assert observer.row_count == 600_000


def test_few_values_never_reach_a_small_bound() -> None:
    arrays = [pa.array(np.arange(60_000) % 1_000) for _ in range(50)]
    assert distinct(arrays, max_bytes=2 << 20) == 1_000


def test_exactly_at_the_bound_is_still_counted() -> None:
    arrays = [pa.array(np.arange(1 << 16)[::-1] + (start << 16)) for start in range(2)]
    assert distinct(arrays, max_bytes=1 << 20) == 1 << 17
    assert isinstance(distinct([*arrays, pa.array([-1])], max_bytes=1 << 20), Unavailable)


def test_columns_share_one_bound() -> None:
    batch = pa.record_batch([pa.array(np.arange(130_000))] * 3, names=["a", "b", "c"])
    observer = SourceObserver(batch.schema, distinct_columns=["a", "b", "c"], max_bytes=2 << 20)
    observer.observe(batch)
    found = dict(observer.distinct_counts)
    assert (found["a"], found["b"]) == (130_000, 130_000)
    assert isinstance(found["c"], Unavailable)


def test_types_without_an_exact_comparison_are_unavailable() -> None:
    assert isinstance(distinct([pa.array([[1], [1]])]), Unavailable)
