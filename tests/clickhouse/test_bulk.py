"""One request, sent once: acknowledged cleanly, refused with a number, or torn without a complete stream."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
import urllib3

from dpone_provider.clickhouse import http as http_driver
from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.wire import DirectWire, StatementFailed
from tests.wirelab import TcpProxy

Sql = Callable[..., list[tuple[Any, ...]]]
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
REQUEST = b"query=INSERT"


def batch(numbers: Iterable[int | None], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    values = list(numbers)
    return pa.record_batch([pa.array(values, pa.int64()), pa.array(["x" * 40] * len(values))], schema=schema)


def many(count: int) -> Iterator[pa.RecordBatch]:
    big = batch(range(50_000))
    for _ in range(count):
        yield big


@pytest.fixture
def load(endpoint: Endpoint, database: str, sql: Sql, wire: DirectWire) -> Callable[..., None]:
    sql(f"CREATE TABLE {database}.t (a Int64 DEFAULT 42, s Nullable(String)) ENGINE = MergeTree ORDER BY tuple()")

    def run(batches: Iterable[pa.RecordBatch], at: TcpProxy | None = None, **options: Any) -> None:
        where = attrs.evolve(endpoint, http_port=at.port) if at else endpoint
        schema = options.pop("schema", SCHEMA)
        names = {"columns": schema.names, "database": database, "table": "t", "wire": wire}
        insert_stream(where, schema=schema, batches=batches, **{**names, **options})

    return run


@pytest.fixture
def rows(database: str, sql: Sql) -> Callable[[], int]:
    def settled() -> int:
        """The table's count, once no insert into it runs any more."""
        until = time.monotonic() + 20
        running = "SELECT count() FROM system.processes WHERE query LIKE %(q)s"
        while sql(running, {"q": f"INSERT INTO `{database}`%"})[0][0] and time.monotonic() < until:
            time.sleep(0.05)
        return int(sql(f"SELECT count() FROM {database}.t")[0][0])

    return settled


def failed(call: Callable[[], None]) -> int | None:
    with pytest.raises(StatementFailed) as caught:
        call()
    assert caught.value.__cause__ is None
    return caught.value.code


def test_all_batches_arrive_in_one_request(load: Any, rows: Any, http: TcpProxy, wire: DirectWire) -> None:
    load(many(4), http, query_id="dpone-test-1")
    assert (rows(), http.seen(REQUEST), http.seen(b"Transfer-Encoding: chunked"), wire.counts["insert"]) == (
        200_000,
        1,
        1,
        1,
    )


def test_no_batches_are_a_complete_empty_stream(load: Any, rows: Any) -> None:
    load([])
    assert rows() == 0


def test_hostile_names_of_table_and_columns(endpoint: Endpoint, database: str, sql: Sql, wire: DirectWire) -> None:
    sql(f"CREATE TABLE {database}.`t``\\\\'x` (`c``d` Int64, ```e``` String, `100%s ü` Int8) ENGINE = Memory")
    schema = pa.schema([("c`d", pa.int64()), ("`e`", pa.string()), ("100%s ü", pa.int8())])
    content = pa.record_batch([[1], ["v"], pa.array([2], pa.int8())], schema=schema)
    insert_stream(
        endpoint, database=database, table="t`\\'x", columns=schema.names, schema=schema, batches=[content], wire=wire
    )
    assert sql(f"SELECT * FROM {database}.`t``\\\\'x`") == [(1, "v", 2)]


def test_a_null_for_a_column_that_takes_none_is_refused_not_defaulted(load: Any, rows: Any) -> None:
    """Field report B12."""
    assert failed(lambda: load([batch([1, None])])) == 349
    assert rows() == 0


def test_a_column_list_that_is_not_the_streams_is_refused_before_sending(load: Any, wire: DirectWire) -> None:
    for columns in (["a"], ["s", "a"], ["a", "s", "z"]):
        with pytest.raises(DponeError, match="DPONE_SOURCE_COLUMN_UNKNOWN"):
            load([batch([1])], columns=columns)
    assert not wire.counts["insert"]


