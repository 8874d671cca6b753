"""Rows into a live table: acknowledged rows are there, and what the server says of them is passed on as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest

from dpone_provider.clickhouse.append import append_rows
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import SandboxServer
from dpone_provider.wire import DirectWire, StatementFailed
from tests.clickhouse.conftest import endpoint_of
from tests.sandbox_fixture import Sql, ask
from tests.wire.faults import FAULTS, Fault
from tests.wire.task import TaskTimeout, timeout_after
from tests.wirelab import TcpProxy

SCHEMA = pa.schema([("a", pa.int64())])
REQUEST = b"query=INSERT"


def batch(numbers: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


class Append:
    """One append into ``table``. ``started``: how often it said that it starts."""

    def __init__(self, endpoint: Endpoint, database: str, wire: DirectWire) -> None:
        self.endpoint, self.database, self.wire = endpoint, database, wire
        self.started = 0

    def __call__(self, batches: Iterable[pa.RecordBatch], table: str = "t", **options: Any) -> int | None:
        def start() -> None:
            self.started += 1

        names: dict[str, Any] = {"database": self.database, "table": table, "columns": ["a"], "schema": SCHEMA}
        return append_rows(self.endpoint, batches=batches, wire=self.wire, started=start, **{**names, **options})


@pytest.fixture
def append(endpoint: Endpoint, database: str, sql: Sql, wire: DirectWire) -> Append:
    sql(f"CREATE TABLE {database}.t (a Int64) ENGINE = MergeTree ORDER BY a")
    return Append(endpoint, database, wire)


def count(sql: Sql, database: str, table: str = "t") -> int:
    return int(sql(f"SELECT count() FROM {database}.{table}")[0][0])


def failed(call: Callable[[], object]) -> int | None:
    with pytest.raises(StatementFailed) as caught:
        call()
    return caught.value.code


def test_rows_are_added_and_the_server_says_how_many(append: Append, database: str, sql: Sql, wire: DirectWire) -> None:
    assert append([batch([1, 2]), batch([3])]) == 3
    assert append(batch(range(60_000)) for _ in range(30)) == 1_800_000
    assert count(sql, database) == 1_800_003
    assert (wire.counts, append.started) == ({"append": 2}, 2)


def test_the_same_rows_again_are_not_taken_for_duplicates(append: Append, database: str, sql: Sql) -> None:
    sql(f"ALTER TABLE {database}.t MODIFY SETTING non_replicated_deduplication_window = 100")
    assert [append([batch([1])]) for _ in range(2)] == [1, 1]
    assert count(sql, database) == 2


def test_without_rows_nothing_is_sent(append: Append, wire: DirectWire, http: TcpProxy) -> None:
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port)
    assert append([]) == 0
    assert (wire.counts["append"], append.started, http.connections) == (0, 0, 0)


def test_the_first_rows_are_there_before_the_server_is_asked(append: Append, http: TcpProxy) -> None:
    """A source that takes its time to begin must not run into the server's patience."""
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port)
    seen: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        seen.append(http.connections)
        yield batch([1])

    assert append(source()) == 1
    assert seen == [0]


def test_rows_of_views_are_no_answer_about_ours(append: Append, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.m (a Int64) ENGINE = MergeTree ORDER BY a")
    sql(f"CREATE MATERIALIZED VIEW {database}.v TO {database}.m AS SELECT a FROM {database}.t")
    assert append([batch([1, 2])]) == 4, "the server counts the view's rows too"
    assert append([batch([3])], feeds_views=True) is None
    assert count(sql, database, "m") == 3


# -- a failure says no more than is known ---


def test_a_refusal_of_a_view_leaves_the_rows_behind(append: Append, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.m (a Int64) ENGINE = MergeTree ORDER BY a")
    view = f"CREATE MATERIALIZED VIEW {database}.v TO {database}.m AS SELECT a + throwIf(a = 2) AS a FROM {database}.t"
    sql(view)
    assert failed(lambda: append([batch([1, 2])])) == 395
    assert (append.started, count(sql, database)) == (1, 2), "refused, and written"


def test_a_refusal_in_the_middle_leaves_blocks_behind(append: Append, database: str, sql: Sql) -> None:
    sql(f"ALTER TABLE {database}.t ADD CONSTRAINT c CHECK a >= 0")
    stream = [batch(range(1_100_000)), batch(range(1_100_000)), batch([-1])]
    assert failed(lambda: append(stream)) == 469
    assert append.started == 1
    assert 0 <= count(sql, database) <= 2_200_000


@pytest.mark.contract("P8")
def test_a_source_that_dies_before_its_first_rows_has_sent_nothing(append: Append, wire: DirectWire) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        raise DponeError("DPONE_SOURCE_FAILED")
        yield

    with pytest.raises(DponeError, match="DPONE_SOURCE_FAILED"):
        append(source())
    assert (append.started, wire.counts["append"]) == (0, 0)


def test_a_source_that_dies_midway_is_raised_as_it_was_after_the_start(append: Append, database: str, sql: Sql) -> None:
    gone = DponeError("DPONE_SOURCE_FAILED")

    def source() -> Iterator[pa.RecordBatch]:
        yield batch([1])
        raise gone

    with pytest.raises(DponeError) as caught:
        append(source())
    assert caught.value is gone
    assert append.started == 1
    assert count(sql, database) == 0, "less than a block: none of it was written"


@pytest.mark.parametrize(
    ("change", "code"),
    [({"http_port": 1}, "DPONE_SERVER_UNREACHABLE"), ({"password": "wrong"}, "DPONE_SERVER_AUTHENTICATION")],
)
def test_a_server_that_cannot_be_reached_has_got_nothing(append: Append, change: Any, code: str) -> None:
    append.endpoint = attrs.evolve(append.endpoint, **change)
    with pytest.raises(DponeError, match=code):
        append([batch([1])])
    assert append.started == 0


def test_a_handshake_that_is_refused_has_got_nothing(append: Append, http: TcpProxy) -> None:
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port)
    http.rule("lose_reply", match=b"SELECT version()", times=9)
    with pytest.raises((StatementFailed, DponeError)):
        append([batch([1])])
    assert append.started == 0


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (b'{"written_rows":"1"}', 1),
        (b'{"written_rows":"0"}', 0),
        (b'{"written_rows":1}', None),
        (b'{"written_rows":"-1"}', None),
        (b'{"written_rows":"1e3"}', None),
        (b'{"written_rows":"' + b"9" * 30 + b'"}', None),
        (b"{}", None),
        (b"garbage", None),
        (b"", None),
    ],
)
def test_a_number_that_is_none_is_not_said(append: Append, http: TcpProxy, summary: bytes, said: int | None) -> None:
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port)
    head = b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Length: 0\r\n"
    http.rule("answer", match=REQUEST, payload=head + b"X-ClickHouse-Summary: " + summary + b"\r\n\r\n")
    assert append([batch([1])], query_id="q") == said


