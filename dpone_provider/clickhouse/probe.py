"""Can we sign in on both planes? For connection tests."""

from __future__ import annotations

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.http import Pool, open_client, pooled
from dpone_provider.errors import DponeError
from dpone_provider.wire import DirectWire, Effect, StatementFailed


def probe(endpoint: Endpoint) -> str:
    """Sign in by native TCP and by HTTP; one sentence with the server's version.

    Raises ``DponeError`` DPONE_SERVER_UNREACHABLE, DPONE_SERVER_AUTHENTICATION or DPONE_SERVER_REFUSED.
    """
    control = ControlClient(endpoint, DirectWire())
    try:
        version = control.query(Effect(kind="query", what="the server's version"), "SELECT version()")[0][0]
        with pooled(endpoint, Pool) as pool:
            open_client(endpoint, pool)
    except StatementFailed as failed:
        raise DponeError("DPONE_SERVER_REFUSED", f"The server answered with {failed}.") from None
    finally:
        control.close()
    return f"ClickHouse {version} answers on the native and on the HTTP port."