def test_identical_blocks_are_not_taken_for_duplicates(
    endpoint: Endpoint, database: str, sql: Sql, wire: DirectWire
) -> None:
    """Field report B13."""
    sql(
        f"CREATE TABLE {database}.w (a Int64, s String) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    for _ in range(2):
        insert_stream(
            endpoint, database=database, table="w", columns=SCHEMA.names, schema=SCHEMA, batches=many(1), wire=wire
        )
    assert sql(f"SELECT count() FROM {database}.w") == [(100_000,)]


def test_a_server_error_in_the_middle_is_its_number(load: Any, rows: Any) -> None:
    schema = pa.schema([("a", pa.string()), ("s", pa.string())])
    wrong = pa.record_batch([["no number"] * 50_000, ["x" * 40] * 50_000], schema=schema)
    assert failed(lambda: load((wrong for _ in range(60)), schema=schema)) == 6
    assert rows() == 0


class Stop(BaseException):
    pass


@pytest.mark.contract("P8")
@pytest.mark.parametrize("before", [0, 1, 40])
@pytest.mark.parametrize(
    "failure",
    [ValueError("v"), BrokenPipeError(32, "the source's"), ConnectionResetError(104, "r"), Stop(), KeyboardInterrupt()],
)
def test_what_the_source_raises_comes_back_as_it_was_and_the_stream_stays_incomplete(
    load: Any, rows: Any, http: TcpProxy, before: int, failure: BaseException
) -> None:
    """Field report B22."""
    cause = RuntimeError("first")
    failure.__cause__ = cause

    def source() -> Iterator[pa.RecordBatch]:
        yield from many(before)
        raise failure

    with pytest.raises(type(failure)) as caught:
        load(source(), http)
    assert caught.value is failure
    assert caught.value.__cause__ is cause
    assert rows() < before * 50_000 or before == 0
    assert http.seen(REQUEST) == 1
    assert b"0\r\n\r\n" not in bytes(http.links[-1].carried[-5:])


@pytest.mark.contract("A4")
def test_a_remote_close_in_the_body_is_not_answered_with_a_second_body(load: Any, rows: Any, http: TcpProxy) -> None:
    started: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        started.append(1)
        yield from many(20)

    http.rule("close", match=REQUEST, after=0)
    assert failed(lambda: load(source(), http)) is None
    assert (http.seen(REQUEST), started) == (1, [1])
    assert rows() < 1_000_000


@pytest.mark.contract("A4")
def test_a_transport_that_replays_is_refused_a_second_body(
    load: Any, rows: Any, http: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = http_driver.Pool.request

    def twice(pool: Any, *args: Any, **options: Any) -> Any:
        try:
            return once(pool, *args, **options)
        except urllib3.exceptions.HTTPError:
            return once(pool, *args, **options)

    monkeypatch.setattr(http_driver.Pool, "request", twice)
    http.rule("lose_reply", match=REQUEST)
    assert failed(lambda: load(many(1), http)) is None
    assert rows() == 50_000
    assert sum(link.client_bytes > 100_000 for link in http.links) == 1


@pytest.mark.contract("A4", "A3")
def test_a_lost_acknowledgement_is_unknown_and_the_body_is_sent_once(load: Any, rows: Any, http: TcpProxy) -> None:
    http.rule("lose_reply", match=REQUEST)
    assert failed(lambda: load(many(2), http)) is None
    assert (rows(), http.seen(REQUEST)) == (100_000, 1)


@pytest.mark.contract("A4")
def test_an_answer_that_asks_for_a_retry_or_a_redirect_is_not_followed(load: Any, rows: Any, http: TcpProxy) -> None:
    for status in (b"503 Busy", b"307 Elsewhere\r\nLocation: /?query=INSERT", b"429 Slow"):
        answer = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
        http.rule("answer", match=REQUEST, payload=answer)
        assert failed(lambda: load(many(1), http)) is None
    assert (http.seen(REQUEST), rows()) == (3, 0)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Length: 30\r\n\r\nCode: 241. DB::Exception: memo",
            241,
        ),
        (b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Length: 3\r\n\r\nOk.", None),
        (b"HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Code: 252\r\nContent-Length: 0\r\n\r\n", 252),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: other\r\nContent-Length: 0\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Length: 9\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\n", None),
        (b"garbage\r\n\r\n", None),
        (b"", None),
    ],
)
def test_status_200_alone_is_no_acknowledgement(
    load: Any, rows: Any, http: TcpProxy, answer: bytes, code: int | None
) -> None:
    """Field report B7."""
    http.rule("answer", match=REQUEST, payload=answer)
    assert failed(lambda: load([batch([1])], http, query_id="q")) == code
    assert (http.seen(REQUEST), rows()) == (1, 0)


def test_a_source_that_is_slow_is_no_timeout(load: Any, rows: Any) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield batch([1])
        time.sleep(1.2)
        yield batch([2])

    load(source())
    assert rows() == 2


def test_an_unreachable_server_and_wrong_credentials_are_told_before_the_source_is_read(
    endpoint: Endpoint, wire: DirectWire
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    common: dict[str, Any] = {"database": "d", "table": "t", "columns": SCHEMA.names, "schema": SCHEMA, "wire": wire}
    read: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        read.append(1)
        yield batch([1])

    for change, code in (
        ({"http_port": port}, "DPONE_SERVER_UNREACHABLE"),
        ({"password": "p@ss'w/rd"}, "DPONE_SERVER_AUTHENTICATION"),
    ):
        with pytest.raises(DponeError) as caught:
            insert_stream(attrs.evolve(endpoint, **change), batches=source(), **common)
        assert caught.value.code == code
        assert "p@ss" not in str(caught.value)
    assert not read


def test_the_stream_is_not_collected_in_memory(load: Any, rows: Any) -> None:
    alive: list[int] = []
    lock = threading.Lock()
    peak = pa.total_allocated_bytes()

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for _ in range(40):
            yield batch(range(50_000))
            with lock:
                peak = max(peak, pa.total_allocated_bytes())
            alive.append(1)

    before = pa.total_allocated_bytes()
    load(source())
    assert (rows(), len(alive)) == (2_000_000, 40)
    assert peak - before < 16_000_000
