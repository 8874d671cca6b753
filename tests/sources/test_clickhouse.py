"""A ClickHouse table or query as a source, on a real server: whole or an error, never a short success (B7)."""

from __future__ import annotations

import socket
import time
from typing import Any

import attrs
import pyarrow as pa
import pytest

from dpone_provider.canonical import text_digest
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import ClickHouseSource, TableRef
from dpone_provider.sources.fit import derive_columns, plan_fit
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.wire import DirectWire
from tests.wirelab import TcpProxy


def query(sql: str, endpoint: Endpoint, wire: DirectWire | None = None) -> OpenSource:
    return open_source(ClickHouseSource(connection_ref="c", query=sql), endpoint, wire=wire or DirectWire())


def failure(sql: str, endpoint: Endpoint) -> DponeError:
    with pytest.raises(DponeError) as caught, query(sql, endpoint) as source:
        for _ in source.batches():
            pass
    assert sql not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def test_a_table_is_read_whole_and_named(endpoint: Endpoint, database: str, sql: Any, wire: DirectWire) -> None:
    sql(f"CREATE TABLE {database}.`a b` (n UInt64, s String, al UInt8 ALIAS 1) ENGINE = MergeTree ORDER BY n")
    sql(f"INSERT INTO {database}.`a b` SELECT number, toString(number) FROM numbers(200000)")
    spec = ClickHouseSource(connection_ref="c", table=TableRef(database=database, name="a b"))
    with open_source(spec, endpoint, wire=wire) as source:
        assert source.dataset == f"{database}.a b"
        assert source.schema.names == ["n", "s"]
        total = sum(sum(batch.column(0).to_pylist()) for batch in source.batches())
        assert (source.rows, total) == (200_000, 200_000 * 199_999 // 2)
    assert wire.counts["source_open"] == 1
    assert wire.counts["source_read"] > 1


def test_a_query_is_named_by_its_digest_and_may_end_in_a_comment(endpoint: Endpoint) -> None:
    sql = "SELECT 1 AS x -- the end"
    with query(sql, endpoint) as source:
        assert source.dataset == "source_query:" + text_digest(sql)
        assert [batch.to_pylist() for batch in source.batches()] == [[{"x": 1}]]


def test_a_query_without_rows_ends_cleanly(endpoint: Endpoint) -> None:
    with query("SELECT 1 AS x WHERE 0", endpoint) as source:
        assert list(source.batches()) == []
        assert dict(derive_columns(source.schema, required=frozenset())) == {"x": "UInt8"}


def test_types_are_the_sources_own(endpoint: Endpoint) -> None:
    kinds = {
        "a": "DateTime('Europe/Berlin')",
        "b": "Enum8('x' = 1, 'y' = 2)",
        "c": "Nullable(DateTime)",
        "d": "BFloat16",
        "e": "IPv4",
        "f": "LowCardinality(String)",
        "g": "UUID",
        "h": "Nullable(Enum16('x' = 300))",
        "i": "Nullable(BFloat16)",
    }
    texts = {"a": "'2020-01-01 00:00:00'", "b": "'y'", "c": "NULL", "d": "1.5", "e": "'1.2.3.4'", "f": "'z'"}
    texts |= {"g": "'12345678-1234-5678-9abc-def012345678'", "h": "NULL", "i": "NULL"}
    sql = "SELECT " + ", ".join(f"CAST({texts[name]} AS {kind}) AS {name}" for name, kind in kinds.items())
    with query(sql, endpoint) as source:
        assert dict(derive_columns(source.schema, required=frozenset())) == kinds
        (batch,) = source.batches()
    row = batch.to_pylist()[0]
    assert row["a"].isoformat() == "2019-12-31T23:00:00+00:00"
    assert (row["b"], row["c"], row["d"], row["f"], row["h"], row["i"]) == ("y", None, 1.5, "z", None, None)
    for target in ("String", "UInt32", "Int64"):
        with pytest.raises(DponeError, match="IPv4 does not go into"):
            plan_fit(pa.schema([source.schema.field("e")]), (("e", target),))
    plan_fit(pa.schema([source.schema.field("b")]), (("b", "String"),))


@pytest.mark.parametrize("rows", [70_000, 300_000, 999_999])
def test_an_error_midway_is_an_error(endpoint: Endpoint, rows: int) -> None:
    error = failure(f"SELECT throwIf(number = {rows}) AS x, number FROM numbers(1000000)", endpoint)
    assert error.code == "DPONE_SOURCE_FAILED"
    assert "server error 395" in error.message
    assert error.retryable


def test_an_error_before_the_first_row_is_an_error(endpoint: Endpoint) -> None:
    error = failure("SELECT throwIf(number = 0) AS x FROM numbers(10)", endpoint)
    assert error.code == "DPONE_SOURCE_FAILED"
    assert "395" in error.message


@pytest.mark.parametrize("cut", [1, 5_000, 400_000, 2_000_000])
def test_a_connection_that_breaks_is_an_error(endpoint: Endpoint, cut: int) -> None:
    """However much arrived before, also exactly between two batches (B7)."""
    with Cutter(endpoint, cut) as cutter:
        error = failure("SELECT number FROM numbers(1000000)", attrs.evolve(endpoint, http_port=cutter.port))
    assert error.code in ("DPONE_SOURCE_FAILED", "DPONE_SERVER_UNREACHABLE")


def test_a_stream_without_its_end_mark_is_an_error(proxied: Endpoint, http: TcpProxy) -> None:
    """B7: HTTP 200, a well-formed body that stops between two batches."""
    error = _answered(proxied, http, _ipc()[:-8])
    assert error.code == "DPONE_SOURCE_FAILED"
    assert "ended too early" in error.message


def test_an_exception_behind_a_whole_stream_is_an_error(proxied: Endpoint, http: TcpProxy) -> None:
    """B7: HTTP 200 and a trailing exception."""
    error = _answered(proxied, http, _ipc() + b"Code: 241. DB::Exception: memory")
    assert error.code == "DPONE_SOURCE_FAILED"
    assert "server error 241" in error.message


def test_an_empty_body_is_an_error(proxied: Endpoint, http: TcpProxy) -> None:
    """B7: HTTP 200 and nothing."""
    assert _answered(proxied, http, b"").code == "DPONE_SOURCE_FAILED"


def test_the_faked_answer_is_taken_when_it_is_whole(proxied: Endpoint, http: TcpProxy) -> None:
    """The three tests above would mean nothing otherwise."""
    _fake(http, _ipc())
    with query("SELECT toInt64(1) AS x", proxied) as source:
        assert [batch.num_rows for batch in source.batches()] == [1]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM nowhere.nothing", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT nothing FROM system.one", "DPONE_SOURCE_NOT_FOUND"),
        ("SELECT 1 +", "DPONE_SOURCE_INVALID"),
        ("SELECT 1 AS x SETTINGS readonly = 0", "DPONE_SOURCE_INVALID"),
        ("INSERT INTO FUNCTION null('x UInt8') SELECT 1", "DPONE_SOURCE_INVALID"),
        ("SELECT 1 AS x FORMAT CSV", "DPONE_SOURCE_INVALID"),
    ],
)
def test_what_is_not_a_reading_query_is_refused(endpoint: Endpoint, sql: str, code: str) -> None:
    assert failure(sql, endpoint).code == code


