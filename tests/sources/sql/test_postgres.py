"""A PostgreSQL table or query as a source, on a real server: exact types by either driver, whole or an error."""

from __future__ import annotations

import sys
import time
from typing import Any

import pyarrow as pa
import pytest

from dpone_provider.canonical import text_digest
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.fit import derive_columns
from dpone_provider.sources.open import open_source
from dpone_provider.wire import DirectWire
from tests.postgres_fixture import Postgres
from tests.sources.sql.reading import failure, fast, opened, read

DRIVERS = pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "psycopg"])
SCALARS = {
    "true": ("Bool", True),
    "(-32768)::int2": ("Int16", -32768),
    "(-2147483648)::int4": ("Int32", -2147483648),
    "9223372036854775807::int8": ("Int64", 9223372036854775807),
    "4294967295::oid": ("Int64", 4294967295),
    "1.1::float4": ("Float32", 1.100000023841858),
    "'-inf'::float8": ("Float64", float("-inf")),
    "'a\u00df\U0001f9e8'": ("String", "aß\U0001f9e8"),
    "'x'::varchar(3)": ("String", "x"),
    "'x'::char(3)": ("String", "x  "),
    "'x'::name": ("String", "x"),
    "'{\"a\":  1}'::json": ("String", '{"a":  1}'),
    "'{\"a\":  1}'::jsonb": ("String", '{"a": 1}'),
    "'\\x00ff'::bytea": ("String", b"\x00\xff"),
    "12.30::numeric(10, 2)": ("Decimal(10, 2)", "12.30"),
    "repeat('9', 76)::numeric(76, 0)": ("Decimal(76, 0)", "9" * 76),
    "12345::numeric(4, -2)": ("Decimal(6, 0)", "12300"),
    "0.0012::numeric(2, 4)": ("Decimal(4, 4)", "0.0012"),
    "1e-7::numeric": ("String", "0.0000001"),
    "('1' || repeat('0', 200) || '.10')::numeric": ("String", "1" + "0" * 200 + ".10"),
    "'NaN'::numeric": ("String", "NaN"),
    "'-Infinity'::numeric": ("String", "-Infinity"),
    "sum(1::int8)": ("String", "1"),
    "date '0044-03-15 BC'": ("Date32", "date32"),
    "date '2024-02-29'": ("Date32", "2024-02-29"),
    "timestamp '2024-02-29 23:59:59.999999'": ("DateTime64(6, 'UTC')", "2024-02-29 23:59:59.999999"),
    "timestamptz '2024-03-01 01:00:00+05:45'": ("DateTime64(6, 'UTC')", "2024-02-29 19:15:00+00:00"),
    "time '23:59:59.999999'": ("Time64(6)", "23:59:59.999999"),
    "'12345678-1234-5678-9abc-def012345678'::uuid": ("UUID", "12345678-1234-5678-9abc-def012345678"),
}
ARRAYS = {
    "ARRAY[1, NULL, 3]": ("Array(Nullable(Int32))", [1, None, 3]),
    "ARRAY['a', NULL]": ("Array(Nullable(String))", ["a", None]),
    "ARRAY[1.50, 2]::numeric(5, 2)[]": ("Array(Nullable(Decimal(5, 2)))", ["1.50", "2.00"]),
    "ARRAY[1e-7]": ("Array(Nullable(String))", ["0.0000001"]),
    "ARRAY[date '2024-02-29', NULL]": ("Array(Nullable(Date32))", ["2024-02-29", None]),
    "ARRAY[timestamptz '1970-01-01 00:00Z']": ("Array(Nullable(DateTime64(6, 'UTC')))", ["1970-01-01 00:00:00+00:00"]),
    "ARRAY[]::int8[]": ("Array(Nullable(Int64))", []),
    "ARRAY['\\xff'::bytea]": ("Array(Nullable(String))", [b"\xff"]),
    "ARRAY['{}'::jsonb]": ("Array(Nullable(String))", ["{}"]),
    "ARRAY[true]": ("Array(Nullable(Bool))", [True]),
    "ARRAY['12345678-1234-5678-9abc-def012345678'::uuid]": (
        "Array(Nullable(UUID))",
        ["12345678-1234-5678-9abc-def012345678"],
    ),
}


