"""Reading PostgreSQL in the long run: any value by either driver, after a mark, in bounded memory, and interrupted."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.sources.cursor import CursorMark
from tests.postgres_fixture import Postgres
from tests.sources.sql.reading import alarm, failure, opened, read

DRIVERS = pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "psycopg"])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NUMERIC = st.decimals(allow_nan=True, allow_infinity=True) | st.integers(-(10**60), 10**60).map(Decimal)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float4": st.floats(width=32),
    "float8": st.floats(),
    "numeric": NUMERIC.filter(lambda value: str(value) not in ("-NaN", "sNaN", "-sNaN")),
    "numeric(30, 10)": st.decimals("-1e19", "1e19", places=10),
    "numeric(76, 38)": st.integers(-(10**76) + 1, 10**76 - 1).map(lambda number: Decimal(f"{number}E-38")),
    "text": TEXT,
    "varchar(30)": TEXT,
    "bytea": st.binary(max_size=30),
    "uuid": st.uuids(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.sampled_from([__import__("datetime").UTC])),
    "time": st.times(),
    "jsonb": st.dictionaries(TEXT, st.integers() | TEXT | st.none(), max_size=3).map(json.dumps),
}


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_is_read_the_same_by_both_drivers_and_as_postgres_prints_it(
    postgres: Postgres, pg_schema: str, kind: str, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | COLUMNS[kind], min_size=1, max_size=20))
    rows = ", ".join(f"({number}, %s::{kind})" for number in range(len(values)))
    postgres.sql(f"CREATE TABLE IF NOT EXISTS {pg_schema}.t (i int, v {kind})")
    postgres.sql(f"WITH gone AS (DELETE FROM {pg_schema}.t) INSERT INTO {pg_schema}.t VALUES {rows}", *values)
    query = f"SELECT v, v::text AS printed FROM {pg_schema}.t ORDER BY i"
    first, second = (read(query, postgres.endpoint(adbc=adbc), batch_rows=7) for adbc in (True, False))
    first.validate(full=True)
    assert first.schema == second.schema
    assert first.num_rows == second.num_rows == len(values)
    for ours, theirs, printed, value in zip(
        first.column(0).to_pylist(), second.column(0).to_pylist(), first.column(1).to_pylist(), values, strict=True
    ):
        assert _bits(ours) == _bits(theirs)
        assert _agrees(kind, ours, printed, value)


def _bits(value: Any) -> Any:
    return struct.pack(">d", value) if isinstance(value, float) and value == value else repr(value)


def _agrees(kind: str, read_value: Any, printed: str | None, value: Any) -> bool:
    """What was read is what was written; texts are what PostgreSQL prints."""
    if value is None or read_value is None:
        return read_value is None and value is None and printed is None
    if kind in ("numeric", "text", "varchar(30)", "jsonb"):
        return bool(read_value == printed)
    if isinstance(value, float):
        return read_value == value or (read_value != read_value and value != value)
    return bool(read_value == value)


@DRIVERS
@pytest.mark.parametrize(
    ("expression", "mark", "found", "top"),
    [
        ("g::int8", "number:990", 10, "number:1000"),
        ("g::int2", "number:990", 10, "number:1000"),
        ("g::int4", "number:99999999999", 0, None),
        ("(g / 4.0)::numeric(10, 2)", "number:247.50", 10, "number:250.00"),
        ("date '2024-01-01' + g", "date:2026-09-17", 10, "date:2026-09-27"),
        (
            "timestamp '2024-01-01' + g * interval '1 microsecond'",
            "local:2024-01-01T00:00:00.000990",
            10,
            "local:2024-01-01T00:00:00.001000",
        ),
        (
            "timestamptz '2024-01-01 00:00Z' + g * interval '1 second'",
            "datetime:2024-01-01T00:16:30.000000",
            10,
            "datetime:2024-01-01T00:16:40.000000",
        ),
        ("to_char(g, 'FM0000')", "text:0990", 10, "text:1000"),
        ("to_char(g, 'FM0000')::varchar(9)", "text:0990", 10, "text:1000"),
        ("CASE WHEN g % 2 = 0 THEN 'a' ELSE 'B' END", "text:B", 500, "text:a"),
    ],
)
def test_only_rows_above_the_mark_are_sent_by_the_server(
    postgres: Postgres, expression: str, mark: str, found: int, top: str | None, adbc: bool
) -> None:
    query = f"SELECT {expression} AS k FROM generate_series(1, 1000) AS g"
    if top is None:  # of int4 no value is above it, and no value can be the mark
        error = failure(query, postgres.endpoint(adbc=adbc), after=CursorMark(column="k", value=mark))
        assert error.code == "DPONE_SOURCE_STATE_UNCERTAIN"
        return
    sent: list[int] = []
    with opened(query, postgres.endpoint(adbc=adbc), after=CursorMark(column="k", value=mark)) as source:
        inner = source._stream.read

        def read_and_count() -> pa.RecordBatch | None:
            batch = inner()
            sent.append(batch.num_rows if batch is not None else 0)
            return batch

        source._stream.read = read_and_count  # type: ignore[method-assign]
        assert sum(batch.num_rows for batch in source.batches()) == found
        assert source.mark == top
    assert sum(sent) == found


@DRIVERS
def test_a_column_that_got_a_time_zone_stops_the_load(postgres: Postgres, adbc: bool) -> None:
    """ALTER TABLE … TYPE timestamptz reads the old values in the session's zone: all of them are hours earlier."""
    query = "SELECT timestamp '2024-01-01 12:00' AT TIME ZONE 'Asia/Kathmandu' AS k"
    after = CursorMark(column="k", value="local:2024-01-01T11:00:00.000000")
    assert failure(query, postgres.endpoint(adbc=adbc), after=after).code == "DPONE_SOURCE_STATE_UNCERTAIN"


