"""A SQL source in partitions: the database finds their rows, by either driver, each row in exactly one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.native.partition import OneOf, Span
from dpone_provider.sources.sql.endpoint import HookEndpoint, SqliteEndpoint
from tests.postgres_fixture import Postgres
from tests.sources.parting import by_part, each_row_once, planned, read, refusal, split

DRIVERS = pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "python"])
PROPERTY = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=6).filter(
    lambda text: bool(text.strip()) and not any(mark in text for mark in ("{{", "{%", "${"))
)
DAYS = st.dates(date(1900, 1, 1), date(2200, 1, 1))
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "date": DAYS,
    "timestamp": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
    "timestamptz": st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
}
TABLE = {"type": "sql", "table": {"name": "t"}}


def queried(query: str) -> dict[str, Any]:
    return {"type": "sql", "query": query}


# -- PostgreSQL --------------------------------------------------------------------------------------------------


@pytest.mark.contract("N1")
@DRIVERS
@pytest.mark.parametrize("kind", KINDS)
@PROPERTY
@given(data=st.data())
def test_the_spans_of_a_column_are_the_whole_query_and_each_row_is_in_one(
    postgres: Postgres, pg_schema: str, kind: str, adbc: bool, data: st.DataObject
) -> None:
    values = data.draw(st.lists(KINDS[kind], min_size=1, max_size=12))
    bounds = data.draw(st.lists(KINDS[kind] if "int" in kind else DAYS, min_size=1, max_size=5))
    rows = ", ".join(f"({number}, %s::{kind})" for number in range(len(values)))
    postgres.sql(f"CREATE TABLE IF NOT EXISTS {pg_schema}.t (i int, c {kind})")
    postgres.sql(f"WITH gone AS (DELETE FROM {pg_schema}.t) INSERT INTO {pg_schema}.t VALUES {rows}", *values)
    table = {"type": "sql", "table": {"schema": pg_schema, "name": "t"}}
    cuts = [cut if isinstance(cut, int) else str(cut) for cut in sorted(set(bounds))]
    endpoint = postgres.endpoint(adbc=adbc)
    assert each_row_once(split(table, {"range": {"column": "c", "bounds": cuts}}), endpoint)
    size = {"int2": 10_000, "int8": 2**61}.get(kind, 20_000)
    assert each_row_once(split(table, {"range": {"column": "c", "size": size}}), endpoint)


@pytest.mark.contract("N1")
@DRIVERS
@PROPERTY
@given(texts=st.lists(TEXT, min_size=1, max_size=6))
def test_the_values_of_a_list_are_the_whole_table_whatever_the_text(
    postgres: Postgres, pg_schema: str, adbc: bool, texts: list[str]
) -> None:
    rows = ", ".join("(%s)" for _ in texts)
    postgres.sql(f"CREATE TABLE IF NOT EXISTS {pg_schema}.t (c text)")
    postgres.sql(f"WITH gone AS (DELETE FROM {pg_schema}.t) INSERT INTO {pg_schema}.t VALUES {rows}", *texts)
    table = {"type": "sql", "table": {"schema": pg_schema, "name": "t"}}
    spec = split(table, {"list": {"column": "c", "values": list(dict.fromkeys(texts))}})
    assert each_row_once(spec, postgres.endpoint(adbc=adbc))


@DRIVERS
def test_a_collation_that_ignores_case_puts_no_row_into_two_partitions(
    postgres: Postgres, pg_schema: str, adbc: bool
) -> None:
    loose = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
    postgres.sql(f"CREATE COLLATION {pg_schema}.loose ({loose})")
    postgres.sql(f"CREATE TABLE {pg_schema}.t (c text COLLATE {pg_schema}.loose)")
    postgres.sql(f"INSERT INTO {pg_schema}.t VALUES ('a'), ('A')")
    table = {"type": "sql", "table": {"schema": pg_schema, "name": "t"}}
    spec = split(table, {"list": {"column": "c", "values": ["a", "A"]}})
    assert [rows for _, rows in by_part(spec, postgres.endpoint(adbc=adbc))] == [[("a",)], [("A",)]]


@DRIVERS
def test_days_are_cut_in_utc_whatever_the_zone_of_the_server(postgres: Postgres, adbc: bool) -> None:
    values = "('2025-12-31 23:59:59Z'::timestamptz), ('2026-01-01 00:00:00Z'), ('2026-01-02 03:00:00+05:45')"
    query = queried(f"SELECT c FROM (VALUES {values}) AS v(c)")
    spec = split(query, {"range": {"column": "c", "bounds": ["2026-01-01"]}})
    assert [len(rows) for _, rows in by_part(spec, postgres.endpoint(adbc=adbc))] == [1, 2]


def test_numbers_days_and_words_are_found_as_what_the_column_has(postgres: Postgres) -> None:
    query = queried("SELECT 7::int8 AS n, '2026-01-01'::date AS d, 'x'::varchar AS w")
    for column, value, kind in (("n", 7, "integer"), ("d", "2026-01-01", "date"), ("w", "x", "text")):
        spec = split(query, {"list": {"column": column, "values": [value]}})
        ((part, rows),) = by_part(spec, postgres.endpoint())
        assert part == OneOf(column=column, value=str(value), kind=kind)  # type: ignore[arg-type]
        assert rows == [(7, date(2026, 1, 1), "x")]


@pytest.mark.parametrize(
    ("query", "parts", "code", "words"),
    [
        ("SELECT NULL::int AS c", {"range": {"column": "c", "size": 1}}, "DPONE_SOURCE_INVALID", "NULL"),
        ("SELECT 1 AS c", {"range": {"column": "d", "size": 1}}, "DPONE_SOURCE_COLUMN_UNKNOWN", "not exactly once"),
        ("SELECT 1 AS c, 2 AS c", {"range": {"column": "c", "size": 1}}, "DPONE_SOURCE_COLUMN_UNKNOWN", "once"),
        ("SELECT 1.5::float8 AS c", {"range": {"column": "c", "size": 1}}, "DPONE_PARTITIONS", "type"),
        ("SELECT 'a'::text AS c", {"range": {"column": "c", "size": 1}}, "DPONE_PARTITIONS", "text"),
        ("SELECT now() AS c", {"list": {"column": "c", "values": ["2026-01-01"]}}, "DPONE_PARTITIONS", "moments"),
        (
            "SELECT generate_series(1, 3) AS c",
            {"list": {"column": "c", "values": [1, 2]}},
            "DPONE_PARTITIONS",
            "listed",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(
    postgres: Postgres, query: str, parts: dict[str, Any], code: str, words: str
) -> None:
    error = refusal(split(queried(query), parts), postgres.endpoint())
    assert (error.code, words in error.message) == (code, True), error.message
    assert postgres.quiet()


def test_a_part_that_is_none_of_the_column_is_refused(postgres: Postgres) -> None:
    spec = split(
        queried("SELECT 'x'::text AS w, '2026-01-01'::date AS d, 1 AS n"), {"range": {"column": "n", "size": 1}}
    )
    for part, code in (
        (Span(column="w", low="1", high=None, kind="integer"), "DPONE_SOURCE_INVALID"),
        (Span(column="d", low="1", high=None, kind="integer"), "DPONE_SOURCE_INVALID"),
        (Span(column="n", low="2026-01-01", high=None, kind="date"), "DPONE_SOURCE_INVALID"),
        (OneOf(column="n", value="1", kind="text"), "DPONE_SOURCE_INVALID"),
        (OneOf(column="other", value="1", kind="text"), "DPONE_SOURCE_COLUMN_UNKNOWN"),
    ):
        with pytest.raises(DponeError) as caught:
            read(spec, postgres.endpoint(), part)
        assert caught.value.code == code
    assert postgres.quiet()


# -- SQLite ------------------------------------------------------------------------------------------------------

File = Callable[..., SqliteEndpoint]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """``file(values, adbc=…)``: a new file with the values as column c of table t, which has no declared types."""

    def make(values: Iterable[Any], *, adbc: bool = True) -> SqliteEndpoint:
        path = tmp_path / "x.db"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (i, c)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        connection.close()
        return SqliteEndpoint(ref="lite", path=str(path), adbc=adbc)

    return make


@pytest.mark.contract("N1")
@DRIVERS
@PROPERTY
@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12),
    bounds=st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5, unique=True),
)
def test_the_spans_of_a_sqlite_column_are_the_whole_table(
    file: File, adbc: bool, values: list[int], bounds: list[int]
) -> None:
    endpoint = file(values, adbc=adbc)
    options = {"options": {"batch_rows": 2}}  # so that ADBC has something to read
    assert each_row_once(split(TABLE | options, {"range": {"column": "c", "bounds": sorted(bounds)}}), endpoint)
    assert each_row_once(split(TABLE, {"range": {"column": "c", "size": 2**61}}), endpoint)


@pytest.mark.contract("N1")
@DRIVERS
@PROPERTY
@given(texts=st.lists(TEXT, min_size=1, max_size=6))
def test_the_texts_of_a_sqlite_list_are_the_whole_table(file: File, adbc: bool, texts: list[str]) -> None:
    spec = split(
        TABLE | {"options": {"batch_rows": 2}}, {"list": {"column": "c", "values": list(dict.fromkeys(texts))}}
    )
    assert each_row_once(spec, file(texts, adbc=adbc))


def test_texts_that_begin_with_a_date_have_spans_in_sqlite(file: File) -> None:
    endpoint = file(["2026-01-30", "2026-01-31 23:59:59", "2026-02-01"])
    spec = split(TABLE, {"range": {"column": "c", "bounds": ["2026-02-01"]}})
    assert [len(rows) for _, rows in by_part(spec, endpoint)] == [2, 1]
    daily = planned(split(TABLE, {"range": {"column": "c", "size": 1}}), endpoint)
    assert daily[0].part == Span(column="c", low="2026-01-30", high="2026-01-31", kind="date")
    assert len(daily) == 3


@pytest.mark.parametrize(
    ("values", "parts", "code"),
    [
        ([1, "a"], {"range": {"column": "c", "size": 5}}, "DPONE_PARTITIONS"),
        ([1, None], {"range": {"column": "c", "size": 5}}, "DPONE_SOURCE_INVALID"),
        ([1, 2.5], {"range": {"column": "c", "size": 5}}, "DPONE_PARTITIONS"),
        (["a"], {"range": {"column": "c", "size": 5}}, "DPONE_PARTITIONS"),
        (["2026-01-01"], {"range": {"column": "c", "bounds": [5]}}, "DPONE_PARTITIONS"),
        ([1], {"list": {"column": "c", "values": ["1"]}}, "DPONE_PARTITIONS"),
        (["1"], {"list": {"column": "c", "values": [1]}}, "DPONE_PARTITIONS"),
        (["a", "A"], {"list": {"column": "c", "values": ["a"]}}, "DPONE_PARTITIONS"),
    ],
)
def test_what_sqlite_cannot_split_is_refused(file: File, values: list[Any], parts: dict[str, Any], code: str) -> None:
    assert refusal(split(TABLE, parts), file(values)).code == code


def test_a_part_of_a_column_that_sqlite_has_not_is_refused(file: File) -> None:
    spec = split(TABLE, {"range": {"column": "c", "size": 5}})
    with pytest.raises(DponeError) as caught:
        read(spec, file([1]), Span(column="other", low="1", high=None, kind="integer"))
    assert caught.value.code == "DPONE_SOURCE_COLUMN_UNKNOWN"


def test_other_values_stay_unread_where_partitions_are_replaced(file: File) -> None:
    spec = split(TABLE, {"list": {"column": "c", "values": ["b"]}}, strategy={"mode": "partition_replace"})
    assert [rows for _, rows in by_part(spec, file(["a", "b", "B"]))] == [[(1, "b")]]


# -- any other database ------------------------------------------------------------------------------------------


@pytest.fixture
def hooked(tmp_path: Path) -> Callable[..., HookEndpoint]:
    """A hook over Python's sqlite3, a DB-API driver like any other; its column may compare without case."""

    def make(values: Iterable[Any], kind: str) -> HookEndpoint:
        with sqlite3.connect(tmp_path / "y.db") as connection:
            connection.execute(f"CREATE TABLE t (i INTEGER, c {kind})")
            connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        connection.close()

        class Hook:
            def get_conn(self) -> sqlite3.Connection:
                return sqlite3.connect(tmp_path / "y.db")

        return HookEndpoint(ref="h", hook=Hook)

    return make