def plain(value: Any) -> Any:
    """A Python value as the tables above have it."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str, bytes)) else str(value)


def kinds(table: pa.Table) -> list[str]:
    """The ClickHouse types that a table's columns become, NULLs apart."""
    found = dict(derive_columns(table.schema, required=frozenset(table.schema.names)))
    return list(found.values())


@DRIVERS
@pytest.mark.parametrize("expression", SCALARS)
def test_a_value_is_exactly_what_it_was(postgres: Postgres, expression: str, adbc: bool) -> None:
    kind, value = SCALARS[expression]
    query = f"SELECT v FROM (SELECT 1 AS k, {expression} AS v) AS x RIGHT JOIN (VALUES (1), (2)) AS y(k) USING (k)"
    with opened(query, postgres.endpoint(adbc=adbc)) as source:
        assert fast(source) is adbc
        table = pa.Table.from_batches(source.batches(), source.schema)
    assert kinds(table) == [kind]
    table.validate(full=True)
    assert table.column(0).null_count == 1
    if value == "date32":  # Python has no dates before the year 1
        assert table.column(0).cast(pa.int32())[0].as_py() == -735_160
    else:
        assert plain(table.column(0)[0].as_py()) == value


@pytest.mark.parametrize("expression", ARRAYS)
def test_an_array_of_one_dimension_is_read(postgres: Postgres, expression: str) -> None:
    kind, value = ARRAYS[expression]
    query = f"SELECT v FROM (SELECT 1 AS k, {expression} AS v) AS x RIGHT JOIN (VALUES (1), (2)) AS y(k) USING (k)"
    table = read(query, postgres.endpoint())
    assert kinds(table) == [kind]
    assert plain(table.column(0).to_pylist()) == [value, None]


