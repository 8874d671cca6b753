"""Reading by cursor: what is above the mark, each row once, and nothing that has no place in an order."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import ClickHouseSource, FileSource, TableRef
from dpone_provider.sources.cursor import CursorMark, CursorReader
from dpone_provider.sources.mark import MAX_MARK
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.wire import DirectWire
from tests.wirelab import TcpProxy

Read = tuple[list[Any], str | None]


def drained(source: OpenSource, column: str) -> Read:
    """The values of a column, and the mark afterwards."""
    with source:
        found = [value for batch in source.batches() for value in batch.column(column).to_pylist()]
        assert len(found) == source.rows
        return found, source.mark


def asked(endpoint: Endpoint, query: str, value: str | None = None, column: str = "c") -> Read:
    spec = ClickHouseSource(connection_ref="c", query=query)
    after = CursorMark(column=column, value=value)
    return drained(open_source(spec, endpoint, wire=DirectWire(), after=after), column)


def filed(path: Path, value: str | None = None, columns: Any = (), column: str = "c") -> Read:
    spec = FileSource(format=path.suffix[1:], path=str(path))  # type: ignore[arg-type]
    after = CursorMark(column=column, value=value)
    return drained(open_source(spec, None, wire=DirectWire(), columns=columns, after=after), column)


def table(path: Path, array: pa.Array) -> Path:
    pq.write_table(pa.table({"c": array}), path / "f.parquet")
    return path / "f.parquet"


def refusal(read: Any) -> DponeError:
    with pytest.raises(DponeError) as caught:
        read()
    return caught.value


KINDS = {
    "Int8": ("-128", "127", "number:-128", "number:127"),
    "UInt64": ("0", "18446744073709551615", "number:0", "number:18446744073709551615"),
    "Decimal(9, 2)": ("'-1.50'", "'12.34'", "number:-1.50", "number:12.34"),
    "Decimal(50, 3)": ("'1'", "'99999999999999999999999999999999999.001'", "number:1.000", None),
    "Date": ("'1970-01-02'", "'2149-06-06'", "date:1970-01-02", "date:2149-06-06"),
    "Date32": ("'1900-01-01'", "'2299-12-31'", "date:1900-01-01", "date:2299-12-31"),
    "DateTime": ("1", "4294967295", "datetime:1970-01-01T00:00:01", "datetime:2106-02-07T06:28:15"),
    "DateTime('Asia/Tokyo')": ("1", "2", "datetime:1970-01-01T00:00:01", "datetime:1970-01-01T00:00:02"),
    "DateTime64(3, 'America/Lima')": ("'1969-12-31 18:59:59.999'", "'2024-01-01 00:00:00'", None, None),
    "DateTime64(1)": ("'2024-01-01 00:00:00.1'", "'2024-01-01 00:00:00.2'", None, None),
    "DateTime64(9, 'UTC')": (
        "'1900-01-01 00:00:00.000000001'",
        "'2262-04-11 23:47:16.854775807'",
        "datetime:1900-01-01T00:00:00.000000001",
        "datetime:2262-04-11T23:47:16.854775807",
    ),
    "String": ("''", "'\\0a'", "text:", "text:\0a"),
    "LowCardinality(String)": ("'Z'", "'a'", "text:Z", "text:a"),
    "Nullable(Int32)": ("-5", "7", "number:-5", "number:7"),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_table_is_read_from_mark_to_mark(endpoint: Endpoint, database: str, sql: Any, kind: str) -> None:
    low, high, low_mark, high_mark = KINDS[kind]
    sql(f"CREATE TABLE {database}.t (c {kind}) ENGINE = MergeTree ORDER BY tuple()")
    spec = ClickHouseSource(connection_ref="c", table=TableRef(database=database, name="t"))

    def read(value: str | None) -> Read:
        after = CursorMark(column="c", value=value)
        return drained(open_source(spec, endpoint, wire=DirectWire(), after=after), "c")

    assert read(None) == ([], None)
    sql(f"INSERT INTO {database}.t VALUES ({low})")
    first, mark = read(None)
    assert len(first) == 1
    assert mark is not None
    assert mark == low_mark or low_mark is None
    assert read(mark) == ([], mark)
    sql(f"INSERT INTO {database}.t VALUES ({high})")
    second, moved = read(mark)
    assert len(second) == 1
    assert second != first
    assert moved == high_mark or high_mark is None
    assert read(moved) == ([], moved)
    assert len(read(None)[0]) == 2


def test_the_server_is_asked_only_for_what_is_new(endpoint: Endpoint, http: TcpProxy, proxied: Endpoint) -> None:
    rows, mark = asked(proxied, "SELECT number AS c FROM numbers(10) -- the end", "number:7")
    assert (rows, mark) == ([8, 9], "number:9")
    assert http.seen(b"WHERE dpone_s.`c` > CAST('7' AS UInt64)") == 1


@pytest.mark.parametrize(
    ("array", "below", "mark", "rest"),
    [
        (pa.array([3, 1, 2]), "number:2", "number:3", [3]),
        (pa.array([Decimal("1.10"), Decimal("1.2")], pa.decimal128(9, 2)), "number:1.1", "number:1.20", None),
        (pa.array([date(2024, 2, 29), date(2024, 3, 1)]), "date:2024-02-29", "date:2024-03-01", None),
        (pa.array([date(2024, 2, 29), date(2024, 3, 1)], pa.date64()), "date:2024-02-29", "date:2024-03-01", None),
        (
            pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1)], pa.timestamp("us")),
            "local:2024-01-01T00:00:00",
            "local:2024-01-01T00:00:00.000001",
            None,
        ),
        (
            pa.array([datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)], pa.timestamp("s", "UTC")),
            "datetime:2024-01-01T00:00:00.000000000",
            "datetime:2024-01-02T00:00:00.000",
            None,
        ),
        (pa.array(["b", "a", "é"]), "text:a", "text:é", ["b", "é"]),
        (pa.array(["b", "a"]).dictionary_encode(), "text:a", "text:b", ["b"]),
    ],
    ids=["integer", "decimal", "date", "date64", "naive", "instant", "text", "dictionary"],
)
def test_a_file_is_filtered_by_the_mark(tmp_path: Path, array: pa.Array, below: str, mark: str, rest: Any) -> None:
    path = table(tmp_path, array)
    whole, first = filed(path)
    assert (len(whole), first) == (len(array), mark)
    above, again = filed(path, below)
    assert again == mark
    assert above == (rest or array.to_pylist()[1:])
    assert filed(path, mark) == ([], mark)


@pytest.mark.parametrize(
    ("zone", "mark"), [("UTC", "local:2024-01-01T00:00:00"), (None, "datetime:2024-01-01T00:00:00")]
)
def test_a_column_that_got_or_lost_its_time_zone_is_another_one(tmp_path: Path, zone: str | None, mark: str) -> None:
    """Its clock was shifted by hours: rows written since the mark may stand below it now."""
    path = table(tmp_path, pa.array([datetime(2023, 12, 31, 23)], pa.timestamp("us", zone)))
    assert refusal(lambda: filed(path, mark)).code == "DPONE_SOURCE_STATE_UNCERTAIN"


def test_rows_equal_to_the_mark_are_not_read_again(tmp_path: Path) -> None:
    path = table(tmp_path, pa.array([5, 5, 6, 5]))
    assert filed(path, "number:5") == ([6], "number:6")


def test_the_mark_is_the_highest_of_all_batches_and_files(tmp_path: Path) -> None:
    for name, values in {"a": [9, 1], "b": [4, 2], "c": []}.items():
        pq.write_table(pa.table({"c": pa.array(values, pa.int64())}), tmp_path / f"{name}.parquet")
    assert filed(tmp_path / "*.parquet", "number:1") == ([9, 4, 2], "number:9")


def test_how_many_rows_there_will_be_is_known_only_without_a_mark(tmp_path: Path) -> None:
    spec = FileSource(format="parquet", path=str(table(tmp_path, pa.array([1, 2]))))
    for value, total in ((None, 2), ("number:1", None)):
        after = CursorMark(column="c", value=value)
        with open_source(spec, None, wire=DirectWire(), after=after) as source:
            assert [source.total_rows for _ in source.batches()] == [total]


def test_text_of_a_declared_moment_is_compared_as_the_moment(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("c\n2024-01-01T01:00:00+02:00\n2023-12-31T23:30:00+00:00\n")
    kind = (("c", "DateTime64(3)"),)
    _, mark = filed(path, None, kind)
    assert mark == "datetime:2023-12-31T23:30:00.000"
    above, _ = filed(path, "datetime:2023-12-31T23:00:00.000", kind)
    assert above == ["2023-12-31T23:30:00+00:00"]


def test_an_empty_source_keeps_the_mark(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("c\n")
    assert filed(tmp_path / "f.csv", "text:k", (("c", "String"),)) == ([], "text:k")
    assert filed(tmp_path / "f.csv") == ([], None)
    assert filed(tmp_path / "f.csv", "number:5") == ([], "number:5"), "an empty file does not say its types"


# -- what has no place in an order ---


@pytest.mark.parametrize("value", [None, "number:1"])
def test_null_is_refused_with_its_column_never_left_behind(endpoint: Endpoint, tmp_path: Path, value: Any) -> None:
    query = "SELECT arrayJoin([1, 2, NULL]) AS c"
    path = table(tmp_path, pa.array([1, 2, None]))
    for error in (refusal(lambda: asked(endpoint, query, value)), refusal(lambda: filed(path, value))):
        assert error.code == "DPONE_SOURCE_INVALID"
        assert "Cursor column c holds NULL" in error.message


@pytest.mark.parametrize(
    "expression",
    [
        "toFloat64(1)",
        "toFloat32(1)",
        "true",
        "generateUUIDv4()",
        "CAST('a' AS Enum8('a' = 1))",
        "toIPv4('1.2.3.4')",
        "toInt128(1)",
        "toFixedString('a', 2)",
        "[1]",
        "(1, 2)",
    ],
)
def test_a_type_of_the_server_without_an_exact_order_is_refused(endpoint: Endpoint, expression: str) -> None:
    error = refusal(lambda: asked(endpoint, f"SELECT {expression} AS c"))
    assert error.code == "DPONE_SOURCE_INVALID"
    assert "Cursor column c is of a type without an exact order" in error.message


@pytest.mark.parametrize(
    "array", [pa.array([1.5]), pa.array([True]), pa.array([b"a"]), pa.array([[1]]), pa.array([{"a": 1}])]
)
def test_a_type_of_a_file_without_an_exact_order_is_refused(tmp_path: Path, array: pa.Array) -> None:
    error = refusal(lambda: filed(table(tmp_path, array)))
    assert "Cursor column c is of a type without an exact order" in error.message


@pytest.mark.parametrize("value", [None, "number:1"])
def test_a_missing_column_is_named(endpoint: Endpoint, tmp_path: Path, value: Any) -> None:
    path = table(tmp_path, pa.array([1]))
    for error in (
        refusal(lambda: asked(endpoint, "SELECT 1 AS c", value, "d")),
        refusal(lambda: filed(path, value, column="d")),
    ):
        assert error.code == "DPONE_SOURCE_COLUMN_UNKNOWN"
        assert "Cursor column d " in error.message


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("UInt8", "number:256"),
        ("UInt8", "number:-1"),
        ("Int64", "number:1.5"),
        ("Decimal(9, 2)", "number:1.001"),
        ("Int64", "text:1"),
        ("String", "number:1"),
        ("Date", "datetime:2024-01-01T00:00:00"),
        ("DateTime", "datetime:2024-01-01T00:00:00.001"),
        ("DateTime64(9)", "datetime:2300-01-01T00:00:00.000000000"),
        ("DateTime", "datetime:2024-02-30T00:00:00"),
        ("Date", "date:2024-02-30"),
    ],
)
def test_a_mark_that_is_no_value_of_the_column_stops_the_load(endpoint: Endpoint, kind: str, value: str) -> None:
    error = refusal(lambda: asked(endpoint, f"SELECT defaultValueOfTypeName('{kind}') AS c", value))
    assert error.code == "DPONE_SOURCE_STATE_UNCERTAIN"
    assert "Cursor column c changed its type" in error.message


@pytest.mark.parametrize("value", ["", "7", "number:", "number:1e3", "number:1 OR 1", "float:1.0", "date:20240101"])
def test_text_that_is_no_mark_is_refused(value: str) -> None:
    assert refusal(lambda: CursorMark(column="c", value=value).parts).code == "DPONE_SOURCE_STATE_UNCERTAIN"


def test_a_value_that_no_mark_can_keep_is_refused_before_it_is_handed_out(endpoint: Endpoint) -> None:
    for expression in (f"repeat('x', {MAX_MARK})", "unhex('ff')"):
        error = refusal(lambda expression=expression: asked(endpoint, f"SELECT {expression} AS c"))
        assert error.code == "DPONE_SOURCE_VALUE_REFUSED"
        assert "Cursor column c" in error.message


def test_a_declared_moment_that_cannot_be_read_is_named_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("c\n2024-01-01 00:00:00\nnever\n")
    error = refusal(lambda: filed(tmp_path / "f.csv", None, (("c", "DateTime"),)))
    assert (error.code, "in row 2" in error.message) == ("DPONE_SOURCE_VALUE_REFUSED", True)
    assert "never" not in str(error)


# -- marks and values ---

SLOW_START = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
HOSTILE = "a'b\\c\"d`e\0\n\r\t é 😀 {x:String} ;-- /* \\' \\\\' ') OR 1=1 --"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_START)
@given(values=st.lists(texts, min_size=1, max_size=6), mark=texts)
@example(values=[HOSTILE, HOSTILE + "a", "~"], mark=HOSTILE)
@example(values=["1", "2"], mark="' OR 1=1 --")
def test_hostile_text_filters_on_the_server_as_bytes_do(endpoint: Endpoint, values: list[str], mark: str) -> None:
    words = ", ".join("unhex('" + value.encode().hex() + "')" for value in values)
    rows, moved = asked(endpoint, f"SELECT arrayJoin([{words}]) AS c", f"text:{mark}")
    above = [value for value in values if value.encode() > mark.encode()]
    assert rows == above
    assert moved == "text:" + max([mark, *above], key=str.encode)


instants = st.integers(-(2**63) + 1, 2**63 - 1)
CASES = {
    "integer": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "ns": (pa.timestamp("ns"), instants),
    "us": (pa.timestamp("us", "UTC"), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
    "date": (pa.date32(), st.dates()),
}


@pytest.mark.parametrize("case", list(CASES))
@settings(deadline=None, suppress_health_check=SLOW_START)
@given(data=st.data())
def test_a_mark_splits_any_values_exactly(case: str, data: st.DataObject) -> None:
    kind, values = CASES[case]
    array = pa.array(data.draw(st.lists(values, min_size=1, max_size=8)), kind)
    schema = pa.schema([("c", kind)])
    first = CursorReader(CursorMark(column="c"), schema, {})
    first.take(pa.record_batch([array[:1]], schema=schema))
    second = CursorReader(CursorMark(column="c", value=first.value), schema, {})
    kept = second.take(pa.record_batch([array], schema=schema)).column(0)
    ticks = pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind
    known = array.cast(ticks).to_pylist()
    assert kept.cast(ticks).to_pylist() == [value for value in known if value > known[0]]
    third = CursorReader(CursorMark(column="c", value=second.value), schema, {})
    assert third.take(pa.record_batch([array], schema=schema)).num_rows == 0


def test_a_bound_is_what_a_query_of_another_database_takes() -> None:
    bounds = {
        "number:7": 7,
        "number:7.50": Decimal("7.50"),
        "date:2024-02-29": date(2024, 2, 29),
        "datetime:2024-01-01T00:00:00": datetime(2024, 1, 1),
        "local:2024-01-01T00:00:00.001": datetime(2024, 1, 1, 0, 0, 0, 1000),
        "datetime:2024-01-01T00:00:00.123456789": datetime(2024, 1, 1, 0, 0, 0, 123456),
        "text:number:7": "number:7",
    }
    assert {value: CursorMark(column="c", value=value).bound for value in bounds} == bounds
    assert CursorMark(column="c").bound is None
