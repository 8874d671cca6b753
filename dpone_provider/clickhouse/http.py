"""The HTTP driver's client as every bulk transfer uses it: one connection, no retry, no redirect, nothing logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import urllib3
from clickhouse_connect.driver import httputil
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError
from clickhouse_connect.driver.httpclient import HttpClient

from dpone_provider.clickhouse.endpoint import AUTHENTICATION_CODES, Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.wire import StatementFailed

logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # its warnings carry server text


class Pool(urllib3.PoolManager):
    """The driver's connections: a request is sent once and never follows a redirect (A4).

    Once ``guarded``, a second request is refused.
    """

    guarded = False
    _asked = 0

    def guard(self) -> None:
        """The next request is the only one until the next call."""
        self.guarded, self._asked = True, 0

    def request(self, method: str, url: str, *args: Any, **options: Any) -> urllib3.BaseHTTPResponse:
        self._asked += 1
        if self.guarded and self._asked > 1:
            raise OperationalError("the driver was about to send the request again")
        options.update(retries=False, redirect=False)
        return super().request(method, url, *args, **options)


P = TypeVar("P", bound=Pool)


def open_pool(endpoint: Endpoint, kind: type[P]) -> P:
    """One connection's pool, not connected yet; give it to ``close_pool``."""
    return kind(
        num_pools=1,
        maxsize=1,
        retries=False,
        cert_reqs="CERT_REQUIRED" if endpoint.verify else "CERT_NONE",
        ca_certs=endpoint.ca,
        socket_options=httputil.core_socket_options,
    )


def close_pool(pool: Pool) -> None:
    """Close the connection, and let the driver forget the pool."""
    pool.clear()
    httputil.all_managers.pop(pool, None)


@contextmanager
def pooled(endpoint: Endpoint, kind: type[P]) -> Iterator[P]:
    """A pool that is closed on every path."""
    pool = open_pool(endpoint, kind)
    try:
        yield pool
    finally:
        close_pool(pool)


def open_client(endpoint: Endpoint, pool: Pool) -> HttpClient:
    """The driver's client after its handshake.

    Raises ``DponeError`` DPONE_SERVER_UNREACHABLE or DPONE_SERVER_AUTHENTICATION, ``StatementFailed`` for any other
    refusal.
    """
    try:
        client = HttpClient(
            interface="https" if endpoint.secure else "http",
            host=endpoint.host,
            port=endpoint.http_port,
            username=endpoint.user,
            password=endpoint.password,
            database=None,
            compress=False,
            query_retries=0,
            connect_timeout=max(1, round(endpoint.connect_timeout)),
            send_receive_timeout=max(1, round(endpoint.receive_timeout)),
            client_name="dpone",
            verify=endpoint.verify,
            pool_mgr=pool,
            show_clickhouse_errors=False,
            autogenerate_session_id=False,
            autogenerate_query_id=False,
        )
    except OperationalError as error:
        if not isinstance(error.__cause__, urllib3.exceptions.HTTPError):
            raise StatementFailed(code_of(error), "no clean answer to the handshake") from None
        where = f"{endpoint.host}, HTTP port {endpoint.http_port}"
        raise DponeError("DPONE_SERVER_UNREACHABLE", f"The ClickHouse server does not answer at {where}.") from None
    except ClickHouseError as error:
        code = code_of(error)
        if code in AUTHENTICATION_CODES:
            raise DponeError("DPONE_SERVER_AUTHENTICATION") from None
        raise StatementFailed(code) from None
    client.http_retries = 0
    return client


def code_of(error: ClickHouseError) -> int | None:
    """The server's error number that the driver found, None = none."""
    code = getattr(error, "code", None)
    return code if type(code) is int else None