@DRIVERS
@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("interval '1 month'", "its PostgreSQL type interval is not read"),
        ("timetz '10:00+01'", "its PostgreSQL type time with time zone is not read"),
        ("inet '1.2.3.4'", "its PostgreSQL type inet is not read"),
        ("money '3'", "its PostgreSQL type money is not read"),
        ("point '(1, 2)'", "its PostgreSQL type point is not read"),
        ("ARRAY[interval '1 day']", r"its PostgreSQL type interval\[\] is not read"),
        ("'NaN'::numeric(5, 2)", "NaN, which no decimal has"),
        ("timestamp 'infinity'", "infinity, or a moment too far away"),
        ("timestamptz '-infinity'", "infinity, or a moment too far away"),
        ("date 'infinity'", "infinity, or a moment too far away"),
        ("timestamp '294276-12-31'", "infinity, or a moment too far away"),
        ("ARRAY[date '-infinity']", "infinity, or a moment too far away"),
        ("ARRAY[[1, 2], [3, 4]]", "an array of more than one dimension"),
        ("ARRAY[['a'], ['b']]", "an array of more than one dimension"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused_by_name(
    postgres: Postgres, expression: str, problem: str, adbc: bool
) -> None:
    error = failure(f"SELECT {expression} AS v", postgres.endpoint(adbc=adbc))
    assert error.code == "DPONE_SOURCE_VALUE_REFUSED"
    with pytest.raises(DponeError, match=rf"^DPONE_SOURCE_VALUE_REFUSED: Column v: {problem}"):
        raise error
    assert postgres.quiet()


@DRIVERS
def test_an_enum_is_its_names_and_a_domain_its_base(postgres: Postgres, pg_schema: str, adbc: bool) -> None:
    postgres.sql(f"CREATE TYPE {pg_schema}.mood AS ENUM ('sad', 'glad')")
    postgres.sql(f"CREATE DOMAIN {pg_schema}.price AS numeric(8, 2)")
    query = f"SELECT 'glad'::{pg_schema}.mood AS m, 1.5::{pg_schema}.price AS p"
    table = read(query, postgres.endpoint(adbc=adbc))
    assert kinds(table) == ["String", "Decimal(8, 2)"]
    assert plain(list(table.to_pylist()[0].values())) == ["glad", "1.50"]
    moods = read(f"SELECT ARRAY['sad']::{pg_schema}.mood[] AS m", postgres.endpoint(adbc=adbc))
    assert moods.to_pylist() == [{"m": ["sad"]}]


@DRIVERS
def test_a_result_without_rows_has_its_columns(postgres: Postgres, adbc: bool) -> None:
    table = read("SELECT 1::int8 AS a, 'x' AS b, 1.5::numeric(4, 1) AS c WHERE false", postgres.endpoint(adbc=adbc))
    assert (table.num_rows, table.schema.types) == (0, [pa.int64(), pa.string(), pa.decimal128(4, 1)])


@DRIVERS
def test_a_table_is_read_whole_and_named(postgres: Postgres, pg_schema: str, adbc: bool) -> None:
    postgres.sql(f'CREATE TABLE {pg_schema}."a ""b" AS SELECT g AS n, g::text AS s FROM generate_series(1, 150000) g')
    wire = DirectWire()
    spec = SqlSource(connection_ref="c", schema=pg_schema, table='a "b', batch_rows=40_000)
    with open_source(spec, postgres.endpoint(adbc=adbc), wire=wire) as source:
        assert source.dataset == f'{pg_schema}.a "b'
        sizes = [batch.num_rows for batch in source.batches()]
    assert (sum(sizes), max(sizes) <= 40_000, source.rows) == (150_000, True, 150_000)
    assert (wire.counts["source_open"], wire.counts["source_read"]) == (1, len(sizes) + 1)
    assert postgres.quiet()


def test_a_query_is_named_by_its_digest_and_may_end_in_a_comment(postgres: Postgres) -> None:
    query = "SELECT 1 AS x -- 100 % of it"
    with opened(query, postgres.endpoint()) as source:
        assert source.dataset == "source_query:" + text_digest(query)
        assert [batch.to_pylist() for batch in source.batches()] == [[{"x": 1}]]


@DRIVERS
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT * FROM nowhere", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT nothing", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT * FROM nowhere.at_all", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT * FROM pg_authid", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT FROM WHERE", "DPONE_SOURCE_INVALID"),
        ("SELECT", "DPONE_SOURCE_INVALID"),
        ("SELECT 1 / 0 AS x", "DPONE_SOURCE_INVALID"),
        ("SELECT 1 / (g - 100000) AS x FROM (SELECT generate_series(1, 200000) AS g) AS x", None),
        ("DELETE FROM pg_class RETURNING 1", "DPONE_SOURCE_INVALID"),
        ("SELECT 1; COMMIT; SELECT 2", "DPONE_SOURCE_INVALID"),
        ("SELECT 1) AS q; COMMIT; SELECT * FROM (SELECT 2", "DPONE_SOURCE_INVALID"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused(postgres: Postgres, query: str, code: str | None, adbc: bool) -> None:
    error = failure(query, postgres.endpoint(adbc=adbc))
    assert error.code == (code or ("DPONE_SOURCE_FAILED" if adbc else "DPONE_SOURCE_INVALID"))
    assert postgres.quiet()


@DRIVERS
def test_a_query_that_writes_writes_nothing(postgres: Postgres, pg_schema: str, adbc: bool) -> None:
    postgres.sql(f"CREATE TABLE {pg_schema}.t (n int)")
    body = f"INSERT INTO {pg_schema}.t VALUES (1) RETURNING 1"
    postgres.sql(f"CREATE FUNCTION {pg_schema}.f() RETURNS int SECURITY DEFINER LANGUAGE sql AS '{body}'")
    error = failure(f"SELECT {pg_schema}.f() AS x", postgres.endpoint(adbc=adbc))
    assert error.code == ("DPONE_SOURCE_FAILED" if adbc else "DPONE_SOURCE_INVALID")  # ADBC's reader tells no SQLSTATE
    assert postgres.sql(f"SELECT count(*) FROM {pg_schema}.t") == [(0,)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"password": "wr0ng-canary"}, "DPONE_SERVER_AUTHENTICATION"),
        ({"password": ""}, "DPONE_SERVER_AUTHENTICATION"),
        ({"user": "stranger-canary"}, "DPONE_SERVER_AUTHENTICATION"),
        ({"dbname": "db-canary"}, "DPONE_SOURCE_NOT_FOUND"),
        ({"port": "1"}, "DPONE_SERVER_UNREACHABLE"),
        ({"host": "host-canary.invalid"}, "DPONE_SERVER_UNREACHABLE"),
        ({"sslmode": "require"}, "DPONE_SERVER_UNREACHABLE"),
    ],
)
def test_a_failed_sign_in_says_why_and_no_secret(postgres: Postgres, changes: dict[str, str], code: str) -> None:
    endpoint = postgres.endpoint(**changes)
    error = failure("SELECT 1 AS x", endpoint)
    assert error.code == code
    assert "canary" not in f"{error} {error.context} {error.next_step} {endpoint!r}"
    assert "p@ss" not in f"{error} {error.context} {endpoint!r}"


