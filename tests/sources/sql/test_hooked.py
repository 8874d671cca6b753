"""A database behind an Airflow DB-API hook: rows of Python values, typed by the first of them, never guessed."""

from __future__ import annotations

import sqlite3
import sys
import types
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.open import open_source
from dpone_provider.sources.sql.endpoint import HookEndpoint
from dpone_provider.sources.sql.rows import Rows
from dpone_provider.wire import DirectWire
from tests.sources.sql.reading import failure, opened, read

NOON = datetime(2024, 2, 29, 12, 30, 1, 5)
PLUS = timezone(timedelta(hours=5, minutes=45))
Make = Callable[..., HookEndpoint]


class Hook:
    """A hook over Python's sqlite3, which is a DB-API driver like any other; statements are remembered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran: list[str] = []

    def get_conn(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, detect_types=sqlite3.PARSE_DECLTYPES)
        connection.set_trace_callback(self.ran.append)
        return connection


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute('CREATE TABLE "a b" (id INTEGER, day DATE, name TEXT)')
        connection.executemany(
            'INSERT INTO "a b" VALUES (?, ?, ?)', [(n, f"2024-01-{n % 28 + 1:02}", f"n{n}") for n in range(1000)]
        )
    connection.close()
    return Hook(tmp_path / "x.db")


@pytest.fixture
def endpoint(hook: Hook) -> HookEndpoint:
    return HookEndpoint(ref="h", hook=lambda: hook)


@pytest.mark.filterwarnings("ignore:The default date converter:DeprecationWarning")
def test_a_table_is_read_whole_in_batches(endpoint: HookEndpoint) -> None:
    spec = SqlSource(connection_ref="h", table="a b", batch_rows=300)
    with open_source(spec, endpoint, wire=DirectWire()) as source:
        table = pa.Table.from_batches(source.batches(), source.schema)
    assert source.dataset == "a b"
    assert table.schema == pa.schema([("id", pa.int64()), ("day", pa.date32()), ("name", pa.string())])
    assert table.column(0).to_pylist() == list(range(1000))
    assert [len(chunk) for chunk in table.column(0).chunks] == [300, 300, 300, 100]


def test_a_result_without_rows_has_its_columns(endpoint: HookEndpoint) -> None:
    table = read('SELECT id, name FROM "a b" WHERE id < 0', endpoint)
    assert (table.num_rows, table.schema.names) == (0, ["id", "name"])


@pytest.mark.parametrize(("mark", "rows"), [("number:989", 10), ("number:999", 0), (None, 1000)])
def test_the_mark_is_bound_to_the_query(endpoint: HookEndpoint, hook: Hook, mark: str | None, rows: int) -> None:
    query = "SELECT id, '50 %' AS p FROM \"a b\""
    table = read(query, endpoint, after=CursorMark(column="id", value=mark), columns=(("id", "Int64"),))
    assert table.num_rows == rows
    assert any('q."id" > ' in statement for statement in hook.ran) is (mark is not None)


@pytest.mark.parametrize("target", ["Int64", "String", "Decimal(9, 0)"])
def test_decimals_are_a_cursor_only_where_their_digits_are_known(hook: Hook, target: str) -> None:
    """As text, 100 stands below 99: rows would stay behind without a word."""

    class Decimals(Hook):
        def get_conn(self) -> sqlite3.Connection:
            sqlite3.register_converter("NUMBER", lambda text: Decimal(text.decode()))
            connection = super().get_conn()
            connection.execute("CREATE TEMP TABLE n (k NUMBER)")
            connection.executemany("INSERT INTO n VALUES (?)", [(number,) for number in range(95, 105)])
            return connection

    endpoint = HookEndpoint(ref="h", hook=lambda: Decimals(hook.path))
    options: dict[str, Any] = {"after": CursorMark(column="k"), "columns": (("k", target),)}
    if target.startswith("Decimal"):
        with opened("SELECT k FROM n", endpoint, **options) as source:
            assert sum(batch.num_rows for batch in source.batches()) == 10
            assert source.mark == "number:104"
    else:
        error = failure("SELECT k FROM n", endpoint, **options)
        assert (error.code, error.context["column"]) == ("DPONE_SOURCE_INVALID", "k")


def test_a_hook_that_cannot_be_made_says_nothing_of_its_secrets() -> None:
    def hook() -> Hook:
        raise KeyError("password=canary")

    error = failure("SELECT 1 AS x", HookEndpoint(ref="h", hook=hook))
    assert error.code == "DPONE_SERVER_UNREACHABLE"
    assert "canary" not in f"{error} {error.next_step} {error.context}"


def test_what_the_hook_itself_refuses_is_said_as_it_is() -> None:
    def hook() -> Hook:
        raise DponeError("DPONE_SOURCE_DRIVER_MISSING", "Its own words.")

    assert failure("SELECT 1 AS x", HookEndpoint(ref="h", hook=hook)).message == "Its own words."


def test_text_is_compared_here_since_its_order_is_the_databases(endpoint: HookEndpoint, hook: Hook) -> None:
    query = 'SELECT name FROM "a b"'
    assert read(query, endpoint, after=CursorMark(column="name", value="text:n998")).num_rows == 1
    assert hook.ran == [query]


@pytest.mark.parametrize(
    ("query", "code"),
    [("SELECT * FROM nowhere", "DPONE_SOURCE_FAILED"), ("SELECT 1; SELECT 2", "DPONE_SOURCE_INVALID")],
)
def test_a_query_that_cannot_be_read_is_refused(endpoint: HookEndpoint, query: str, code: str) -> None:
    assert failure(query, endpoint).code == code


class Refusal(Exception):
    """An error as drivers have them: the text holds what nobody else may see."""

    def __init__(self, *args: object, **attributes: str) -> None:
        super().__init__(*args, "password=canary")
        self.__dict__.update(attributes)


class Broken:
    """A hook whose connection fails at a step."""

    def __init__(self, step: str, error: Exception) -> None:
        self.step, self.error, self.closed = step, error, 0
        self.description = (("x", None, None, None, None, None, None),)
        self.left = 1

    def get_conn(self) -> Broken:
        return self._at("get_conn")

    def cursor(self) -> Broken:
        return self._at("cursor")

    def execute(self, query: str) -> None:
        self._at("execute")

    def fetchmany(self, size: int) -> list[list[int]]:
        self._at("first" if self.left == 1 else "fetch")
        self.left -= 1
        return [[1]] * size

    def close(self) -> None:
        self.closed += 1
        self._at("close")

    def _at(self, step: str) -> Broken:
        if step == self.step:
            raise self.error
        return self


@pytest.mark.parametrize(
    ("step", "error", "code"),
    [
        ("get_conn", Refusal(), "DPONE_SERVER_UNREACHABLE"),
        ("get_conn", Refusal(1045), "DPONE_SERVER_AUTHENTICATION"),
        ("get_conn", Refusal("28000"), "DPONE_SERVER_AUTHENTICATION"),
        ("get_conn", Refusal(1044, sqlstate="42000"), "DPONE_SERVER_AUTHENTICATION"),
        ("get_conn", Refusal(1049), "DPONE_SOURCE_NOT_FOUND"),
        ("get_conn", ImportError("canary"), "DPONE_SOURCE_DRIVER_MISSING"),
        ("execute", Refusal(1146), "DPONE_SOURCE_NOT_FOUND"),
        ("execute", Refusal("42S02"), "DPONE_SOURCE_NOT_FOUND"),
        ("execute", Refusal(sqlstate="42601"), "DPONE_SOURCE_INVALID"),
        ("execute", Refusal(), "DPONE_SOURCE_FAILED"),
        ("first", Refusal(), "DPONE_SOURCE_FAILED"),
        ("fetch", Refusal(pgcode="57P01"), "DPONE_SOURCE_FAILED"),
        ("fetch", Refusal(pgcode="22012"), "DPONE_SOURCE_INVALID"),
    ],
)
def test_a_drivers_error_becomes_ours_without_its_text(step: str, error: Exception, code: str) -> None:
    hook = Broken(step, error)
    found = failure("SELECT 1 AS x", HookEndpoint(ref="h", hook=lambda: hook), batch_rows=2)
    assert found.code == code
    assert "canary" not in f"{found} {found.context} {found.next_step}"
    assert hook.closed == (0 if step == "get_conn" else 1)


def test_a_connection_that_cannot_be_closed_hides_nothing() -> None:
    with (
        pytest.raises(KeyError),
        opened("SELECT 1 AS x", HookEndpoint(ref="h", hook=lambda: Broken("close", Refusal()))),
    ):
        raise KeyError


VALUES: dict[str, tuple[Sequence[Any], pa.DataType, Sequence[Any]]] = {
    "booleans": ([True, None], pa.bool_(), [True, None]),
    "integers": ([-(2**63), 2**63 - 1], pa.int64(), [-(2**63), 2**63 - 1]),
    "floats": ([1.5, float("inf")], pa.float64(), [1.5, float("inf")]),
    "text": (["a\0b", ""], pa.string(), ["a\0b", ""]),
    "bytes": ([b"\0", bytearray(b"x"), memoryview(b"y")], pa.binary(), [b"\0", b"x", b"y"]),
    "dates": ([date(1, 1, 1), date(9999, 12, 31)], pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "naive moments": ([NOON], pa.timestamp("us"), [NOON]),
    "aware moments": (
        [NOON.replace(tzinfo=PLUS), NOON.replace(tzinfo=UTC)],
        pa.timestamp("us", "UTC"),
        [NOON.replace(tzinfo=PLUS).astimezone(UTC), NOON.replace(tzinfo=UTC)],
    ),
    "times": ([time(23, 59, 59, 999_999)], pa.time64("us"), [time(23, 59, 59, 999_999)]),
    "UUIDs": ([UUID(int=5), None], pa.uuid(), [UUID(int=5), None]),
    "decimals without digits": (
        [Decimal("1E-7"), Decimal("NaN"), Decimal("1E+3"), 5],
        pa.string(),
        ["0.0000001", "NaN", "1000", "5"],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_keep_their_type_and_their_digits(name: str) -> None:
    values, kind, expected = VALUES[name]
    rows = [(value,) for value in values]
    made = Rows(["v"], rows, {})
    batch = made.batch(rows)
    batch.validate(full=True)
    assert (batch.schema.types, batch.column(0).to_pylist()) == ([kind], expected)


@pytest.mark.parametrize(
    ("declared", "values", "kind"),
    [
        ("Decimal(10, 2)", [Decimal("1.5"), 2], pa.decimal128(10, 2)),
        ("Nullable(Decimal(50, 2))", [None], pa.decimal256(50, 2)),
        ("UInt64", [2**64 - 1], pa.uint64()),
        ("Nullable(Float64)", [1, 2.5], pa.float64()),
        ("Nullable(Int32)", [None], pa.int64()),
        ("LowCardinality(String)", [None], pa.string()),
        ("Date", [None], pa.date32()),
        ("Nullable(DateTime64(3))", [None], pa.timestamp("us")),
        ("Nullable(Bool)", [None], pa.bool_()),
        ("UUID", [None], pa.null()),
    ],
)
def test_the_targets_type_decides_where_values_leave_a_choice(
    declared: str, values: Sequence[Any], kind: pa.DataType
) -> None:
    rows = [(value,) for value in values]
    assert Rows(["v"], rows, {"v": declared}).batch(rows).schema.types == [kind]


def test_the_drivers_digits_make_decimals() -> None:
    rows = [(Decimal("1.5"),), (None,)]
    made = Rows(["v"], rows, {}, digits={"v": (5, 2)})
    assert made.batch(rows).column(0).to_pylist() == [Decimal("1.50"), None]
    with pytest.raises(DponeError, match="Column v: a value that does not fit decimal128"):
        made.batch([(Decimal("1.555"),)])


@pytest.mark.parametrize(
    ("first", "later", "problem"),
    [
        ([1, "x"], [], "of more than one type, integers and text"),
        ([True, 1], [], "of more than one type, booleans and integers"),
        ([date(2024, 1, 1), NOON], [], "of more than one type, dates and moments"),
        ([1, 1.5], [], "of more than one type, floats and integers"),
        ([NOON, NOON.replace(tzinfo=UTC)], [], "some of its moments have a time zone"),
        ([time(1, tzinfo=UTC)], [], "a time of day with a time zone"),
        ([timedelta(1)], [], "values of the driver's type timedelta are not read"),
        ([{"a": 1}], [], "values of the driver's type dict are not read"),
        ([2**63], [], "a value that does not fit int64"),
        (["\ud800"], [], "a value that does not fit string"),
        ([1], ["x"], "text after integers"),
        ([1], [True], "booleans after integers"),
        ([1.5], [2], "integers after floats"),
        ([date(2024, 1, 1)], [NOON], "moments after dates"),
        (["x"], [b"x"], "bytes after text"),
        ([None], [1], "integers where the first rows have only NULL"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_its_column(
    first: Sequence[Any], later: Sequence[Any], problem: str
) -> None:
    with pytest.raises(DponeError, match=rf"^DPONE_SOURCE_VALUE_REFUSED: Column v: .*{problem}"):
        _read_in_two([(value,) for value in first], [(value,) for value in later])


def _read_in_two(first: list[tuple[Any]], later: list[tuple[Any]]) -> None:
    made = Rows(["v"], first, {})
    for rows in (first, later):
        if rows:
            made.batch(rows)


def test_mysqls_drivers_are_told_to_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their plain cursor holds the whole result in memory before the first row is handed out."""

    class SSCursor:
        description = (("x", None, None, None, None, None, None),)

        def __init__(self) -> None:
            self.left = [((1,),), ()]

        def execute(self, query: str) -> None:
            assert query == "SELECT * FROM `a``b`"

        def fetchmany(self, size: int) -> tuple[tuple[int], ...]:
            return self.left.pop(0)

    class Connection:
        __module__ = "pymysql.connections"

        def cursor(self, kind: type) -> Any:
            return kind()

    class Mysql:
        def get_conn(self) -> Connection:
            return Connection()

    monkeypatch.setitem(sys.modules, "pymysql", types.ModuleType("pymysql"))
    monkeypatch.setitem(sys.modules, "pymysql.cursors", types.SimpleNamespace(SSCursor=SSCursor))  # type: ignore[arg-type]
    endpoint = HookEndpoint(ref="h", quote="`", hook=Mysql)
    spec = SqlSource(connection_ref="h", table="a`b")
    with open_source(spec, endpoint, wire=DirectWire()) as source:
        assert [batch.to_pylist() for batch in source.batches()] == [[{"x": 1}]]