def test_a_summary_that_the_driver_chokes_on_is_no_answer(append: Append, http: TcpProxy) -> None:
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port)
    answer = b"HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: q\r\nContent-Length: 0\r\nX-ClickHouse-Summary: []\r\n\r\n"
    http.rule("answer", match=REQUEST, payload=answer)
    assert failed(lambda: append([batch([1])], query_id="q")) is None


QUICK = ("closed before", "arrives when its sender is gone", "closed after", "error after", "200 and an exception")
HTTP = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.slow])
    for fault in FAULTS
    if fault.http is not None and not fault.lie
]


@pytest.mark.contract("A4")
@pytest.mark.parametrize("fault", HTTP)
def test_a_fault_at_the_append_is_sent_once_and_never_a_false_number(
    append: Append, database: str, sql: Sql, http: TcpProxy, fault: Fault
) -> None:
    append.endpoint = attrs.evolve(append.endpoint, http_port=http.port, connect_timeout=1.0, receive_timeout=1.0)
    rule = fault.on(http, over_http=True, match=REQUEST)
    said: int | None = None
    try:
        with timeout_after(rule.fired, 2.0):
            said = append([batch([1, 2])], query_id="dpone-fault")
    except StatementFailed:
        pass
    except TaskTimeout:
        assert fault.name in ("drip", "endless progress"), "what no socket timeout sees ends with the task"
    assert rule.fired.is_set()
    rule.release()
    if fault.late:
        time.sleep(0.3)
    assert said is not None or not fault.harmless
    assert (http.seen(REQUEST), append.started) == (1, 1)
    assert said in (None, 2)
    assert count(sql, database) in ((2,) if said else (0, 2))


def test_no_setting_of_a_users_profile_changes_an_append(tmp_path: Any, wire: DirectWire) -> None:
    """Field report B13."""
    poison = {
        "async_insert": 1,
        "wait_for_async_insert": 0,
        "deduplicate_insert": "enable",
        "insert_deduplicate": 1,
        "deduplicate_blocks_in_dependent_materialized_views": 1,
        "materialized_views_ignore_errors": 1,
        "distributed_foreground_insert": 0,
        "input_format_null_as_default": 1,
    }
    server = SandboxServer()
    user = SandboxUser(name="poisoned", password="x", settings=poison)
    running = server.start(SandboxConfig(folder=tmp_path, users=(user,), bound_to_starter=True))
    try:
        ask(running, "CREATE DATABASE d ENGINE = Atomic")
        window = "SETTINGS non_replicated_deduplication_window = 100"
        for name in ("t", "m"):
            ask(running, f"CREATE TABLE d.{name} (a Int64) ENGINE = MergeTree ORDER BY a {window}")
        ask(running, "CREATE MATERIALIZED VIEW d.v TO d.m AS SELECT a + throwIf(a = 9) AS a FROM d.t")
        append = Append(attrs.evolve(endpoint_of(running), user="poisoned", password="x"), "d", wire)
        for _ in range(2):
            append([batch([1, 2])])
        assert [ask(running, f"SELECT count() FROM d.{name}") for name in ("t", "m")] == [[(4,)], [(4,)]]
        assert failed(lambda: append([batch([9])])) == 395
    finally:
        server.stop(running.folder)
