"""What the tests of the ClickHouse adapters share: a counting wire, an endpoint, a client, a proxy for each port."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.sandbox.folder import RunningSandbox
from dpone_provider.wire import DirectWire, Effect
from tests.wirelab import TcpProxy

ASK = Effect(kind="query", what="a test's statement")


def endpoint_of(running: RunningSandbox) -> Endpoint:
    return attrs.evolve(running.endpoint, receive_timeout=30.0)


@pytest.fixture
def wire() -> DirectWire:
    return DirectWire()


@pytest.fixture
def endpoint(sandbox: RunningSandbox) -> Endpoint:
    return endpoint_of(sandbox)


@pytest.fixture
def connect(wire: DirectWire) -> Iterator[Callable[[Endpoint], ControlClient]]:
    """Makes control clients and closes them after the test."""
    made: list[ControlClient] = []

    def new(endpoint: Endpoint) -> ControlClient:
        made.append(ControlClient(endpoint, wire))
        return made[-1]

    yield new
    for client in made:
        client.close()


@pytest.fixture
def client(endpoint: Endpoint, connect: Callable[[Endpoint], ControlClient]) -> ControlClient:
    return connect(endpoint)


@pytest.fixture
def native(endpoint: Endpoint) -> Iterator[TcpProxy]:
    """A proxy in front of the native port."""
    with TcpProxy(endpoint.native_port) as proxy:
        yield proxy


@pytest.fixture
def http(endpoint: Endpoint) -> Iterator[TcpProxy]:
    """A proxy in front of the HTTP port."""
    with TcpProxy(endpoint.http_port) as proxy:
        yield proxy


@pytest.fixture
def torn(endpoint: Endpoint, native: TcpProxy, connect: Callable[[Endpoint], ControlClient]) -> ControlClient:
    """A client whose statements pass the native proxy."""
    return connect(attrs.evolve(endpoint, native_port=native.port))
