"""What is refused before the source is touched, and how near the forecast of a distinct count's memory is."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.reader import queries
from dpone_provider.reader.admission import (
    admit_reader_settings,
    approximate_distinct,
    forecast_distinct_memory,
    refuse_distinct_memory,
    refuse_unsupported_metrics,
)
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import Sql
from tests.wirelab import TcpProxy

CODE = "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED"


@pytest.fixture
def client(sandbox: RunningSandbox) -> Iterator[ControlClient]:
    made = ControlClient(sandbox.endpoint, DirectWire())
    yield made
    made.close()


@pytest.mark.contract("R1", "R7")
def test_a_user_who_can_pin_everything_is_admitted_by_reading(client: ControlClient) -> None:
    admit_reader_settings(client)
    assert isinstance(client._wire, DirectWire)
    assert client._wire.counts == {"catalog_read": 2}


@pytest.mark.contract("R1")
def test_a_user_who_cannot_read_the_catalog_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    poor = SandboxUser(name="poor", password="x", grants=("GRANT SELECT ON system.settings",))
    server = SandboxServer()
    folder = tmp_path_factory.mktemp("poor")
    running = server.start(SandboxConfig(folder=folder, users=(poor,), bound_to_starter=True))
    client = ControlClient(attrs.evolve(running.endpoint, user="poor", password="x"), DirectWire())
    try:
        with pytest.raises(DponeError) as raised:
            admit_reader_settings(client)
    finally:
        client.close()
        server.stop(folder)
    assert raised.value.code == CODE
    assert "row_policies" in raised.value.next_step


def test_a_server_that_goes_away_is_not_the_manifests_fault(sandbox: RunningSandbox) -> None:
    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("refuse", match=b"system.mutations")
        client = ControlClient(attrs.evolve(sandbox.endpoint, native_port=proxy.port), DirectWire())
        with pytest.raises(DponeError) as raised:
            admit_reader_settings(client)
        client.close()
    assert raised.value.code == "DPONE_SERVER_UNREACHABLE"


COLUMNS = (
    ("id", "UInt64"),
    ("n", "Nullable(String)"),
    ("f", "Nullable(Float64)"),
    ("t", "Tuple(a Int8, b Array(Float32))"),
    ("m", "Map(LowCardinality(String), BFloat16)"),
    ("j", "JSON"),
    ("a", "Array(Nullable(Decimal(9, 2)))"),
)


@pytest.mark.contract("C6")
def test_every_type_has_its_nulls_counted() -> None:
    refuse_unsupported_metrics(COLUMNS, [name for name, _ in COLUMNS], ["id", "n", "a"], required=True)


@pytest.mark.contract("C6")
@pytest.mark.parametrize("name", ["f", "t", "m", "j"])
def test_a_required_distinct_count_of_floats_is_refused(name: str) -> None:
    with pytest.raises(DponeError) as raised:
        refuse_unsupported_metrics(COLUMNS, (), ("id", name), required=True)
    assert (raised.value.code, raised.value.target_commit) == (CODE, "not_started")
    assert f"column {name} " in raised.value.message
    refuse_unsupported_metrics(COLUMNS, (), ("id", name), required=False)


@pytest.mark.contract("C6")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(("nulls", "distinct"), [(("no",), ()), ((), ("no",))])
def test_an_unknown_column_is_refused(nulls: tuple[str, ...], distinct: tuple[str, ...], required: bool) -> None:
    with pytest.raises(DponeError) as raised:
        refuse_unsupported_metrics(COLUMNS, nulls, distinct, required=required)
    assert raised.value.code == CODE
    assert "no column no" in raised.value.message


@pytest.mark.contract("C6")
def test_at_most_256_columns() -> None:
    columns = tuple((f"c{number}", "UInt8") for number in range(300))
    names = [name for name, _ in columns]
    refuse_unsupported_metrics(columns, names[:200], names[100:256], required=True)
    with pytest.raises(DponeError) as raised:
        refuse_unsupported_metrics(columns, names[:200], names[100:257], required=True)
    assert raised.value.code == CODE
    assert "c256" in raised.value.message


@pytest.mark.contract("C6")
def test_the_columns_together_must_fit() -> None:
    columns = (("id", "UInt64"), ("s", "String"), ("k", "LowCardinality(String)"))
    forecast = forecast_distinct_memory(
        columns, ("id", "s", "k"), rows=10_000_000, distinct_counts={"id": 3_000_000, "k": 10}
    )
    assert forecast["s"] > forecast["id"] > forecast["k"]
    refuse_distinct_memory({"id": forecast["id"], "k": forecast["k"]})
    with pytest.raises(DponeError) as raised:
        refuse_distinct_memory(forecast)
    assert (raised.value.code, raised.value.target_commit) == (CODE, "not_started")
    assert "column s," in raised.value.message
    refuse_distinct_memory(forecast, max_memory_bytes=2**33)


def test_the_forecast_never_has_more_values_than_rows() -> None:
    one = forecast_distinct_memory((("s", "String"),), ("s",), rows=100, distinct_counts={})
    assert one == forecast_distinct_memory((("s", "String"),), ("s",), rows=100, distinct_counts={"s": 10**9})


@pytest.mark.contract("C6")
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_forecast_is_above_what_the_server_takes(
    client: ControlClient, database: str, sql: Sql, repeats: int
) -> None:
    """1.1 million values, just past where a hash table has grown fourfold: the worst that a value can cost."""
    distinct = 1_100_000
    columns = (("u", "UInt64"), ("s", "String"), ("i", "Int256"))
    declared = ", ".join(f"{name} {kind}" for name, kind in columns)
    sql(f"CREATE TABLE {database}.t ({declared}) ENGINE = MergeTree ORDER BY tuple()")
    sql(
        f"INSERT INTO {database}.t SELECT number % {distinct}, toString(number % {distinct}), number % {distinct} "
        f"FROM numbers({distinct * repeats})"
    )
    forecast = forecast_distinct_memory(
        columns, ("u", "s", "i"), rows=distinct * repeats, distinct_counts=dict.fromkeys("usi", distinct)
    )
    for name in forecast:
        mark = secrets.token_hex(16)
        settings = queries.pinned(seconds=60, max_memory_bytes=2**32)
        assert sql(f"SELECT uniqExact({name}) FROM {database}.t", query_id=mark, settings=settings) == [(distinct,)]
        sql("SYSTEM FLUSH LOGS query_log")
        taken = sql(f"SELECT memory_usage FROM system.query_log WHERE query_id = '{mark}' AND type = 'QueryFinish'")
        assert taken[0][0] <= forecast[name] <= 6 * taken[0][0], name


@pytest.mark.contract("C6")
def test_the_estimate_is_near_enough(client: ControlClient, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.t (`a``b` UInt64, s Nullable(String)) ENGINE = MergeTree ORDER BY tuple()")
    sql(f"INSERT INTO {database}.t SELECT number, if(number % 2 = 0, NULL, toString(number)) FROM numbers(200000)")
    found = approximate_distinct(client, database, "t", ("a`b", "s"))
    assert 200_000 <= found["a`b"] <= 220_000
    assert 100_000 <= found["s"] <= 110_000
    assert approximate_distinct(client, database, "t", ()) == {}
