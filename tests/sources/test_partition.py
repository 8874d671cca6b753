"""A source in partitions: planned out of what it holds, each row in exactly one, the same ones for a retry."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.native.partition import FilePart, OneOf, Span
from dpone_provider.sources.part import PartReader
from tests.sandbox_fixture import Sql
from tests.sources.parting import by_part, each_row_once, planned, read, refusal, split

PROPERTY = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS: dict[str, st.SearchStrategy[str]] = {
    "Int8": st.integers(-(2**7), 2**7 - 1).map(str),
    "UInt16": st.integers(0, 2**16 - 1).map(str),
    "Int64": st.integers(-(2**63), 2**63 - 1).map(str),
    "UInt64": st.integers(0, 2**64 - 1).map(str),
    "Nullable(Int32)": st.integers(-(2**31), 2**31 - 1).map(str),
    "Date": st.dates(date(1970, 1, 1), date(2149, 6, 6)).map(str),
    "Nullable(Date32)": st.dates(date(1900, 1, 1), date(2299, 12, 31)).map(str),
    "DateTime('Asia/Kathmandu')": st.datetimes(datetime(1971, 1, 1), datetime(2105, 1, 1)).map(
        lambda moment: str(moment.replace(microsecond=0))
    ),
    "DateTime64(3)": st.datetimes(datetime(1901, 1, 1), datetime(2261, 1, 1)).map(lambda moment: str(moment)[:23]),
}


def queried(query: str) -> dict[str, Any]:
    return {"type": "clickhouse", "query": query}


def listed(kind: str, values: list[str]) -> str:
    """A query of these values, numbered."""
    rows = ", ".join(f"({number}, {value!r})" for number, value in enumerate(values))
    return f"SELECT i, CAST(t AS {kind}) AS c FROM values('i UInt32, t String', {rows})"


@pytest.mark.contract("N1")
@pytest.mark.parametrize("kind", KINDS)
@PROPERTY
@given(data=st.data())
def test_the_spans_of_a_column_are_the_whole_query_and_each_row_is_in_one(
    endpoint: Endpoint, kind: str, data: st.DataObject
) -> None:
    values = data.draw(st.lists(KINDS[kind], min_size=1, max_size=12))
    bounds = [value[:10] if "Date" in kind else int(value) for value in data.draw(st.lists(KINDS[kind], min_size=1))]
    query = queried(listed(kind, values))
    spec = split(query, {"range": {"column": "c", "bounds": sorted(set(bounds), key=lambda cut: (str(cut), cut)[-1])}})
    assert each_row_once(spec, endpoint)
    wide = {"range": {"column": "c", "size": 20_000 if "Date" in kind else 2**61 if "64" in kind else 2**29}}
    assert each_row_once(split(query, wide), endpoint)


@pytest.mark.contract("N1")
@PROPERTY
@given(st.lists(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=5).filter(str.strip), min_size=1))
def test_the_values_of_a_list_are_the_whole_query_whatever_the_text(endpoint: Endpoint, texts: list[str]) -> None:
    texts = [text for text in texts if "{{" not in text and "{%" not in text and "${" not in text] or ["a"]
    query = f"SELECT arrayJoin([{', '.join(_literal(text) for text in texts)}]) AS c"
    spec = split(queried(query), {"list": {"column": "c", "values": list(dict.fromkeys(texts))}})
    assert each_row_once(spec, endpoint)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_a_partition_reads_exactly_the_rows_of_its_condition(endpoint: Endpoint) -> None:
    query = queried("SELECT toInt64(number) - 7 AS c FROM numbers(20)")
    spec = split(query, {"range": {"column": "c", "size": 5}})
    assert by_part(spec, endpoint) == [
        (Span(column="c", low=str(low), high=str(low + 5), kind="integer"), rows)
        for low, rows in (
            (-10, [(number,) for number in range(-7, -5)]),
            *((low, [(number,) for number in range(low, low + 5)]) for low in (-5, 0, 5)),
            (10, [(10,), (11,), (12,)]),
        )
    ]
    numbers = split(query, {"list": {"column": "c", "values": [3, -7, 99]}}, strategy={"mode": "partition_replace"})
    assert [rows for _, rows in by_part(numbers, endpoint)] == [[(3,)], [(-7,)], []]


def test_days_are_cut_at_midnight_in_utc_and_outer_bounds_are_open(endpoint: Endpoint) -> None:
    moments = ["2025-12-31 23:59:59", "2026-01-01 00:00:00", "2026-01-31 12:00:00", "2026-02-01 00:00:00"]
    query = queried(f"SELECT toDateTime(arrayJoin({moments}), 'UTC') AS c")
    spec = split(query, {"range": {"column": "c", "bounds": ["2026-01-01", "2026-02-01"]}})
    assert [len(rows) for _, rows in by_part(spec, endpoint)] == [1, 2, 1]
    daily = [part for part, _ in by_part(split(query, {"range": {"column": "c", "size": 31}}), endpoint)]
    assert all(isinstance(part, Span) and part.kind == "date" for part in daily)


def test_a_table_is_read_by_values_of_an_enum_or_a_day(endpoint: Endpoint, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.t (d Date, e Enum8('a' = 1, 'b' = 2)) ENGINE = MergeTree ORDER BY d")
    sql(f"INSERT INTO {database}.t VALUES ('2026-01-01', 'a'), ('2026-01-02', 'b'), ('2026-01-02', 'a')")
    table = {"type": "clickhouse", "table": {"schema": database, "name": "t"}}
    days = split(table, {"list": {"column": "d", "values": ["2026-01-02", "2026-01-01"]}})
    assert [(part, len(rows)) for part, rows in by_part(days, endpoint)] == [
        (OneOf(column="d", value="2026-01-02", kind="date"), 2),
        (OneOf(column="d", value="2026-01-01", kind="date"), 1),
    ]
    assert each_row_once(split(table, {"list": {"column": "e", "values": ["a", "b"]}}), endpoint)


@pytest.mark.parametrize(
    ("query", "parts", "code", "words"),
    [
        ("SELECT NULL::Nullable(Int32) AS c", {"range": {"column": "c", "size": 1}}, "DPONE_SOURCE_INVALID", "NULL"),
        (
            "SELECT arrayJoin([1, NULL]) AS c",
            {"list": {"column": "c", "values": [1]}},
            "DPONE_SOURCE_INVALID",
            "holds NULL",
        ),
        ("SELECT 1 AS d", {"range": {"column": "c", "size": 1}}, "DPONE_SOURCE_COLUMN_UNKNOWN", "not exactly once"),
        ("SELECT 1.5 AS c", {"range": {"column": "c", "size": 1}}, "DPONE_PARTITIONS", "type"),
        ("SELECT 'a' AS c", {"range": {"column": "c", "size": 1}}, "DPONE_PARTITIONS", "text"),
        ("SELECT 1 AS c", {"range": {"column": "c", "bounds": ["2026-01-01"]}}, "DPONE_PARTITIONS", "whole numbers"),
        ("SELECT today() AS c", {"range": {"column": "c", "bounds": [1]}}, "DPONE_PARTITIONS", "dates"),
        ("SELECT 1 AS c", {"list": {"column": "c", "values": ["1"]}}, "DPONE_PARTITIONS", "whole numbers"),
        ("SELECT today() AS c", {"list": {"column": "c", "values": ["today"]}}, "DPONE_PARTITIONS", "dates"),
        ("SELECT now() AS c", {"list": {"column": "c", "values": ["2026-01-01"]}}, "DPONE_PARTITIONS", "moments"),
        (
            "SELECT number AS c FROM numbers(3)",
            {"list": {"column": "c", "values": [0, 1]}},
            "DPONE_PARTITIONS",
            "listed",
        ),
        ("SELECT number AS c FROM numbers(1001)", {"range": {"column": "c", "size": 1}}, "DPONE_PARTITIONS", "1001"),
    ],
)
def test_what_cannot_be_split_is_refused(
    endpoint: Endpoint, query: str, parts: dict[str, Any], code: str, words: str
) -> None:
    error = refusal(split(queried(query), parts), endpoint)
    assert (error.code, words in error.message) == (code, True), error.message
    assert query not in str(error)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (Span(column="w", low="1", high=None, kind="integer"), "DPONE_SOURCE_INVALID"),
        (Span(column="n", low="2026-01-01", high=None, kind="date"), "DPONE_SOURCE_INVALID"),
        (Span(column="t", low="1", high=None, kind="integer"), "DPONE_SOURCE_INVALID"),
        (Span(column="h", low="1", high=None, kind="integer"), "DPONE_SOURCE_INVALID"),
        (OneOf(column="n", value="1", kind="text"), "DPONE_SOURCE_INVALID"),
        (OneOf(column="other", value="1", kind="text"), "DPONE_SOURCE_COLUMN_UNKNOWN"),
    ],
)
def test_a_part_that_is_none_of_the_column_is_refused(endpoint: Endpoint, part: Any, code: str) -> None:
    query = queried("SELECT 'x' AS w, 1 AS n, now() AS t, toInt256(1) AS h")
    with pytest.raises(DponeError) as caught:
        read(split(query, {"range": {"column": "n", "size": 1}}), endpoint, part)
    assert caught.value.code == code


def test_no_row_makes_no_span_by_size_and_every_span_and_value_that_is_written(endpoint: Endpoint) -> None:
    empty = queried("SELECT number AS c FROM numbers(0)")
    assert planned(split(empty, {"range": {"column": "c", "size": 5}}), endpoint) == ()
    assert len(planned(split(empty, {"range": {"column": "c", "bounds": [1, 2]}}), endpoint)) == 3
    assert len(planned(split(empty, {"list": {"column": "c", "values": [1, 2]}}), endpoint)) == 2


@pytest.mark.contract("N1")
def test_a_retry_finds_the_same_partitions_and_another_load_finds_none_of_them(endpoint: Endpoint) -> None:
    def ids(query: str = "SELECT 1 AS c, 2 AS d", column: str = "c", size: int = 5, **sink: Any) -> set[str]:
        spec = split(queried(query), {"range": {"column": column, "size": size}}, **sink)
        return {each.partition_id for each in planned(spec, endpoint)}

    first = ids()
    assert ids() == first
    for other in (
        ids("SELECT 1 AS c, 2 AS d "),
        ids("SELECT 1 AS c, 2.5 AS d"),
        ids(column="d"),
        ids(size=6),
        ids(table={"schema": "d", "name": "u"}),
        ids(columns={"c": "UInt64"}),
        ids(strategy={"mode": "partition_replace"}),
    ):
        assert not first & other
    more = split(queried("SELECT 1 AS c, 2 AS d"), {"range": {"column": "c", "size": 5}, "workers": 9})
    assert {each.partition_id for each in planned(more, endpoint)} == first


def test_new_rows_leave_the_partitions_of_the_others_as_they_are(endpoint: Endpoint, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.t (c Int64) ENGINE = MergeTree ORDER BY c")
    sql(f"INSERT INTO {database}.t SELECT number FROM numbers(100, 100)")
    spec = split(
        {"type": "clickhouse", "table": {"schema": database, "name": "t"}}, {"range": {"column": "c", "size": 30}}
    )
    before = planned(spec, endpoint)
    sql(f"INSERT INTO {database}.t SELECT number FROM numbers(1000)")
    assert set(before) < set(planned(spec, endpoint))


@pytest.mark.parametrize("name", ["low", "n", "v", "q", "dpone_s", "c`d", 'e"f', "*"])
def test_a_column_may_be_called_as_the_questions_call_theirs(endpoint: Endpoint, name: str) -> None:
    query = queried(f"SELECT toInt64(number) AS {quote.identifier(name)}, 1 AS other FROM numbers(10)")
    assert each_row_once(split(query, {"range": {"column": name, "size": 3}}), endpoint)
    assert each_row_once(split(query, {"list": {"column": name, "values": list(range(10))}}), endpoint)


# -- files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """Three Parquet files of different length."""
    for number in range(3):
        values = pa.array(range(number * 10, number * 10 + number + 1))
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": values}), tmp_path / "in" / f"{2 - number}.parquet")
    return tmp_path


FILES = {"type": "file", "format": "parquet", "path": "in/*.parquet"}


def test_every_file_is_a_partition_in_sorted_order(exports: Path) -> None:
    spec = split(FILES, {"file": True}, base=str(exports))
    assert by_part(spec, None) == [
        (FilePart(path="in/0.parquet"), [(20,), (21,), (22,)]),
        (FilePart(path="in/1.parquet"), [(10,), (11,)]),
        (FilePart(path="in/2.parquet"), [(0,)]),
    ]
    assert each_row_once(spec, None)


@pytest.mark.contract("N1", "I3")
def test_the_partitions_of_files_do_not_depend_on_where_the_manifest_lies(exports: Path, tmp_path: Path) -> None:
    here = planned(split(FILES, {"file": True}, base=str(exports)), None)
    moved = tmp_path / "elsewhere"
    (exports / "in").rename(moved)
    moved.mkdir(exist_ok=True)
    (tmp_path / "other").mkdir()
    moved.rename(tmp_path / "other" / "in")
    there = planned(split(FILES, {"file": True}, base=str(tmp_path / "other")), None)
    assert here == there


def test_files_of_a_url_are_partitions(tmp_path: Path) -> None:
    for name in ("b", "a"):
        with fsspec.open(f"memory://parts/{name}.csv", "w") as file:
            file.write(f"id\n{name}\n")
    spec = split({"type": "file", "format": "csv", "path": "memory://parts/*.csv"}, {"file": True})
    assert [rows for _, rows in by_part(spec, None)] == [[("a",)], [("b",)]]


def test_a_file_that_is_gone_is_told_without_its_folder(exports: Path) -> None:
    spec = split(FILES, {"file": True}, base=str(exports))
    part = planned(spec, None)[0].part
    (exports / "in" / "0.parquet").unlink()
    with pytest.raises(DponeError) as caught:
        read(spec, None, part)
    assert caught.value.code == "DPONE_SOURCE_NOT_FOUND"
    assert str(exports) not in str(caught.value)


def test_no_file_is_no_partition(tmp_path: Path) -> None:
    assert refusal(split(FILES, {"file": True}, base=str(tmp_path)), None).code == "DPONE_SOURCE_NOT_FOUND"


# -- what lets nothing else through ------------------------------------------------------------------------------

SPAN = Span(column="c", low="-5", high="5", kind="integer")
DAYS = Span(column="c", low="2026-01-01", high=None, kind="date")
TEXT = OneOf(column="c", value="a", kind="text")
NEW_YEAR = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("part", "values", "passes"),
    [
        (SPAN, pa.array([-5, 4], pa.int8()), True),
        (SPAN, pa.array([], pa.int64()), True),
        (SPAN, pa.array([None, None], pa.null()), False),
        (SPAN, pa.array([4, 5], pa.int16()), False),
        (SPAN, pa.array([-6]), False),
        (SPAN, pa.array([1, None]), False),
        (SPAN, pa.array([date(2026, 1, 1)]), False),
        (attrs.evolve(SPAN, high=None), pa.array([2**64 - 1], pa.uint64()), True),
        (DAYS, pa.array([NEW_YEAR], pa.timestamp("ns")), True),
        (DAYS, pa.array([NEW_YEAR - timedelta(microseconds=1)], pa.timestamp("us", "Asia/Kathmandu")), False),
        (DAYS, pa.array([date(2025, 12, 31)]), False),
        (DAYS, pa.array(["2026-01-01", "2026-01-01 10:00"]), True),
        (DAYS, pa.array(["2025-12-31 23:59"]), False),
        (TEXT, pa.array(["a", "a"]).dictionary_encode(), True),
        (TEXT, pa.array(["a", "A"]), False),
        (TEXT, pa.array(["a "]), False),
        (OneOf(column="c", value="-7", kind="integer"), pa.array([-7]), True),
        (OneOf(column="c", value="-7", kind="integer"), pa.array([-7, -8]), False),
        (OneOf(column="c", value="2026-01-01", kind="date"), pa.array([date(2026, 1, 1)]), True),
    ],
)
def test_a_row_of_another_partition_ends_the_load(part: Any, values: pa.Array, passes: bool) -> None:
    batch = pa.record_batch([values], names=["c"])
    reader = PartReader(part, batch.schema)
    if passes:
        assert reader.take(batch) is batch
        return
    with pytest.raises(DponeError) as caught:
        reader.take(batch)
    assert caught.value.code == "DPONE_SOURCE_INVALID"