@DRIVERS
@pytest.mark.parametrize("expression", ["bpchar '0991'", "name '0991'", "'{\"a\": 1}'::jsonb::text"])
def test_where_the_servers_order_is_another_one_everything_is_read(
    postgres: Postgres, expression: str, adbc: bool
) -> None:
    after = CursorMark(column="k", value="text:0990")
    assert read(f"SELECT {expression} AS k", postgres.endpoint(adbc=adbc), after=after).num_rows == 1


@DRIVERS
@pytest.mark.parametrize("mark", [None, "number:1"])
def test_numbers_that_are_read_as_text_are_no_cursor(postgres: Postgres, mark: str | None, adbc: bool) -> None:
    query = "SELECT g::numeric AS k FROM generate_series(1, 20) g"
    error = failure(query, postgres.endpoint(adbc=adbc), after=CursorMark(column="k", value=mark))
    assert (error.code, "its own order" in error.message) == ("DPONE_SOURCE_INVALID", True)


@DRIVERS
def test_null_in_the_cursor_column_is_seen_and_refused(postgres: Postgres, adbc: bool) -> None:
    query = "SELECT nullif(g, 3) AS k FROM generate_series(1, 20) g"
    error = failure(query, postgres.endpoint(adbc=adbc), after=CursorMark(column="k", value="number:10"))
    assert (error.code, "NULL" in error.message) == ("DPONE_SOURCE_INVALID", True)


@DRIVERS
def test_an_index_serves_the_mark(postgres: Postgres, pg_schema: str, adbc: bool) -> None:
    postgres.sql(f"CREATE TABLE {pg_schema}.t AS SELECT g AS id FROM generate_series(1, 20000) g")
    postgres.sql(f"ALTER TABLE {pg_schema}.t ADD PRIMARY KEY (id)")
    postgres.sql(f"ANALYZE {pg_schema}.t")
    postgres.sql("SELECT pg_stat_reset()")
    after = CursorMark(column="id", value="number:19990")
    assert read(f"SELECT * FROM {pg_schema}.t", postgres.endpoint(adbc=adbc), after=after).num_rows == 10
    assert postgres.quiet()
    until = time.monotonic() + 10
    while True:
        ((scans, rows),) = postgres.sql(
            f"SELECT idx_scan, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = '{pg_schema}'"
        )
        if scans or time.monotonic() > until:
            break
        time.sleep(0.05)
    assert (scans >= 1, rows) == (True, 0)


@DRIVERS
@pytest.mark.parametrize(
    "query", ["SELECT pg_sleep(60)::text AS x", "SELECT count(*) AS x FROM generate_series(1, 1e10)"]
)
def test_an_interrupted_reader_ends_its_query_at_once(postgres: Postgres, query: str, adbc: bool) -> None:
    """A signal's handler raises while the server is at work, as a task's timeout does."""
    started = time.monotonic()
    with pytest.raises(TimeoutError), alarm(0.7):
        read(query, postgres.endpoint(adbc=adbc))
    assert postgres.quiet()
    assert time.monotonic() - started < 6


READ = """
import json, re, sys
from pathlib import Path
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.open import open_source
from dpone_provider.sources.sql.endpoint import PostgresEndpoint
from dpone_provider.wire import DirectWire
parameters, adbc, rows = json.loads(sys.argv[1])
numbers = f"(SELECT generate_series(1, {rows}) AS id) AS x"
query = f"SELECT id, id * 1.5::float8 AS f, 'name ' || id AS t, repeat('y', 100) AS u FROM {numbers}"
spec = SqlSource(connection_ref="pg", query=query, batch_rows=10_000)
endpoint = PostgresEndpoint(ref="pg", parameters=parameters, adbc=adbc)
with open_source(spec, endpoint, wire=DirectWire()) as source:
    for batch in source.batches():
        pass
peak = re.search(r"VmHWM:\\\\s+(\\\\d+)", Path("/proc/self/status").read_text())
print(json.dumps([source.rows, int(peak[1]) // 1024]))
""".replace("\\\\", "\\")


@DRIVERS
def test_memory_does_not_grow_with_the_rows(postgres: Postgres, adbc: bool) -> None:
    found = {}
    for rows in (100_000, 1_000_000):
        given_to = json.dumps([dict(postgres.endpoint().parameters), adbc, rows])
        done = subprocess.run([sys.executable, "-c", READ, given_to], capture_output=True, text=True, check=True)
        read_rows, found[rows] = json.loads(done.stdout)
        assert read_rows == rows
    assert found[1_000_000] < 250
    assert found[1_000_000] - found[100_000] < 40
