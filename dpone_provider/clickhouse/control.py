"""The control plane: one native TCP connection on which every statement is put at most once (A4).

The driver pings and reconnects, and tries further hosts, before a statement; none of that is used here. The connection
is checked before a statement is sent, and what happens after that is a verdict, never a second send.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import attrs

from dpone_provider.clickhouse.driver import Client, QueryInfo, errors
from dpone_provider.clickhouse.endpoint import AUTHENTICATION_CODES, PASSING_CODES, Endpoint
from dpone_provider.clickhouse.pins import Settings
from dpone_provider.errors import DponeError
from dpone_provider.unwinding import on_failure
from dpone_provider.wire import Effect, StatementFailed, Wire

_BROKEN = (errors.Error, EOFError, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""What the driver raises for a torn wire, and (from ValueError on) for bytes that are not what it expects."""

logging.getLogger("clickhouse_driver").setLevel(logging.CRITICAL)  # its warnings carry tracebacks and server text


Received = tuple[list[tuple[Any, ...]], Sequence[tuple[str, str]]]


class _Client(Client):  # type: ignore[misc]
    """The driver's client without its hidden ping, reconnect and failover in front of every statement."""

    def establish_connection(self, settings: Mapping[str, Any] | None) -> None:
        self.make_query_settings(settings)
        self.last_query = QueryInfo()


@attrs.frozen(kw_only=True)
class Answer:
    """Rows, and the ``(name, type)`` of their columns as the server announced them."""

    rows: list[tuple[Any, ...]]
    columns: tuple[tuple[str, str], ...]


class ControlClient:
    """Statements to one server, one after another, over one lazily opened connection.

    Raises ``StatementFailed`` with the server's error number, or with None when no clean answer came; then, and after
    any other exception, the connection is dropped, and the next statement opens a new one. The first connection
    attempt raises ``DponeError`` DPONE_SERVER_UNREACHABLE, DPONE_SERVER_AUTHENTICATION or DPONE_SERVER_REFUSED
    instead; a later one that fails is a ``StatementFailed`` like any other, because the caller may be in the middle of
    something. ``met``: somebody else was connected before, so the first one counts as a later one too. Not for two
    threads.
    """

    def __init__(self, endpoint: Endpoint, wire: Wire, *, met: bool = False) -> None:
        self.endpoint = endpoint
        self._wire = wire
        self._client: _Client | None = None
        self._met = met

    def query(
        self, effect: Effect, sql: str, params: Mapping[str, Any] | None = None, *, settings: Settings | None = None
    ) -> list[tuple[Any, ...]]:
        """Send one SELECT and return its rows. ``params`` fill ``{name:Type}`` places on the server's side."""
        return self._wire.send(effect, lambda: self._select(sql, params, settings)[0])

    def read(
        self,
        effect: Effect,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        settings: Settings,
        within: float | None = None,
    ) -> Answer:
        """Send one SELECT and return its rows with the columns that the server announced.

        ``within``: seconds that no socket operation of this statement may outlast, the connection's included.
        """
        if within is not None:
            self._bound(within)
        rows, columns = self._wire.send(effect, lambda: self._select(sql, params, settings))
        return Answer(rows=rows, columns=tuple((name, kind) for name, kind in columns))

    def command(
        self, effect: Effect, sql: str, params: Mapping[str, Any] | None = None, *, settings: Settings | None = None
    ) -> None:
        """Send one statement that has no result."""
        self._wire.send(effect, lambda: self._send(sql, dict(params or {}), settings))

    def insert_row(self, effect: Effect, sql: str, row: tuple[Any, ...], *, settings: Settings | None = None) -> None:
        """Send one ``INSERT … VALUES`` with one row as a native block: no value is written into SQL."""
        self._wire.send(effect, lambda: self._send(sql, [row], settings))

    def close(self) -> None:
        """Drop the connection, if there is one; a later statement opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()

    def _bound(self, seconds: float) -> None:
        """No socket operation from now on takes longer than this."""
        where = self.endpoint
        connect, receive = min(where.connect_timeout, seconds), min(where.receive_timeout, seconds)
        self.endpoint = attrs.evolve(where, connect_timeout=connect, receive_timeout=receive)
        if self._client is not None and self._client.connection.connected:
            self._client.connection.sync_request_timeout = connect
            self._client.connection.socket.settimeout(receive)

    def _select(self, sql: str, params: Mapping[str, Any] | None, settings: Settings | None) -> Received:
        """An answer that announced no columns is none: no row of it would be a fact."""
        rows, columns = self._send(sql, dict(params or {}), settings)
        if not columns:
            raise StatementFailed(None, "an answer without columns")
        return rows, columns

    def _send(self, sql: str, params: Any, settings: Settings | None) -> Received:
        client = self._ready()
        sent = dict(settings or {})
        # What a server does not know cannot change what it reads; of a write, every setting has to be understood.
        client.connection.settings_is_important = "readonly" not in sent
        with on_failure(self.close):
            try:
                answer = client.execute(sql, params, settings=sent, with_column_types=True)
            except errors.ServerException as error:
                raise StatementFailed(error.code) from None
            except (errors.SocketTimeoutError, TimeoutError):
                raise StatementFailed(None, "timed out") from None
            except _BROKEN:
                raise StatementFailed(None) from None
        return answer if isinstance(answer, tuple) else ([], ())

    def _ready(self) -> _Client:
        if self._client is not None and not self._alive(self._client):
            self.close()
        if self._client is None:
            self._client = self._open()
            self._met = True
        return self._client

    def _alive(self, client: _Client) -> bool:
        if not client.connection.connected:
            return False
        with on_failure(self.close):
            try:
                return bool(client.connection.ping())
            except _BROKEN:
                return False

    def _open(self) -> _Client:
        client = _new_client(self.endpoint)
        with on_failure(client.disconnect):
            try:
                client.connection.connect()
            except errors.ServerException as error:
                self._refused(error.code)
            except _BROKEN:
                self._unreachable()
        return client

    def _refused(self, code: int) -> NoReturn:
        if self._met:
            raise StatementFailed(code) from None
        if code in AUTHENTICATION_CODES:
            raise DponeError("DPONE_SERVER_AUTHENTICATION") from None
        problem = f"The server refused the connection with error {code}."
        raise DponeError("DPONE_SERVER_REFUSED", problem, retryable=code in PASSING_CODES) from None

    def _unreachable(self) -> NoReturn:
        if self._met:
            raise StatementFailed(None, "not reachable") from None
        where = f"{self.endpoint.host}, native port {self.endpoint.native_port}"
        raise DponeError("DPONE_SERVER_UNREACHABLE", f"The ClickHouse server does not answer at {where}.") from None


def _new_client(endpoint: Endpoint) -> _Client:
    client = _Client(
        host=endpoint.host,
        port=endpoint.native_port,
        database="",
        user=endpoint.user,
        password=endpoint.password,
        client_name="dpone",
        secure=endpoint.secure,
        verify=endpoint.verify,
        ca_certs=endpoint.ca,
        connect_timeout=endpoint.connect_timeout,
        sync_request_timeout=endpoint.connect_timeout,
        send_receive_timeout=endpoint.receive_timeout,
        disable_reconnect=True,
        settings_is_important=True,
        settings={"server_side_params": True},
    )
    if endpoint.ca is None:  # the driver would take certifi's bundle; the HTTP side takes the system's
        client.connection.ssl_options.pop("ca_certs", None)
    return client
