"""What the typed hash notices: every change of a value, a row, a name or a type; and nothing that is none."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.typed_hash import MultisetHasher
from tests.sources.typed_hash_stage import Columns, Stage, sent

pytestmark = pytest.mark.contract("Q1")

Row = tuple[Any, ...]
COLUMNS: Columns = (
    ("n", "Nullable(Int64)"),
    ("m", "Nullable(Int64)"),
    ("t", "Nullable(String)"),
    ("u", "Nullable(String)"),
    ("f", "Nullable(Float64)"),
    ("l", "Array(Nullable(UInt8))"),
)
TYPES = (pa.int64(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.list_(pa.uint8()))
NUMBERS = st.none() | st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=40)
FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.0]) | st.floats(allow_nan=False)
LISTS = st.lists(st.none() | st.integers(0, 255), max_size=4)
VALUES = (NUMBERS, NUMBERS, TEXTS, TEXTS, FLOATS, LISTS)
quick = settings(deadline=None, max_examples=50)
ROWS = st.lists(st.tuples(*VALUES), min_size=1, max_size=12)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(TYPES)]
    return pa.record_batch(arrays, names=[name for name, _ in COLUMNS])


def hash_of(rows: Sequence[Row]) -> str:
    batch = batch_of(rows)
    hasher = MultisetHasher(batch.schema, COLUMNS)
    hasher.add(batch)
    found = hasher.digest()
    assert found is not None
    return found


def bits(value: Any) -> Any:
    """A value that compares as it is stored: -0.0 is not 0.0."""
    return struct.pack("d", value) if type(value) is float else value


def multiset(rows: Sequence[Row]) -> list[str]:
    return sorted(repr([bits(value) for value in row]) for row in rows)


@given(ROWS, ROWS)
@quick
def test_other_rows_are_another_hash_and_the_same_rows_the_same(one: list[Row], other: list[Row]) -> None:
    assert (hash_of(one) == hash_of(other)) == (multiset(one) == multiset(other))


@given(ROWS, st.data())
@quick
def test_one_other_value_is_another_hash(rows: list[Row], data: st.DataObject) -> None:
    row, place = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, len(COLUMNS) - 1))
    value = data.draw(VALUES[place])
    assume(bits(value) != bits(rows[row][place]))
    changed = list(rows[row])
    changed[place] = value
    assert hash_of([*rows[:row], tuple(changed), *rows[row + 1 :]]) != hash_of(rows)


@given(ROWS, st.randoms(use_true_random=False))
@quick
def test_order_is_nothing_and_a_duplicate_is_something(rows: list[Row], chance: random.Random) -> None:
    shuffled = chance.sample(rows, len(rows))
    assert hash_of(shuffled) == hash_of(rows)
    assert len({hash_of(rows), hash_of([*rows, rows[0]]), hash_of([*rows, rows[0], rows[0]]), hash_of(rows[1:])}) == 4


@given(ROWS.filter(lambda rows: len(rows) > 1), st.integers(0, 5))
@quick
def test_values_that_change_rows_are_noticed(rows: list[Row], place: int) -> None:
    """One column turned by a row: every column for itself holds the same values."""
    turned = [(*row[:place], rows[index - 1][place], *row[place + 1 :]) for index, row in enumerate(rows)]
    assume(multiset(turned) != multiset(rows))
    assert hash_of(turned) != hash_of(rows)


@given(ROWS, st.sampled_from([(0, 1), (2, 3)]))
@quick
def test_two_columns_that_change_places_are_noticed(rows: list[Row], pair: tuple[int, int]) -> None:
    places = list(range(len(COLUMNS)))
    places[pair[0]], places[pair[1]] = places[pair[1]], places[pair[0]]
    swapped = [tuple(row[place] for place in places) for row in rows]
    assume(multiset(swapped) != multiset(rows))
    assert hash_of(swapped) != hash_of(rows)


@given(ROWS, st.integers(1, 5))
@quick
def test_null_is_no_value_and_slices_are_their_rows(rows: list[Row], size: int) -> None:
    """NULLs and offsets into shared buffers: every piece is hashed as if it had been built for itself."""
    batch = batch_of(rows)
    pieces = MultisetHasher(batch.schema, COLUMNS)
    for start in range(0, len(rows), size):
        pieces.add(batch.slice(start, size))
    assert pieces.digest() == hash_of(rows)
    defaults = (0, 0, "", "", 0.0, [])
    filled = [tuple(d if value is None else value for value, d in zip(row, defaults, strict=True)) for row in rows]
    assert (hash_of(filled) == hash_of(rows)) == (multiset(filled) == multiset(rows))


def one(name: str, kind: str, array: pa.Array) -> str | None:
    batch = pa.record_batch([array], names=[name])
    fit = plan_fit(batch.schema, ((name, kind),))
    return sent(fit, [fit.convert(batch)])


def test_name_and_type_belong_to_the_hash() -> None:
    array = pa.array([1, 2, 3])
    found = {one("a", "Int64", array), one("b", "Int64", array), one("a", "Int32", array), one("a", "UInt64", array)}
    assert len(found) == 4


def test_all_nans_are_one_value_and_both_zeros_are_two() -> None:
    words = struct.pack("<QQ", 0x7FF8 << 48, 0xFFF8_0000_0000_0007)
    payloads = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(words)])
    assert one("v", "Float64", payloads) == one("v", "Float64", pa.array([float("nan")] * 2))
    assert one("v", "Float64", pa.array([0.0])) != one("v", "Float64", pa.array([-0.0]))


def test_the_entries_of_a_map_have_no_order_and_the_items_of_an_array_have_one() -> None:
    kind = pa.map_(pa.string(), pa.int8())
    there, back = pa.array([[("a", 1), ("b", 2)]], kind), pa.array([[("b", 2), ("a", 1)]], kind)
    crossed = pa.array([[("a", 2), ("b", 1)]], kind)
    assert one("v", "Map(String, Int8)", there) == one("v", "Map(String, Int8)", back)
    assert one("v", "Map(String, Int8)", there) != one("v", "Map(String, Int8)", crossed)
    assert one("v", "Array(Int8)", pa.array([[1, 2]])) != one("v", "Array(Int8)", pa.array([[2, 1]]))
    assert one("v", "Array(Int8)", pa.array([[1], [2]])) != one("v", "Array(Int8)", pa.array([[1, 2], []]))


def test_the_form_is_what_it_was() -> None:
    """A hash that changes without a new version would compare as unequal between two versions of dpone."""
    rows = [(1, None, "a", "b" * 50, 0.5, [1, None]), (None, -1, "", None, -0.0, [])]
    assert hash_of(rows) == "1ec7e5a11f991db5837ccbbedf9f2df8d7606507e8b98648e13df41411e4a261"


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (pa.float64(), "Int64"),
        (pa.int64(), "UInt64"),
        (pa.int64(), "Int32"),
        (pa.string(), "FixedString(3)"),
        (pa.binary(2), "FixedString(3)"),
        (pa.float32(), "Float64"),
        (pa.decimal128(9, 2), "Decimal(9, 3)"),
        (pa.timestamp("us"), "DateTime64(3)"),
        (pa.timestamp("s"), "DateTime64(3)"),
        (pa.timestamp("ms"), "DateTime"),
        (pa.binary(16), "Int256"),
        (pa.list_(pa.int64()), "Array(Int32)"),
        (pa.struct([("a", pa.int8())]), "Tuple(a Int8, b Int8)"),
    ],
    ids=str,
)
def test_a_wire_that_does_not_carry_the_type_exactly_has_no_hash(wire: pa.DataType, kind: str) -> None:
    """The server would widen, wrap, pad or round: what was sent and what is stored would be two values."""
    hasher = MultisetHasher(pa.schema([("a", wire), ("b", pa.int8())]), (("a", kind), ("b", "Int8")))
    assert (hasher.unsupported, hasher.digest()) == (("a",), None)


@pytest.mark.parametrize(
    ("columns", "key"), [((("b", "Int8"),), ()), ((("a", "Int8"),), ("b",)), ((("a", "Int8"), ("b", "Int8")), ())]
)
def test_other_columns_than_the_schemas_are_a_mistake(columns: Columns, key: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        MultisetHasher(pa.schema([("a", pa.int8())]), columns, mode="sample", key=key)


CORRUPTIONS = {
    "one ulp": "ALTER TABLE {t} UPDATE f = reinterpretAsFloat64(reinterpretAsUInt64(f) + 1) WHERE n = 5",
    "a trailing space": "ALTER TABLE {t} UPDATE t = concat(t, ' ') WHERE n = 5",
    "NULL became empty": "ALTER TABLE {t} UPDATE u = '' WHERE n = 6",
    "empty became NULL": "ALTER TABLE {t} UPDATE u = NULL WHERE n = 7",
    "NULL became zero": "ALTER TABLE {t} UPDATE m = 0 WHERE n = 6",
    "off by one": "ALTER TABLE {t} UPDATE m = m + 1 WHERE n = 5",
    "swapped between rows": "ALTER TABLE {t} UPDATE t = if(n = 8, 't9', 't8') WHERE n IN (8, 9)",
    "an item moved": "ALTER TABLE {t} UPDATE l = reverse(l) WHERE n = 5",
    "lost": "ALTER TABLE {t} DELETE WHERE n = 5",
    "doubled": "INSERT INTO {t} SELECT * FROM {t} WHERE n = 5",
}


@pytest.mark.parametrize("statement", CORRUPTIONS.values(), ids=list(CORRUPTIONS))
def test_what_goes_wrong_on_the_server_is_noticed(stage: Stage, statement: str) -> None:
    rows = [(n, None if n == 6 else n, f"t{n}", {6: None, 7: ""}.get(n, "u"), n / 3, [n, 1]) for n in range(200)]
    batch = batch_of(rows)
    fit = plan_fit(batch.schema, COLUMNS)
    stage.load(fit, [fit.convert(batch)])
    before = stage.stored(COLUMNS)
    stage.sql(statement.format(t=f"{stage.database}.t"), settings={"mutations_sync": 1})
    assert before == hash_of(rows) != stage.stored(COLUMNS)
