"""The laboratory itself: each fault is what its name says, and the study's checks can fail."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clickhouse_driver import Client

from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import endpoint_of
from tests.wire.readers import Reader
from tests.wire.wires import wires_to
from tests.wirelab import Link, Reply, TcpProxy, native, replies
from tests.wirelab.http import exception_text

PING = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def http_proxy(sandbox: RunningSandbox) -> Iterator[TcpProxy]:
    with TcpProxy(sandbox.http_port) as proxy:
        yield proxy


def dial(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=0.5)


def select(proxy: TcpProxy, sandbox: RunningSandbox) -> tuple[int, bytes]:
    """One SELECT over HTTP without a driver: status and body."""
    line = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    try:
        line.request(
            "POST",
            "/?wait_end_of_query=0",
            "SELECT number FROM numbers(50)",
            {"X-ClickHouse-User": sandbox.user, "X-ClickHouse-Key": sandbox.password},
        )
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


@pytest.mark.parametrize("revision", [54058, 54441, 54460, 54468])
def test_progress_packets_are_valid_for_the_revision_of_the_connection(sandbox: RunningSandbox, revision: int) -> None:
    def three_first(link: Link, data: bytes) -> None:
        packet = native.progress(native.negotiated(bytes(link.carried), link.greeting), rows=7)
        link.client.sendall(packet * 3 + data + link.more())

    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("reply", match=b"SELECT 42", reply=three_first)
        client = Client("127.0.0.1", proxy.port, user=sandbox.user, password=sandbox.password, client_revision=revision)
        told = client.execute_with_progress("SELECT 42")
        assert [rows for rows, _ in told][:3] == [7, 14, 21]
        assert told.get_result() == [(42,)]
        client.disconnect()


@pytest.mark.parametrize("action", ["refuse", "vanish"])
def test_a_closed_connection_ends_in_order_and_the_bytes_never_arrive(http_proxy: TcpProxy, action: Any) -> None:
    http_proxy.rule(action, match=b"/ping")
    with dial(http_proxy) as line:
        line.sendall(PING)
        assert line.recv(100) == b""
    assert http_proxy.links[0].server_bytes == 0
    if action == "vanish":
        with pytest.raises(ConnectionRefusedError):
            dial(http_proxy)


@pytest.mark.parametrize("before", [True, False])
def test_a_reset_is_one(http_proxy: TcpProxy, before: bool) -> None:
    http_proxy.rule("reset" if before else "reply", match=b"/ping", reply=replies.reset)
    with dial(http_proxy) as line:
        line.sendall(PING)
        with pytest.raises(ConnectionResetError):
            line.recv(100)
    assert (http_proxy.links[0].server_bytes == 0) is before


@pytest.mark.parametrize("before", [True, False])
def test_a_silent_connection_stays_open(http_proxy: TcpProxy, before: bool) -> None:
    http_proxy.rule("deaf" if before else "reply", match=b"/ping", reply=replies.silent)
    with dial(http_proxy) as line:
        line.sendall(PING)
        with pytest.raises(TimeoutError):
            line.recv(100)
        line.sendall(PING)
    assert (http_proxy.links[0].server_bytes == 0) is before


def test_a_half_closed_connection_still_takes_bytes(http_proxy: TcpProxy) -> None:
    http_proxy.rule("reply", match=b"/ping", reply=replies.half_closed)
    with dial(http_proxy) as line:
        line.sendall(PING)
        assert line.recv(100) == b""
        line.sendall(PING)
        assert line.recv(100) == b""


def test_a_rule_skips_moments_and_counts_each_once(http_proxy: TcpProxy) -> None:
    rule = http_proxy.rule("answer", match=b"/ping", skip=2, payload=b"third")
    with dial(http_proxy) as line:
        for _ in range(2):
            line.sendall(PING)
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):  # the last chunk: an answer may come in pieces
                answer += line.recv(1000)
            assert b"200 OK" in answer
            assert not rule.fired.is_set()
        line.sendall(PING)
        assert line.recv(1000) == b"third"
    assert http_proxy.seen(b"/ping") == 3


def test_an_exception_behind_status_200_ends_cleanly(http_proxy: TcpProxy, sandbox: RunningSandbox) -> None:
    http_proxy.rule("reply", match=b"numbers(50)", reply=replies.trailed(241))
    status, body = select(http_proxy, sandbox)
    assert (status, body.startswith(b"0\n1\n2\n"), body.endswith(exception_text(241))) == (200, True, True)
    assert b"\n49\n" not in body


def test_an_empty_body_behind_status_200_ends_cleanly(http_proxy: TcpProxy, sandbox: RunningSandbox) -> None:
    http_proxy.rule("reply", match=b"numbers(50)", reply=replies.emptied)
    assert select(http_proxy, sandbox) == (200, b"")


@pytest.mark.parametrize("reply", [replies.cut_in_a_chunk, replies.endless(5, closed=True)], ids=["chunk", "end"])
def test_a_body_that_is_cut_is_incomplete(http_proxy: TcpProxy, sandbox: RunningSandbox, reply: Reply) -> None:
    http_proxy.rule("reply", match=b"numbers(50)", reply=reply)
    with pytest.raises(http.client.IncompleteRead):
        select(http_proxy, sandbox)


def test_a_statement_that_was_sent_twice_is_found(sandbox: RunningSandbox, database: str) -> None:
    with wires_to(endpoint_of(sandbox)) as wires:
        client = Client("127.0.0.1", wires.native.port, user=sandbox.user, password=sandbox.password)
        for name in ("a", "b", "b"):
            client.execute(f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` (x Int8) ENGINE = Memory")
            client.execute(f"DROP TABLE `{database}`.`{name}`")
        client.disconnect()
        assert wires.twice() == [f"DROP TABLE `{database}`.`b`".encode()]


def test_a_reader_who_saw_the_new_rows_go_back_to_the_old_ones_is_heard(
    sandbox: RunningSandbox, database: str, sql: Sql
) -> None:
    for name, row in (("t", 1), ("u", 2)):
        sql(f"CREATE TABLE {name} (id UInt64) ENGINE = MergeTree ORDER BY id", database=database)
        sql(f"INSERT INTO {name} VALUES", [(row,)], database=database)
    with Reader(sandbox, database, "t") as reader:
        reader.expect([1], [2])
        reader.wait_for([1])
        sql("EXCHANGE TABLES t AND u", database=database)
        reader.wait_for([2])
        reader.settled()
        sql("EXCHANGE TABLES t AND u", database=database)
        reader.wait_for([1])
        with pytest.raises(AssertionError):
            reader.settled()