def test_numbers_and_texts_are_split_through_a_hook(hooked: Callable[..., HookEndpoint]) -> None:
    endpoint = hooked(range(-7, 7), "INTEGER")
    assert each_row_once(split(TABLE, {"range": {"column": "c", "size": 4}}), endpoint)
    query = queried("SELECT i, c, '100%' AS p FROM t")
    assert each_row_once(split(query, {"list": {"column": "c", "values": list(range(-7, 7))}}), endpoint)


def test_a_database_that_takes_one_text_for_another_ends_the_load(hooked: Callable[..., HookEndpoint]) -> None:
    endpoint = hooked(["a", "A", "b"], "TEXT COLLATE NOCASE")
    spec = split(TABLE, {"list": {"column": "c", "values": ["a", "b"]}}, strategy={"mode": "partition_replace"})
    first, second = (each.part for each in planned(spec, endpoint))
    assert read(spec, endpoint, second) == [(2, "b")]
    with pytest.raises(DponeError) as caught:
        read(spec, endpoint, first)
    assert caught.value.code == "DPONE_SOURCE_INVALID"


def test_a_driver_with_unknown_parameters_is_refused(
    hooked: Callable[..., HookEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "paramstyle", "numeric")
    spec = split(TABLE, {"range": {"column": "c", "size": 4}})
    endpoint = hooked([1], "INTEGER")
    part = planned(spec, endpoint)[0].part
    with pytest.raises(DponeError) as caught:
        read(spec, endpoint, part)
    assert caught.value.code == "DPONE_PARTITIONS"
