"""The typed multiset hash: what the source's batches give is what the stored rows give, for every type."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from dpone_provider.clickhouse.typed_hash import Mode
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.typed_hash import MultisetHasher
from tests.sources.test_fit import FITS
from tests.sources.typed_hash_stage import Columns, Stage, sent

HASHED = [case for case in FITS if "JSON" not in case[0]]


@pytest.mark.parametrize(("kind", "array"), [case[:2] for case in HASHED], ids=[f"{c[0]}<-{c[1].type}" for c in HASHED])
def test_both_sides_agree_on_every_type(stage: Stage, kind: str, array: pa.Array) -> None:
    batch = pa.record_batch([array, array], names=["v", "w"])
    columns = (("v", kind), ("w", kind))
    fit = plan_fit(batch.schema, columns)
    batches = [fit.convert(batch)]
    stage.load(fit, batches)
    assert sent(fit, batches) == stage.stored(columns)
    assert sent(fit, batches) is not None


@pytest.mark.parametrize("kind", ["JSON", "Array(JSON)", "Variant(Int8, String)"])
def test_a_type_without_a_word_gives_no_hash_on_either_side(stage: Stage, kind: str) -> None:
    schema = pa.schema([("v", pa.string()), ("w", pa.int8())])
    columns = (("v", kind), ("w", "Int8"))
    hasher = MultisetHasher(schema, columns)
    assert (hasher.unsupported, hasher.digest()) == (("v",), None)
    assert stage.stored(columns) is None


MIXED: Columns = (
    ("id", "UInt64"),
    ("dpone_r", "Nullable(String)"),
    ("a.b`c", "LowCardinality(Nullable(String))"),
    ("dpone_g", "Decimal(15, 3)"),
    ("when", "Nullable(DateTime64(6, 'UTC'))"),
)


def mixed(rows: int = 1000) -> pa.RecordBatch:
    numbers = range(rows)
    return pa.record_batch(
        [
            pa.array(numbers, pa.uint64()),
            pa.array([None if n % 7 == 0 else "x" * (n % 50) for n in numbers], pa.string()),
            pa.array([None if n % 5 == 0 else f"c{n % 3}" for n in numbers], pa.string()).dictionary_encode(),
            pa.array([Decimal(n - 500).scaleb(-3) for n in numbers], pa.decimal128(15, 3)),
            pa.array([None if n % 11 == 0 else 10**9 * (n - 500) for n in numbers]).cast(pa.timestamp("us", "UTC")),
        ],
        names=[name for name, _ in MIXED],
    )


WAYS: list[tuple[Mode, tuple[str, ...]]] = [
    ("full", ()),
    ("sample", ()),
    ("sample", ("id",)),
    ("sample", ("a.b`c", "dpone_r")),
]


@pytest.mark.parametrize(("mode", "key"), WAYS)
def test_order_and_batches_do_not_matter(stage: Stage, mode: Mode, key: tuple[str, ...]) -> None:
    batch = mixed()
    fit = plan_fit(batch.schema, MIXED)
    whole = fit.convert(batch)
    stage.load(fit, [whole])
    shuffled = whole.take(pa.array(random.Random(5).sample(range(1000), 1000)))
    pieces = [shuffled.slice(start, 7) for start in range(0, 1000, 7)]
    assert stage.stored(MIXED, mode, key) == sent(fit, [whole], mode, key) == sent(fit, pieces, mode, key)


@pytest.mark.parametrize(("mode", "key"), WAYS)
def test_no_rows_are_equal_on_both_sides(stage: Stage, mode: Mode, key: tuple[str, ...]) -> None:
    fit = plan_fit(mixed(0).schema, MIXED)
    stage.create(MIXED)
    assert stage.stored(MIXED, mode, key) == sent(fit, [], mode, key) == sent(fit, [fit.convert(mixed(0))], mode, key)


def test_a_sample_takes_about_one_row_in_sixteen() -> None:
    fit = plan_fit(mixed(0).schema, MIXED)
    batch = fit.convert(mixed(16_000))
    hasher = MultisetHasher(fit.wire_schema, MIXED, mode="sample", key=("id",))
    hasher.add(batch)
    assert 900 < hasher.hashed_rows < 1100


def test_a_sample_still_knows_how_many_rows_there_are() -> None:
    fit = plan_fit(mixed(0).schema, MIXED)
    batch = fit.convert(mixed(100))
    found = {sent(fit, [batch.slice(0, rows)], "sample", ("id",)) for rows in range(100)}
    assert len(found) == 100
