"""Values into every supported ClickHouse type on a real server: identical, or refused (B11, B12)."""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import ClickHouseSource, TableRef
from dpone_provider.sources.fit import derive_columns, plan_fit
from dpone_provider.sources.open import open_source
from dpone_provider.wire import DirectWire
from tests.sources.conftest import Load

D = Decimal
U = uuid.UUID("12345678-1234-5678-9abc-def012345678")
NAN, INF = float("nan"), float("inf")


def ticks(values: list[int | None], unit: str, zone: str | None = "UTC") -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def days(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def integers() -> list[Any]:
    cases: list[Any] = []
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        cases.append((f"Int{bits}", pa.array([low, 0, high], pa.int64()), [str(low), "0", str(high)]))
        most = 2**bits - 1
        cases.append((f"UInt{bits}", pa.array([0, most], pa.uint64()), ["0", str(most)]))
    for bits in (128, 256):
        low, high, most = str(-(2 ** (bits - 1))), str(2 ** (bits - 1) - 1), str(2**bits - 1)
        cases.append((f"Int{bits}", pa.array([low, "0", high]), [low, "0", high]))
        cases.append((f"UInt{bits}", pa.array(["0", most]), ["0", most]))
        edges = [-(2**63), -1, 2**63 - 1]
        cases.append((f"Int{bits}", pa.array(edges), [str(edge) for edge in edges]))
        cases.append((f"UInt{bits}", pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]))
        cases.append((f"Nullable(Int{bits})", pa.array([None, -5]), [None, "-5"]))
    return cases