def test_a_query_changes_nothing(endpoint: Endpoint, database: str, sql: Any) -> None:
    sql(f"CREATE TABLE {database}.v (x UInt8) ENGINE = MergeTree ORDER BY x")
    for text in (f"INSERT INTO {database}.v SELECT 1", f"DROP TABLE {database}.v", f"TRUNCATE TABLE {database}.v"):
        assert failure(text, endpoint).code == "DPONE_SOURCE_INVALID"
    assert sql(f"SELECT count() FROM {database}.v") == [(0,)]


def test_wrong_password_and_unreachable_server(endpoint: Endpoint) -> None:
    wrong = attrs.evolve(endpoint, password="p@ss'w/rd")
    error = failure("SELECT 1", wrong)
    assert error.code == "DPONE_SERVER_AUTHENTICATION"
    assert "p@ss" not in str(error)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = attrs.evolve(endpoint, http_port=free.getsockname()[1])
    assert failure("SELECT 1", nobody).code == "DPONE_SERVER_UNREACHABLE"


def test_closing_early_cancels_the_query_on_the_server(endpoint: Endpoint, sql: Any) -> None:
    mark = "dpone_cancel_probe"
    running = f"SELECT count() FROM system.processes WHERE query LIKE '%{mark}%' AND query NOT LIKE '%processes%'"
    with query(f"SELECT number, '{mark}' AS m FROM system.numbers", endpoint) as source:
        batches = source.batches()
        next(batches)
        assert sql(running) == [(1,)]
    deadline = time.monotonic() + 10
    while sql(running) != [(0,)]:
        assert time.monotonic() < deadline, "the query still runs"
        time.sleep(0.05)


def test_no_request_is_sent_twice(endpoint: Endpoint, proxied: Endpoint, http: TcpProxy) -> None:
    http.rule("lose_reply", match=b"ArrowStream")
    assert failure("SELECT 1 AS once", proxied).code == "DPONE_SOURCE_FAILED"
    assert http.seen(b"FORMAT ArrowStream") == 1


def _ipc() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array([1], pa.int64())], names=["x"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _fake(http: TcpProxy, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Type: application/octet-stream\r\nContent-Length: "
    http.rule("answer", match=b"FORMAT ArrowStream", payload=head + str(len(body)).encode() + b"\r\n\r\n" + body)


def _answered(proxied: Endpoint, http: TcpProxy, body: bytes) -> DponeError:
    _fake(http, body)
    return failure("SELECT toInt64(1) AS x", proxied)


class Cutter(TcpProxy):
    """Cuts the connection after so many bytes from the server in answer to the stream's query."""

    def __init__(self, endpoint: Endpoint, after: int) -> None:
        super().__init__(endpoint.http_port)
        self._after = after

    def _downstream(self, link: Any) -> None:
        passed = 0
        try:
            while data := link.server.recv(65_536):
                if b"FORMAT ArrowStream" in bytes(link.carried):
                    data = data[: max(0, self._after - passed)]
                    passed += len(data)
                link.client.sendall(data)
                if passed >= self._after:
                    break
        except OSError:
            pass
        link.close()