def test_an_empty_password_is_a_password(postgres: Postgres) -> None:
    assert read("SELECT current_user::text AS u", postgres.endpoint(user="empty", password="")).num_rows == 1


@DRIVERS
def test_a_full_server_is_no_wrong_password(postgres: Postgres, adbc: bool) -> None:
    postgres.sql("ALTER ROLE reader CONNECTION LIMIT 0")
    try:
        error = failure("SELECT 1 AS x", postgres.endpoint(adbc=adbc))
    finally:
        postgres.sql("ALTER ROLE reader CONNECTION LIMIT -1")
    assert (error.code, error.retryable) == ("DPONE_SERVER_UNREACHABLE", True)


@DRIVERS
def test_a_server_that_ends_the_query_midway_is_an_error_that_may_be_retried(postgres: Postgres, adbc: bool) -> None:
    query = "SELECT g, repeat('y', 100) AS t FROM (SELECT generate_series(1, 3000000) AS g) AS x"
    with opened(query, postgres.endpoint(adbc=adbc)) as source:
        batches = source.batches()
        assert next(batches).num_rows
        postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpone'")
        with pytest.raises(DponeError) as caught:
            list(batches)
    assert (caught.value.code, caught.value.retryable) == ("DPONE_SOURCE_FAILED", True)
    assert postgres.quiet()


@DRIVERS
def test_closing_early_leaves_no_query_behind(postgres: Postgres, adbc: bool) -> None:
    query = "SELECT g, repeat('y', 100) AS t FROM (SELECT generate_series(1, 100000000) AS g) AS x"
    started = time.monotonic()
    with opened(query, postgres.endpoint(adbc=adbc)) as source:
        batches = source.batches()
        assert next(batches).num_rows
        assert postgres.at_work()
    assert postgres.quiet()
    assert time.monotonic() - started < 10


@DRIVERS
def test_the_transaction_is_read_only_and_repeatable(postgres: Postgres, adbc: bool) -> None:
    names = ("transaction_isolation", "transaction_read_only", "client_encoding")
    chosen = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    table = read(f"SELECT {chosen}", postgres.endpoint(adbc=adbc))
    assert list(table.to_pylist()[0].values()) == ["repeatable read", "on", "UTF8"]


@pytest.mark.parametrize("adbc", [True, False])
def test_text_of_a_database_without_an_encoding_is_refused_where_it_is_not_utf8(postgres: Postgres, adbc: bool) -> None:
    postgres.sql("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        endpoint = postgres.endpoint(adbc=adbc, dbname="ascii")
        assert read("SELECT 'x' AS v", endpoint).to_pylist() == [{"v": "x"}]
        error = failure("SELECT convert_from('\\xff', 'SQL_ASCII') AS v", endpoint)
        assert error.code in ("DPONE_SOURCE_INVALID", "DPONE_SOURCE_FAILED")
        assert postgres.quiet()
    finally:
        postgres.sql("DROP DATABASE ascii WITH (FORCE)")


@pytest.mark.parametrize("module", ["psycopg", "psycopg.types.numeric"])
def test_a_missing_driver_is_named_with_its_extra(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    error = failure("SELECT 1 AS x", postgres.endpoint())
    assert error.code == "DPONE_SOURCE_DRIVER_MISSING"
    assert error.next_step == "pip install 'airflow-provider-dpone[sql]'"


@pytest.mark.parametrize("module", ["adbc_driver_postgresql", "adbc_driver_manager.dbapi"])
def test_without_adbc_the_cursor_reads(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in [name for name in sys.modules if name.startswith("adbc_driver")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with opened("SELECT 1 AS x", postgres.endpoint()) as source:
        assert not fast(source)
        assert [batch.to_pylist() for batch in source.batches()] == [[{"x": 1}]]