FITS: list[tuple[str, pa.Array, list[str | None]]] = [
    *integers(),
    ("Int8", pa.array([127.0, -128.0]), ["127", "-128"]),
    ("Int16", pa.array([D("300.00")]), ["300"]),
    ("Int16", pa.array(["-32768"]), ["-32768"]),
    ("UInt8", pa.array([True, False]), ["1", "0"]),
    ("Int128", pa.array([D("12345678901234567890")], pa.decimal128(38, 0)), ["12345678901234567890"]),
    ("Float32", pa.array([1.5, NAN, INF, -0.0, 3.4028234663852886e38]), ["1.5", "nan", "inf", "-0", "3.4028235e38"]),
    ("Float32", pa.array([2**24], pa.int64()), ["16777216"]),
    ("Float64", pa.array([5e-324, 1.7976931348623157e308]), ["5e-324", "1.7976931348623157e308"]),
    ("Float64", pa.array([2**53], pa.int64()), ["9007199254740992"]),
    ("Float64", pa.array([1.5], pa.float32()), ["1.5"]),
    ("Float64", pa.array(["0.1", "inf"]), ["0.1", "inf"]),
    ("BFloat16", pa.array([1.5, -3.140625, NAN]), ["1.5", "-3.140625", "nan"]),
    ("Nullable(BFloat16)", pa.array([None, 1.5], pa.float32()), [None, "1.5"]),
    ("Bool", pa.array([True, False]), ["true", "false"]),
    ("Bool", pa.array([0, 1], pa.int8()), ["false", "true"]),
    ("Bool", pa.array(["true", "FALSE"]), ["true", "false"]),
    ("Nullable(Bool)", pa.array([None, True]), [None, "true"]),
    ("String", pa.array(["", "ü", "a\0b"]), ["", "ü", "a\0b"]),
    ("String", pa.array(["x"], pa.large_string()), ["x"]),
    ("String", pa.array(["x"], pa.string_view()), ["x"]),
    ("String", pa.array([b"x"], pa.binary()), ["x"]),
    ("String", pa.array([b"x"], pa.large_binary()), ["x"]),
    ("String", pa.array([b"x"], pa.binary_view()), ["x"]),
    ("String", pa.array([b"xy"], pa.binary(2)), ["xy"]),
    ("Nullable(String)", pa.array([None, ""]), [None, ""]),
    ("String", pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
    ("LowCardinality(String)", pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
    ("LowCardinality(Nullable(String))", pa.array(["x", None]).dictionary_encode(), ["x", None]),
    ("LowCardinality(String)", pa.array(["x"]), ["x"]),
    ("FixedString(4)", pa.array([b"abcd", b"\0\1\2\xff"], pa.binary(4)), ["61626364", "000102FF"]),
    ("FixedString(4)", pa.array(["abcd", "a", ""]), ["61626364", "61000000", "00000000"]),
    ("Nullable(FixedString(2))", pa.array([None, b"a"]), [None, "6100"]),
    ("LowCardinality(FixedString(2))", pa.array(["ab"]), ["6162"]),
    ("Date", days([0, 65_535]), ["1970-01-01", "2149-06-06"]),
    ("Date", ticks([86_400_000], "ms", None), ["1970-01-02"]),
    ("Date", pa.array(["2024-02-29"]), ["2024-02-29"]),
    ("Date", pa.array([86_400_000], pa.date64()), ["1970-01-02"]),
    ("Nullable(Date)", days([None, 1]), [None, "1970-01-02"]),
    ("Date32", days([-25_567, 120_529]), ["1900-01-01", "2299-12-31"]),
    ("DateTime('UTC')", ticks([0, 2**32 - 1], "s"), ["1970-01-01 00:00:00", "2106-02-07 06:28:15"]),
    ("DateTime('UTC')", ticks([1_000_000_000], "ns", None), ["1970-01-01 00:00:01"]),
    ("DateTime('Europe/Berlin')", ticks([0], "us", "America/New_York"), ["1970-01-01 01:00:00"]),
    ("DateTime('UTC')", days([1]), ["1970-01-02 00:00:00"]),
    ("DateTime('Europe/Berlin')", pa.array(["1970-01-01T00:00:00Z"]), ["1970-01-01 01:00:00"]),
    ("DateTime('UTC')", pa.array(["1970-01-01 00:00:00", "1970-01-01"]), ["1970-01-01 00:00:00"] * 2),
    ("Nullable(DateTime('UTC'))", ticks([None, 1], "s"), [None, "1970-01-01 00:00:01"]),
    *[
        (
            f"DateTime64({digits}, 'UTC')",
            ticks([-2_208_988_800 * 1000, 10_413_791_999 * 1000], "ms"),
            [f"{text}{'.' if digits else ''}{'0' * digits}" for text in ("1900-01-01 00:00:00", "2299-12-31 23:59:59")],
        )
        for digits in range(7)
    ],
    ("DateTime64(1, 'UTC')", ticks([-100, 300], "ms"), ["1969-12-31 23:59:59.9", "1970-01-01 00:00:00.3"]),
    ("DateTime64(7, 'UTC')", ticks([-100, 300], "ns"), ["1969-12-31 23:59:59.9999999", "1970-01-01 00:00:00.0000003"]),
    ("DateTime64(9, 'UTC')", ticks([2**63 - 1], "ns"), ["2262-04-11 23:47:16.854775807"]),
    ("DateTime64(6, 'UTC')", pa.array(["1970-01-01 00:00:00.000001"]), ["1970-01-01 00:00:00.000001"]),
    ("Time", pa.array([0, 86_399], pa.time32("s")), ["00:00:00", "23:59:59"]),
    ("Time64(0)", pa.array([1], pa.time32("s")), ["00:00:01"]),
    ("Time64(3)", pa.array([1_001_000], pa.time64("us")), ["00:00:01.001"]),
    ("Time64(7)", pa.array([1_000_000_100], pa.time64("ns")), ["00:00:01.0000001"]),
    ("Decimal(9, 2)", pa.array([D("9999999.99"), D("-9999999.99")]), ["9999999.99", "-9999999.99"]),
    ("Decimal(9, 2)", pa.array([D("1.5000")], pa.decimal256(40, 4)), ["1.5"]),
    ("Decimal(9, 2)", pa.array([D("1.50")], pa.decimal32(5, 2)), ["1.5"]),
    ("Decimal(18, 3)", pa.array([1, -1], pa.int8()), ["1", "-1"]),
    ("Decimal(38, 0)", pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
    ("Decimal(38, 37)", pa.array([9], pa.int64()), ["9"]),
    ("Decimal(76, 75)", pa.array([9], pa.int64()), ["9"]),
    ("Decimal(76, 20)", pa.array([D("9" * 56 + "." + "9" * 20)]), ["9" * 56 + "." + "9" * 20]),
    ("Decimal(9, 2)", pa.array(["1.50", "-0.01"]), ["1.5", "-0.01"]),
    ("Decimal256(2)", pa.array(["1.50"]), ["1.5"]),
    ("UUID", pa.array([U.bytes], pa.uuid()), [str(U)]),
    ("UUID", pa.array([U.bytes, b"\0" * 16], pa.binary(16)), [str(U), str(uuid.UUID(int=0))]),
    ("UUID", pa.array([str(U).upper(), str(uuid.UUID(int=2**128 - 1))]), [str(U), str(uuid.UUID(int=2**128 - 1))]),
    ("Nullable(UUID)", pa.array(["x", None, str(U)]).slice(1), [None, str(U)]),
    ("IPv4", pa.array([0, 2**32 - 1], pa.uint32()), ["0.0.0.0", "255.255.255.255"]),
    ("IPv4", pa.array(["1.2.3.4", "1.2.3.4"]), ["1.2.3.4", "1.2.3.4"]),
    ("IPv6", pa.array([ipaddress.ip_address("2001:db8::1").packed], pa.binary(16)), ["2001:db8::1"]),
    ("IPv6", pa.array(["2001:db8::1", "::ffff:1.2.3.4"]), ["2001:db8::1", "::ffff:1.2.3.4"]),
    ("Nullable(IPv6)", pa.array([None, "::"]), [None, "::"]),
    ("Enum8('b' = -128, 'a' = 1)", pa.array(["a", "b"]), ["a", "b"]),
    ("Enum8('b' = -128, 'a' = 1)", pa.array([1, -128], pa.int64()), ["a", "b"]),
    ("Enum16('b' = -32768, 'a' = 1)", pa.array(["b"]).dictionary_encode(), ["b"]),
    ("Nullable(Enum8('a' = 1))", pa.array([None, "a"]), [None, "a"]),
    ("Array(Int8)", pa.array([[1, 2], []], pa.list_(pa.int64())), ["[1,2]", "[]"]),
    ("Array(Nullable(String))", pa.array([["x", None]]), ["['x',NULL]"]),
    ("Array(Array(UInt8))", pa.array([[[1], []], []]), ["[[1],[]]", "[]"]),
    ("Array(Int8)", pa.array([[9], [1, 2], [3]]).slice(1), ["[1,2]", "[3]"]),
    ("Array(Date)", pa.array([[dt.date(2020, 1, 1)]], pa.large_list(pa.date32())), ["['2020-01-01']"]),
    ("Tuple(a Int8, b String)", pa.array([{"b": "x", "a": 1}]), ["(1,'x')"]),
    ("Tuple(Int8, String)", pa.array([{"p": 1, "q": "x"}]), ["(1,'x')"]),
    ("Array(Tuple(a Int8))", pa.array([[{"a": 1}, {"a": 2}]]), ["[(1),(2)]"]),
    (
        "Map(String, Int8)",
        pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64())),
        ["{'a':1,'b':2}", "{}"],
    ),
    ("Map(String, Int8)", pa.array([[("z", 9)], [("a", 1)]], pa.map_(pa.string(), pa.int64())).slice(1), ["{'a':1}"]),
    ("JSON", pa.array(['{"a":1}']), ['{"a":1}']),
    *[
        (f"Nullable({kind})", pa.nulls(2), [None, None])
        for kind in ("Int8", "String", "UUID", "DateTime('UTC')", "Decimal(9, 2)", "IPv6", "Enum8('a' = 1)", "Date32")
    ],
]


@pytest.mark.parametrize(
    ("kind", "array", "expected"), FITS, ids=[f"{kind}<-{array.type}"[:60] for kind, array, _ in FITS]
)
def test_a_value_comes_out_as_it_went_in(
    load: Load, endpoint: Endpoint, database: str, wire: DirectWire, kind: str, array: pa.Array, expected: list[Any]
) -> None:
    """And the table, read as a source and fitted to the same types, gives the same batch again."""
    assert load(kind, array) == expected
    table = ClickHouseSource(connection_ref="c", table=TableRef(database=database, name="v"))
    with open_source(table, endpoint, wire=wire) as source:
        columns = derive_columns(source.schema, required=frozenset())
        again = plan_fit(source.schema, columns)
        rows = pa.Table.from_batches([again.convert(batch) for batch in source.batches()], again.wire_schema)
    assert dict(columns)["v"] == _canonical(kind)
    batch = pa.record_batch([array], names=["v"])
    fit = plan_fit(batch.schema, (("v", kind),))
    sent = pa.table([fit.convert(batch).column(0)], names=["v"])
    stored = rows.sort_by("i").select(["v"])
    if pa.types.is_null(sent.schema.field(0).type):
        assert stored["v"].null_count == len(array)
    else:
        assert repr(stored["v"].to_pylist()) == repr(_plain(sent["v"]).to_pylist())


def _canonical(kind: str) -> str:
    return "Decimal(76, 2)" if kind == "Decimal256(2)" else kind


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text and bytes as the server sends them."""
    kind = column.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return column.cast(pa.string()) if is_bytes or (kind == pa.binary(2) and column[0].as_py() == b"xy") else column


MISFITS: list[tuple[str, pa.Array, str]] = [
    ("Int8", pa.array([1, 300], pa.int64()), "outside the range of Int8"),
    ("UInt8", pa.array([1, -1], pa.int64()), "outside the range of UInt8"),
    ("UInt64", pa.array([1, -1], pa.int64()), "outside the range of UInt64"),
    ("Int64", pa.array([1, 2**63], pa.uint64()), "outside the range of Int64"),
    ("UInt128", pa.array([1, -1], pa.int64()), "not a number of UInt128"),
    ("Int128", pa.array(["1", str(2**127)]), "not a number of Int128"),
    ("Int256", pa.array(["1", "1.0"]), "not a number of Int256"),
    ("Int8", pa.array([1.0, 1.5]), "not whole or outside"),
    ("Int8", pa.array([1.0, NAN]), "not whole or outside"),
    ("Int64", pa.array([1.0, 2.0**63]), "not whole or outside"),
    ("Int8", pa.array([D("1.0"), D("1.5")]), "not whole or outside"),
    ("Int8", pa.array(["1", "x"]), "text that is not a number of Int8"),
    ("Int8", pa.array(["1", " 2"]), "text that is not a number of Int8"),
    ("Int8", pa.array(["1", "300"]), "text that is not a number of Int8"),
    ("Float32", pa.array([1.5, 0.1]), "Float32 cannot hold exactly"),
    ("Float32", pa.array([1.5, 1e300]), "Float32 cannot hold exactly"),
    ("Float32", pa.array([1, 2**24 + 1], pa.int64()), "Float32 cannot hold exactly"),
    ("Float64", pa.array([1, 2**53 + 1], pa.int64()), "Float64 cannot hold exactly"),
    ("Float64", pa.array(["1", "1e400"]), "beyond Float64"),
    ("BFloat16", pa.array([1.5, 1.001953125], pa.float32()), "BFloat16 cannot hold exactly"),
    ("Bool", pa.array([1, 2], pa.int8()), "neither 0 nor 1"),
    ("Bool", pa.array(["true", "yes"]), "neither true nor false"),
    ("FixedString(4)", pa.array(["abcd", "abcde"]), "longer than FixedString(4)"),
    ("FixedString(2)", pa.array(["ab", "ü€"]), "longer than FixedString(2)"),
    ("Date", days([0, -1]), "outside 1970-01-01 to 2149-06-06"),
    ("Date", days([0, 65_536]), "outside 1970-01-01 to 2149-06-06"),
    ("Date32", days([0, -25_568]), "outside 1900-01-01 to 2299-12-31"),
    ("Date32", days([0, 120_530]), "outside 1900-01-01 to 2299-12-31"),
    ("Date", ticks([0, 1], "s", None), "a time of day"),
    ("Date", ticks([0, 1], "ns", None), "a time of day"),
    ("Date", pa.array(["2024-01-01", "2024-02-30"]), "text that is not a date"),
    ("DateTime('UTC')", ticks([0, 7_258_118_400], "s"), "outside 1970-01-01 to 2106-02-07"),
    ("DateTime('UTC')", ticks([0, -1], "s"), "outside 1970-01-01 to 2106-02-07"),
    ("DateTime('UTC')", ticks([1000, 1001], "ms"), "more digits than"),
    ("DateTime('UTC')", pa.array(["2024-01-01 00:00:00", "2024-01-01 00:00:00Z"]), "all with or all without"),
    ("DateTime('UTC')", pa.array(["2024-01-01 00:00:00", "2024-01-01 00:00:00.5"]), "not a date and time"),
    ("DateTime('Europe/Berlin')", pa.array(["2024-01-01 00:00:00Z", "2024-01-01 00:00:00"]), "all with or all without"),
    ("DateTime64(3, 'UTC')", ticks([0, 1], "us"), "more digits than"),
    ("DateTime64(1, 'UTC')", ticks([0, 10], "ms"), "more digits than"),
    ("DateTime64(3, 'UTC')", ticks([0, -2_208_988_801], "s"), "outside 1900-01-01 to 2299-12-31"),
    ("DateTime64(3, 'UTC')", ticks([0, 10_413_792_000], "s"), "outside 1900-01-01 to 2299-12-31"),
    ("DateTime64(9, 'UTC')", ticks([0, 10_000_000_000], "s"), "outside 1900-01-01 to 2262-04-11"),
    ("Time", pa.array([0, 1], pa.time32("ms")), "more digits than"),
    ("Time64(1)", pa.array([0, 1], pa.time32("ms")), "more digits than"),
    ("Decimal(5, 2)", pa.array([D("1.00"), D("1234.00")]), "cannot hold without loss"),
    ("Decimal(5, 2)", pa.array([D("1.000"), D("1.001")]), "cannot hold without loss"),
    ("Decimal(5, 2)", pa.array([1, 1000], pa.int64()), "cannot hold without loss"),
    ("Decimal(5, 2)", pa.array(["1.00", "1.001"]), "has more digits"),
    ("UUID", pa.array([str(U), "x"]), "not a UUID"),
    ("UUID", pa.array([str(U), U.hex]), "not a UUID"),
    ("UUID", pa.array([str(U), f"{U}\n"]), "not a UUID"),
    ("IPv4", pa.array(["1.2.3.4", "1.2.3.256"]), "not an IPv4 address"),
    ("IPv6", pa.array(["::", "1.2.3.4"]), "not an IPv6 address"),
    ("Enum8('a' = 1)", pa.array(["a", "A"]), "a name that Enum8 does not have"),
    ("Enum8('a' = 1)", pa.array([1, 2], pa.int8()), "a number that Enum8 does not have"),
    ("Array(Int8)", pa.array([[1], [1, 300]]), "outside the range of Int8"),
    ("Array(Int8)", pa.array([[1], [None]], pa.list_(pa.int8())), "NULL in a column that is not Nullable"),
    ("Array(Int8)", pa.array([[1], None]), "NULL in a column that is not Nullable"),
    ("Map(String, Int8)", pa.array([[], [("a", 300)]], pa.map_(pa.string(), pa.int64())), "outside the range of Int8"),
    ("Tuple(a Int8)", pa.array([{"a": 1}, {"a": 300}]), "outside the range of Int8"),
    ("LowCardinality(String)", pa.array(["a", None]), "NULL in a column that is not Nullable"),
    ("Int8", pa.array([1, None], pa.int8()), "NULL in a column that is not Nullable"),
]


@pytest.mark.parametrize(
    ("kind", "array", "problem"), MISFITS, ids=[f"{kind}<-{array.type}"[:60] for kind, array, _ in MISFITS]
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(kind: str, array: pa.Array, problem: str) -> None:
    """B11, B12: nothing is clamped, wrapped, rounded, defaulted or truncated; the value is not in the message."""
    good = pa.record_batch([array.slice(0, 1)], names=["v"])
    fit = plan_fit(good.schema, (("v", kind),))
    fit.convert(good)
    with pytest.raises(DponeError) as caught:
        fit.convert(pa.record_batch([array], names=["v"]))
    assert caught.value.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert problem in caught.value.message
    assert "Column v, row 3" in caught.value.message
    assert caught.value.context["row"] == 3
    bad = array[1].as_py()
    if isinstance(bad, str) and len(bad) > 1:
        assert bad not in str(caught.value)


NO_WAY: list[tuple[pa.DataType, str]] = [
    (pa.int64(), "String"),
    (pa.float64(), "Decimal(9, 2)"),
    (pa.decimal128(9, 2), "Float64"),
    (pa.int64(), "DateTime"),
    (pa.int64(), "Date"),
    (pa.timestamp("s"), "DateTime('Europe/Berlin')"),
    (pa.timestamp("s", "Europe/Berlin"), "Date"),
    (pa.duration("s"), "Int64"),
    (pa.list_(pa.int8()), "String"),
    (pa.uuid(), "String"),
    (pa.string(), "Array(String)"),
    (pa.struct([("a", pa.int8())]), "Tuple(b Int8)"),
    (pa.binary(), "Int8"),
]


@pytest.mark.parametrize(("source", "kind"), NO_WAY, ids=[f"{kind}<-{source}" for source, kind in NO_WAY])
def test_types_without_an_exact_way_are_refused_before_anything_is_read(source: pa.DataType, kind: str) -> None:
    with pytest.raises(DponeError, match="Column v cannot be stored") as caught:
        plan_fit(pa.schema([("v", source)]), (("v", kind),))
    assert caught.value.code == "DPONE_SOURCE_VALUE_REFUSED"


def test_equal_types_pass_through_without_a_copy() -> None:
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["a", "b"])], names=["n", "s"])
    converted = plan_fit(batch.schema, (("n", "Int64"), ("s", "String"))).convert(batch)
    for index in range(2):
        assert [buffer and buffer.address for buffer in converted.column(index).buffers()] == [
            buffer and buffer.address for buffer in batch.column(index).buffers()
        ]


def test_names_are_checked_both_ways() -> None:
    schema = pa.schema([("a", pa.int8()), ("extra", pa.int8())])
    with pytest.raises(DponeError) as caught:
        plan_fit(schema, (("a", "Int8"), ("lacking", "Int8")))
    assert caught.value.code == "DPONE_SOURCE_COLUMN_UNKNOWN"
    assert "not in the target: extra" in caught.value.message
    assert "not in the source: lacking" in caught.value.message


def test_two_columns_of_one_name_are_refused() -> None:
    schema = pa.schema([("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(DponeError, match="different names: a"):
        derive_columns(schema, required=frozenset())


def test_an_unknown_type_is_refused_by_column() -> None:
    with pytest.raises(DponeError, match="Column a: its type is of type INT, which is not supported") as caught:
        plan_fit(pa.schema([("a", pa.int8())]), (("a", "INT"),))
    assert caught.value.code == "DPONE_COLUMN_TYPE_UNSUPPORTED"


def test_a_clock_reading_is_refused_for_a_column_with_a_zone_of_its_own() -> None:
    batch = pa.record_batch([pa.array([None, "2024-01-01 00:00:00"])], names=["v"])
    with pytest.raises(DponeError, match="row 2: a time without a zone offset, ambiguous"):
        plan_fit(batch.schema, (("v", "Nullable(DateTime('Europe/Berlin'))"),)).convert(batch)


def test_derived_types_hold_what_arrow_holds() -> None:
    schema = pa.schema(
        [
            pa.field("key", pa.int64()),
            pa.field("u", pa.uint8(), nullable=False),
            pa.field("f", pa.float16()),
            pa.field("s", pa.string()),
            pa.field("c", pa.dictionary(pa.int8(), pa.string())),
            pa.field("x", pa.binary(3)),
            pa.field("d", pa.date32()),
            pa.field("t", pa.timestamp("us")),
            pa.field("z", pa.timestamp("ms", "Europe/Berlin"), nullable=False),
            pa.field("o", pa.timestamp("s", "+01:00"), nullable=False),
            pa.field("m", pa.decimal128(10, 3)),
            pa.field("l", pa.list_(pa.int8())),
            pa.field("n", pa.null()),
            pa.field("i", pa.uuid()),
            pa.field("h", pa.time64("us")),
            pa.field("p", pa.struct([pa.field("q", pa.int8(), nullable=False)])),
        ]
    )
    assert dict(derive_columns(schema, required=frozenset({"key"}))) == {
        "key": "Int64",
        "u": "UInt8",
        "f": "Nullable(Float32)",
        "s": "Nullable(String)",
        "c": "LowCardinality(Nullable(String))",
        "x": "Nullable(FixedString(3))",
        "d": "Nullable(Date32)",
        "t": "Nullable(DateTime64(6, 'UTC'))",
        "z": "DateTime64(3, 'Europe/Berlin')",
        "o": "DateTime64(0, 'UTC')",
        "m": "Nullable(Decimal(10, 3))",
        "l": "Array(Nullable(Int8))",
        "n": "Nullable(String)",
        "i": "Nullable(UUID)",
        "h": "Nullable(Time64(6))",
        "p": "Tuple(q Int8)",
    }


def test_a_null_behind_good_batches_tears_the_insert_and_no_default_is_stored(
    endpoint: Endpoint, database: str, sql: Any, wire: DirectWire
) -> None:
    """B12: NULL into a non-Nullable column with DEFAULT 42, on the real server."""
    sql(f"CREATE TABLE {database}.v (v Int32 DEFAULT 42) ENGINE = MergeTree ORDER BY tuple()")
    batches = [pa.record_batch([pa.array(values, pa.int32())], names=["v"]) for values in ([1, 2], [3, None])]
    fit = plan_fit(batches[0].schema, (("v", "Int32"),))
    with pytest.raises(DponeError, match="Column v, row 4: NULL in a column that is not Nullable"):
        insert_stream(
            endpoint,
            database=database,
            table="v",
            columns=("v",),
            schema=fit.wire_schema,
            batches=map(fit.convert, batches),
            wire=wire,
        )
    assert sql(f"SELECT count() FROM {database}.v") == [(0,)]
