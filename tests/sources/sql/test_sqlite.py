"""A SQLite table or query as a source: one type a column or a refusal by name, the same through Python and ADBC."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.open import open_source
from dpone_provider.sources.sql.endpoint import SqliteEndpoint
from dpone_provider.wire import DirectWire
from tests.sources.sql.reading import alarm, failure, fast, opened, read

DRIVERS = pytest.mark.parametrize("adbc", [True, False], ids=["adbc", "python"])
Make = Callable[..., SqliteEndpoint]


@pytest.fixture
def file(tmp_path: Path) -> Make:
    """``file(rows, columns=…, adbc=…)``: a new file with the rows in the table ``t``, which has no declared types."""

    def make(rows: Iterable[tuple[Any, ...]], *, columns: str = "v", adbc: bool = True) -> SqliteEndpoint:
        path = tmp_path / "a b%.db"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            marks = ", ".join("?" for _ in columns.split(","))
            connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        connection.close()
        return SqliteEndpoint(ref="lite", path=str(path), adbc=adbc)

    return make


@DRIVERS
def test_a_table_is_read_whole_in_batches_of_the_asked_size(file: Make, adbc: bool) -> None:
    rows = [(n, n / 4, f"n{n}\0", bytes([n % 256]), None if n % 3 else n) for n in range(1000)]
    endpoint, wire = file(rows, columns="a, b, c, d, e", adbc=adbc), DirectWire()
    spec = SqlSource(connection_ref="c", table="t", batch_rows=300)
    with open_source(spec, endpoint, wire=wire) as source:
        assert (source.dataset, fast(source)) == ("t", adbc)
        table = pa.Table.from_batches(source.batches(), source.schema)
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.int64()]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert max(len(chunk) for chunk in table.column(0).chunks) <= 300
    assert wire.counts["source_open"] == 1
    table.validate(full=True)


def test_without_adbc_python_reads(file: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite", None)
    with opened("SELECT v FROM t", file([(n,) for n in range(10)]), batch_rows=3) as source:
        assert not fast(source)
        assert sum(batch.num_rows for batch in source.batches()) == 10


@DRIVERS
@pytest.mark.parametrize("place", [0, 5, 15])
@pytest.mark.parametrize("pair", [(1, "x"), ("x", 1), (1, 2.5), (2.5, 1), ("x", b"x"), (b"x", "x"), (1, b"x")])
def test_a_column_of_two_types_is_refused_by_name(file: Make, pair: tuple[Any, Any], place: int, adbc: bool) -> None:
    rows = [(number, pair[0]) for number in range(20)]
    rows[place] = (place, pair[1])
    error = failure("SELECT * FROM t", file(rows, columns="id, v", adbc=adbc), batch_rows=10)
    assert (error.code, error.context["column"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v")
    assert "more than one type" in error.message or "after" in error.message


@DRIVERS
def test_integers_among_floats_are_read_where_the_target_has_floats(file: Make, adbc: bool) -> None:
    rows = [(value,) for value in (1, 2.5, 3, 2**53, None, -0.5)]
    table = read("SELECT * FROM t", file(rows, adbc=adbc), batch_rows=3, columns=(("v", "Nullable(Float64)"),))
    assert table.column(0).to_pylist() == [1.0, 2.5, 3.0, float(2**53), None, -0.5]
    rows[5] = (2**53 + 1,)
    error = failure("SELECT * FROM t", file(rows, adbc=adbc), batch_rows=3, columns=(("v", "Float64"),))
    assert (error.code, error.context["column"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v")


@DRIVERS
def test_a_column_of_only_null_at_first_takes_its_type_from_the_target_or_is_refused(file: Make, adbc: bool) -> None:
    endpoint = file([(None,)] * 10 + [("2024-01-01",)], adbc=adbc)
    table = read("SELECT * FROM t", endpoint, batch_rows=5, columns=(("v", "Date"),))
    assert (table.schema.types, table.column(0)[10].as_py()) == ([pa.string()], "2024-01-01")
    error = failure("SELECT * FROM t", endpoint, batch_rows=5)
    assert (error.code, error.context["column"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v")
    assert "only NULL" in error.message


@DRIVERS
def test_text_that_is_not_utf8_is_refused_by_name(file: Make, adbc: bool) -> None:
    query = "SELECT id, CASE WHEN id = 15 THEN CAST(x'ff' AS TEXT) ELSE 'x' END AS v FROM t"
    error = failure(query, file([(n,) for n in range(20)], columns="id", adbc=adbc), batch_rows=10)
    assert (error.code, error.context["column"]) == ("DPONE_SOURCE_VALUE_REFUSED", "v")


def test_a_result_without_rows_has_its_columns(file: Make) -> None:
    table = read("SELECT v, 1 AS n FROM t", file([]))
    assert (table.num_rows, table.schema.names) == (0, ["v", "n"])


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT * FROM nowhere", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT nope FROM t", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT FROM", "DPONE_SOURCE_INVALID"),
        ("SELECT 1); DROP TABLE t; SELECT (2", "DPONE_SOURCE_INVALID"),
        ("DELETE FROM t RETURNING 1", "DPONE_SOURCE_INVALID"),
        ("SELECT abs(-9223372036854775808) AS x", "DPONE_SOURCE_INVALID"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused(file: Make, query: str, code: str) -> None:
    assert failure(query, file([(1,)])).code == code


def test_a_missing_file_is_not_found_and_not_created(tmp_path: Path) -> None:
    endpoint = SqliteEndpoint(ref="lite", path=str(tmp_path / "canary.db"))
    error = failure("SELECT 1 AS x", endpoint)
    assert error.code == "DPONE_SOURCE_NOT_FOUND"
    assert "canary" not in f"{error} {error.context} {endpoint!r}"
    assert not (tmp_path / "canary.db").exists()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all" * 100)
    assert failure("SELECT 1 AS x FROM t", SqliteEndpoint(ref="l", path=str(tmp_path / "x.db"))).code == (
        "DPONE_SOURCE_INVALID"
    )


def test_a_locked_file_may_be_retried(file: Make) -> None:
    endpoint = file([(1,)])
    writer = sqlite3.connect(endpoint.path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        error = failure("SELECT * FROM t", endpoint)
    finally:
        writer.close()
    assert (error.code, error.retryable) == ("DPONE_SOURCE_FAILED", True)


@DRIVERS
def test_rows_after_the_mark_are_read_and_no_other_is_fetched(file: Make, adbc: bool) -> None:
    endpoint = file([(n, f"k{n:03}") for n in range(100)], columns="id, k", adbc=adbc)
    for column, mark, found in (("id", "number:89", 10), ("k", "text:k098", 1), ("id", "number:99", 0)):
        after = CursorMark(column=column, value=mark)
        with opened("SELECT * FROM t", endpoint, after=after, batch_rows=4, columns=(("id", "Int64"),)) as source:
            fetched = []
            inner = source._stream.read
            source._stream.read = lambda inner=inner, fetched=fetched: _kept(inner(), fetched)  # type: ignore[method-assign]
            assert sum(batch.num_rows for batch in source.batches()) == found
            assert sum(fetched) == found
            assert source.mark == (f"{mark.partition(':')[0]}:{'99' if column == 'id' else 'k099'}")


def _kept(batch: pa.RecordBatch | None, fetched: list[int]) -> pa.RecordBatch | None:
    fetched.append(batch.num_rows if batch is not None else 0)
    return batch


@DRIVERS
@pytest.mark.parametrize(
    ("declared", "values", "mark"),
    [
        ("TEXT", ("10", "11"), "number:9"),
        ("", ("10", "11"), "number:9"),
        ("INTEGER", (10, 11), "text:2024-01-01"),
        ("", (10, 11), "text:2024-01-01"),
        ("INTEGER", ("a", 5), "text:2024-01-01"),
        ("", ("a", 5), "text:2024-01-01"),
    ],
)
def test_values_of_another_kind_than_the_mark_are_never_left_behind(
    file: Make, declared: str, values: tuple[Any, ...], mark: str, adbc: bool
) -> None:
    endpoint = file([(value,) for value in values], columns=f"v {declared}", adbc=adbc)
    live = (("v", "UInt64" if mark.startswith("number") else "String"),)
    error = failure("SELECT * FROM t", endpoint, after=CursorMark(column="v", value=mark), columns=live)
    assert error.code in ("DPONE_SOURCE_STATE_UNCERTAIN", "DPONE_SOURCE_VALUE_REFUSED")


@DRIVERS
@pytest.mark.parametrize("batches", [1, 25], ids=["broken off", "read whole"])
def test_a_closed_source_keeps_no_writer_waiting(file: Make, batches: int, adbc: bool) -> None:
    endpoint = file([(n,) for n in range(100)], adbc=adbc)
    source = opened("SELECT * FROM t", endpoint, batch_rows=4)
    with source:
        assert sum(1 for _ in zip(range(batches), source.batches(), strict=False)) == batches
    with closing(sqlite3.connect(endpoint.path, timeout=0)) as writer, writer:
        assert writer.execute("DELETE FROM t").rowcount == 100


def test_null_in_the_cursor_column_is_seen_and_refused(file: Make) -> None:
    error = failure("SELECT * FROM t", file([(1,), (None,)]), after=CursorMark(column="v", value="number:0"))
    assert (error.code, error.context["column"]) == ("DPONE_SOURCE_INVALID", "v")


def test_an_interrupted_reader_ends_its_query_at_once(file: Make) -> None:
    """A signal's handler raises while SQLite is at work: the query ends, not only the waiting."""
    query = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) AS x FROM n"
    before = threading.active_count()
    started = time.monotonic()
    with pytest.raises(TimeoutError), alarm(0.3):
        read(query, file([(1,)]))
    assert time.monotonic() - started < 5
    while threading.active_count() > before:
        assert time.monotonic() - started < 5
        time.sleep(0.01)


KINDS = (
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
)
VALUES = st.one_of(st.none(), *KINDS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.one_of([st.lists(VALUES), *(st.lists(st.none() | kind) for kind in KINDS)]), size=st.integers(1, 5))
def test_both_drivers_give_the_same_rows_or_refuse_alike(file: Make, values: list[Any], size: int) -> None:
    first, second = (_outcome(file([(value,) for value in values], adbc=adbc), size) for adbc in (True, False))
    assert (isinstance(first, str), first if isinstance(first, str) else first.schema) == (
        isinstance(second, str),
        second if isinstance(second, str) else second.schema,
    )
    if isinstance(first, pa.Table):
        assert first.equals(second)
        assert all(_same(*pair) for pair in zip(first.column(0).to_pylist(), values, strict=True))


def _outcome(endpoint: SqliteEndpoint, size: int) -> pa.Table | str:
    try:
        return read("SELECT * FROM t", endpoint, batch_rows=size)
    except DponeError as error:
        return f"{error.code} {error.context['column']}"


def _same(read_value: Any, value: Any) -> bool:
    return type(read_value) is type(value) and repr(read_value) == repr(value)
