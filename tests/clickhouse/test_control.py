"""A statement is on the wire at most once, and every outcome is a verdict without the driver's words."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.wire import DirectWire, StatementFailed
from tests.clickhouse.conftest import ASK
from tests.wirelab import TcpProxy

Sql = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[[Endpoint], ControlClient]
STATEMENT = b"CREATE TABLE"


def create(client: ControlClient, database: str, name: str = "t") -> None:
    client.command(ASK, f"CREATE TABLE {database}.{name} (a Int8) ENGINE = Memory")


def tables(sql: Sql, database: str) -> list[str]:
    return [
        name for (name,) in sql("SELECT name FROM system.tables WHERE database = %(d)s ORDER BY name", {"d": database})
    ]


@pytest.mark.contract("A4")
@pytest.mark.parametrize("action", ["refuse", "close", "lose_reply"])
def test_a_torn_statement_is_sent_once_and_is_unknown(
    torn: ControlClient, native: TcpProxy, database: str, sql: Sql, action: Any
) -> None:
    native.rule(action, match=STATEMENT)
    with pytest.raises(StatementFailed) as caught:
        create(torn, database)
    assert caught.value.code is None
    time.sleep(0.3)
    assert (native.seen(STATEMENT), native.connections) == (1, 1)
    if action != "close":
        assert tables(sql, database) == ([] if action == "refuse" else ["t"])


@pytest.mark.contract("A3", "R9")
def test_a_select_that_is_answered_by_an_end_mark_alone_has_no_answer(torn: ControlClient, native: TcpProxy) -> None:
    """A real server announces the columns first; without them, "no row" would be made up."""
    torn.query(ASK, "SELECT 1")
    native.rule("answer", match=b"no_such_table", payload=b"\x05")
    with pytest.raises(StatementFailed) as caught:
        torn.query(ASK, "SELECT name FROM system.tables WHERE name = 'no_such_table'")
    assert caught.value.code is None


@pytest.mark.contract("A4")
def test_a_statement_that_tears_halfway_is_sent_once(torn: ControlClient, native: TcpProxy, database: str) -> None:
    torn.query(ASK, "SELECT 1")
    before = native.client_bytes
    native.rule("refuse", after=before + 100_000)
    with pytest.raises(StatementFailed) as caught:
        torn.query(ASK, "SELECT length({x:String})", {"x": "y" * 900_000})
    assert (caught.value.code, native.connections) == (None, 1)


@pytest.mark.contract("A4")
def test_the_statement_after_a_torn_one_opens_a_new_connection(
    torn: ControlClient, native: TcpProxy, database: str
) -> None:
    native.rule("close", match=STATEMENT)
    with pytest.raises(StatementFailed):
        create(torn, database)
    assert torn.query(ASK, "SELECT 1") == [(1,)]
    assert native.connections == 2


@pytest.mark.contract("A4")
def test_an_idle_connection_that_died_is_replaced_before_the_statement_is_sent(
    torn: ControlClient, native: TcpProxy, database: str, sql: Sql
) -> None:
    torn.query(ASK, "SELECT 1")
    native.close_all()
    create(torn, database)
    assert (native.seen(STATEMENT), native.connections, tables(sql, database)) == (1, 2, ["t"])


@pytest.mark.contract("A4", "P3")
def test_a_held_statement_times_out_once_and_may_still_be_applied_later(
    endpoint: Endpoint, native: TcpProxy, database: str, sql: Sql, connect: Connect
) -> None:
    client = connect(attrs.evolve(endpoint, native_port=native.port, receive_timeout=0.5))
    held = native.rule("hold", match=STATEMENT)
    with pytest.raises(StatementFailed) as caught:
        create(client, database)
    assert (caught.value.code, caught.value.reason) == (None, "timed out")
    assert tables(sql, database) == []
    held.release()
    until = time.monotonic() + 5
    while not tables(sql, database) and time.monotonic() < until:
        time.sleep(0.02)
    assert (tables(sql, database), native.seen(STATEMENT)) == (["t"], 1)


def test_a_server_error_is_its_number_and_the_next_statement_works(client: ControlClient, database: str) -> None:
    with pytest.raises(StatementFailed) as caught:
        client.query(ASK, f"SELECT secret_word FROM {database}.nowhere")
    assert caught.value.code == 60
    assert "secret_word" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert client.query(ASK, "SELECT 1") == [(1,)]


def test_a_setting_that_the_server_does_not_know_is_an_error_not_ignored(client: ControlClient) -> None:
    with pytest.raises(StatementFailed) as caught:
        client.query(ASK, "SELECT 1", settings={"no_such_setting": 1})
    assert caught.value.code == 115


@pytest.mark.contract("A4")
def test_an_interrupt_in_the_middle_drops_the_connection(
    torn: ControlClient, native: TcpProxy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stop

    torn.query(ASK, "SELECT 1")
    with monkeypatch.context() as patched:
        patched.setattr("clickhouse_driver.connection.Connection.receive_packet", stop)
        with pytest.raises(Stop):
            create(torn, database)
    assert torn.query(ASK, "SELECT 1") == [(1,)]
    assert (native.seen(STATEMENT), native.connections) == (1, 2)


def test_an_unreachable_server_is_named_without_the_drivers_words(endpoint: Endpoint, wire: DirectWire) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for unreachable in (attrs.evolve(endpoint, native_port=port), attrs.evolve(endpoint, host="no-such-host.invalid")):
        with pytest.raises(DponeError) as caught:
            ControlClient(unreachable, wire).query(ASK, "SELECT 1")
        assert (caught.value.code, caught.value.retryable) == ("DPONE_SERVER_UNREACHABLE", True)
        assert "rrno" not in str(caught.value)


def test_a_server_that_accepts_and_says_nothing_is_unreachable_within_the_timeout(
    endpoint: Endpoint, wire: DirectWire
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = attrs.evolve(endpoint, native_port=listener.getsockname()[1], receive_timeout=0.4)
        with pytest.raises(DponeError, match="DPONE_SERVER_UNREACHABLE"):
            ControlClient(silent, wire).query(ASK, "SELECT 1")


def test_a_server_that_goes_away_later_is_a_failed_statement(torn: ControlClient, native: TcpProxy) -> None:
    torn.query(ASK, "SELECT 1")
    native.close()
    with pytest.raises(StatementFailed) as caught:
        torn.query(ASK, "SELECT 1")
    assert (caught.value.code, caught.value.reason) == (None, "not reachable")


@pytest.mark.parametrize("change", [{"password": "p@ss'w/rd"}, {"user": "nobody"}])
def test_wrong_credentials_are_said_and_never_shown(
    endpoint: Endpoint, wire: DirectWire, change: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Field report B19."""
    with pytest.raises(DponeError) as caught:
        ControlClient(attrs.evolve(endpoint, **change), wire).query(ASK, "SELECT 1")
    assert (caught.value.code, caught.value.retryable) == ("DPONE_SERVER_AUTHENTICATION", False)
    assert "p@ss" not in str(caught.value) + caplog.text


def test_every_statement_goes_through_the_wire_and_nothing_is_opened_before(endpoint: Endpoint) -> None:
    wire = DirectWire()
    client = ControlClient(attrs.evolve(endpoint, host="no-such-host.invalid"), wire)
    client.close()
    assert not wire.counts
    client = ControlClient(endpoint, wire)
    client.query(ASK, "SELECT 1")
    client.command(ASK, "SELECT 1")
    assert wire.counts["query"] == 2
    client.close()
