"""What the tests of the sources share: an endpoint, a wire, a table filled through the real bulk path."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pyarrow as pa
import pytest

from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.sandbox.folder import RunningSandbox
from dpone_provider.sources.fit import plan_fit
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import Sql
from tests.sources.typed_hash_stage import Stage
from tests.wirelab import TcpProxy

Load = Callable[[str, pa.Array], list[str | None]]


@pytest.fixture
def wire() -> DirectWire:
    return DirectWire()


@pytest.fixture
def endpoint(sandbox: RunningSandbox) -> Endpoint:
    return attrs.evolve(sandbox.endpoint, receive_timeout=30.0)


@pytest.fixture
def http(endpoint: Endpoint) -> Iterator[TcpProxy]:
    """A proxy in front of the HTTP port."""
    with TcpProxy(endpoint.http_port) as proxy:
        yield proxy


@pytest.fixture
def proxied(endpoint: Endpoint, http: TcpProxy) -> Endpoint:
    """The server, dialled through the proxy."""
    return attrs.evolve(endpoint, http_port=http.port)


@pytest.fixture
def load(endpoint: Endpoint, database: str, sql: Callable[..., list[tuple[object, ...]]], wire: DirectWire) -> Load:
    """``load(ClickHouse type, Arrow array)``: fit the array, insert it into a new table ``v``, read it back as text."""

    def run(kind: str, array: pa.Array) -> list[str | None]:
        numbers = pa.array(range(len(array)), pa.uint32())
        batch = pa.record_batch([numbers, array], names=["i", "v"])
        fit = plan_fit(batch.schema, (("i", "UInt32"), ("v", kind)))
        converted = fit.convert(batch)
        converted.validate(full=True)
        sql(f"DROP TABLE IF EXISTS {database}.v SYNC")
        sql(f"CREATE TABLE {database}.v (i UInt32, v {kind}) ENGINE = MergeTree ORDER BY i")
        insert_stream(
            endpoint,
            database=database,
            table="v",
            columns=("i", "v"),
            schema=fit.wire_schema,
            batches=[converted],
            wire=wire,
        )
        text = "hex(v)" if "FixedString" in kind else "toString(v)"
        return [row[0] for row in sql(f"SELECT {text} FROM {database}.v ORDER BY i")]

    return run


@pytest.fixture
def stage(endpoint: Endpoint, database: str, sql: Sql) -> Iterator[Stage]:
    """Both sides of a typed hash."""
    client = ControlClient(endpoint, DirectWire())
    yield Stage(sql=sql, endpoint=endpoint, database=database, client=client)
    client.close()
