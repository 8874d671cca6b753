"""Generations, their counts, the catalog's facts and the statements that change names."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse import catalog
from dpone_provider.clickhouse.catalog import ClickHouseCatalog, ColumnState, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.publisher import ClickHousePublisher
from dpone_provider.clickhouse.staging import create_generation, staged_count, staged_metrics
from dpone_provider.manifest.spec import PhysicalDesign
from dpone_provider.replay.ports import Catalog, CatalogFacts, NamedTable, Publisher
from dpone_provider.wire import DirectWire, StatementFailed
from tests.clickhouse.conftest import ASK
from tests.wirelab import TcpProxy

Sql = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[[Endpoint], ControlClient]
COLUMNS = (("id", "Int64"), ("na`me", "Nullable(String)"), ("dpone_m0", "LowCardinality(String)"))
PREFIX = "t__dpone_0123456789ab_"


def generation(client: ControlClient, database: str, name: str, **changes: Any) -> str:
    chosen = str(uuid.uuid4())
    options: dict[str, Any] = {"columns": COLUMNS, "design": PhysicalDesign(order_by=("id",)), "comment": ""}
    create_generation(client, database=database, name=name, uuid=chosen, **{**options, **changes})
    return chosen


def fill(client: ControlClient, database: str, name: str, rows: int = 10) -> None:
    client.command(
        ASK,
        f"INSERT INTO {database}.{name} SELECT number, if(number % 5 = 0, NULL, toString(number % 3)), 'x' "
        f"FROM numbers({rows})",
        settings={"async_insert": 0},
    )


# -- staging ---


def test_a_generation_has_the_uuid_comment_and_design_that_were_asked_for(client: ControlClient, database: str) -> None:
    design = PhysicalDesign(
        order_by=("na`me", "intHash32(id)", "id"),
        partition_by="id % 4",
        settings=(("allow_nullable_key", True), ("index_granularity", 1024), ("storage_policy", "default")),
    )
    comment = "author's \\ words\ndpone:op:1"
    chosen = generation(client, database, f"{PREFIX}1", design=design, comment=comment)
    state = table_state(client, database, f"{PREFIX}1")
    assert state is not None
    assert (state.engine, state.uuid, state.comment, state.has_ttl) == ("MergeTree", chosen, comment, False)
    assert (
        state.engine_full
        == (
            "MergeTree PARTITION BY id % 4 ORDER BY (`na\\`me`, intHash32(id), id) "
            "SETTINGS allow_nullable_key = true, index_granularity = 1024, storage_policy = 'default'"
        )
        or "allow_nullable_key = 1" in state.engine_full
    )
    assert state.columns == tuple(ColumnState(name=name, type=kind) for name, kind in COLUMNS)
    assert table_state(client, database, "nowhere") is None


def test_no_sorting_key_is_an_empty_one_and_a_nullable_key_needs_its_setting(
    client: ControlClient, database: str
) -> None:
    generation(client, database, "plain", design=PhysicalDesign())
    with pytest.raises(StatementFailed) as caught:
        generation(client, database, "nullable", design=PhysicalDesign(order_by=("na`me",)))
    assert caught.value.code == 44


def test_a_taken_name_is_refused_with_its_number(client: ControlClient, database: str) -> None:
    generation(client, database, "g")
    with pytest.raises(StatementFailed) as caught:
        generation(client, database, "g")
    assert caught.value.code == 57


def test_counts_are_exact_and_a_column_named_like_an_alias_is_that_column(client: ControlClient, database: str) -> None:
    generation(client, database, "g")
    fill(client, database, "g")
    found = staged_metrics(client, database, "g", ["na`me", "id"], ["dpone_m0", "na`me"])
    assert found.row_count == 10
    assert found.null_counts == (("na`me", 2), ("id", 0))
    assert found.distinct_counts == (("dpone_m0", 1), ("na`me", 3))
    assert staged_count(client, database, "g") == 10


def test_an_empty_generation_has_real_zeros(client: ControlClient, database: str) -> None:
    generation(client, database, "g")
    found = staged_metrics(client, database, "g", ["id"], ["id"])
    assert (found.row_count, found.null_counts, found.distinct_counts) == (0, (("id", 0),), (("id", 0),))


def test_a_generation_that_is_gone_is_a_failure_never_zero(client: ControlClient, database: str) -> None:
    """Field reports B4, B7."""
    with pytest.raises(StatementFailed) as caught:
        staged_count(client, database, "gone")
    assert caught.value.code == 60


def test_an_answer_that_tears_is_a_failure_never_a_count(
    torn: ControlClient, native: TcpProxy, client: ControlClient, database: str
) -> None:
    """Field report B7."""
    generation(client, database, "g")
    native.rule("lose_reply", match=b"count()")
    with pytest.raises(StatementFailed) as caught:
        staged_count(torn, database, "g")
    assert caught.value.code is None


# -- catalog ---


@pytest.mark.contract("P3")
def test_the_facts_are_one_statement_about_the_target_and_this_operations_names(
    client: ControlClient, wire: DirectWire, database: str
) -> None:
    port: Catalog = ClickHouseCatalog({"r1": client}, database, "t")
    assert port.facts("r1", PREFIX) == CatalogFacts(live=None, private=())
    named = {
        name: NamedTable(name=name, uuid=generation(client, database, name, comment=f"c {name}"), comment=f"c {name}")
        for name in ("t", f"{PREFIX}2", f"{PREFIX}1", "t__dpone_ffffffffffff_1", "tXXdpone_0123456789abX1", "t2")
    }
    wire.counts.clear()
    assert port.facts("r1", PREFIX) == CatalogFacts(live=named["t"], private=(named[f"{PREFIX}1"], named[f"{PREFIX}2"]))
    assert wire.counts == {"catalog_read": 1}


@pytest.mark.contract("M7")
@pytest.mark.parametrize(
    ("definition", "ttl"),
    [
        ("(d Date, x String) ENGINE = MergeTree ORDER BY d TTL d + INTERVAL 1 DAY", True),
        ("(d Date, x String TTL d + INTERVAL 1 DAY) ENGINE = MergeTree ORDER BY d", True),
        ("(d Date, x String COMMENT 'a TTL d') ENGINE = MergeTree ORDER BY d COMMENT 'it''s TTL d'", False),
        ("(`TTL d` Date, `TTL` String) ENGINE = MergeTree ORDER BY (`TTL`)", False),
        ("(d Date, x String DEFAULT ' TTL d') ENGINE = MergeTree ORDER BY d", False),
    ],
)
def test_a_ttl_is_seen_on_table_and_column_and_nowhere_else(
    client: ControlClient, database: str, sql: Sql, definition: str, ttl: bool
) -> None:
    sql(f"CREATE TABLE {database}.t {definition}")
    state = table_state(client, database, "t")
    assert state is not None
    assert state.has_ttl is ttl


@pytest.mark.contract("M7")
def test_admission_sees_engines_defaults_dependents_and_policies(
    client: ControlClient, database: str, sql: Sql
) -> None:
    sql(f"CREATE TABLE {database}.t (a Int8, b Int8 MATERIALIZED a + 1) ENGINE = ReplacingMergeTree ORDER BY a")
    sql(f"CREATE MATERIALIZED VIEW {database}.v ENGINE = MergeTree ORDER BY a AS SELECT a FROM {database}.t")
    state = table_state(client, database, "t")
    assert state is not None
    assert (state.engine, state.columns[1].default_kind) == ("ReplacingMergeTree", "MATERIALIZED")
    assert state.dependents == (f"{database}.v",)
    assert catalog.database_engine(client, database) == "Atomic"
    assert catalog.database_engine(client, "no_such_database") is None
    assert catalog.row_policies(client, database, "t") == 0
    assert table_state(client, database, "no_such_table") is None


# -- publisher ---


def names(client: ControlClient, database: str) -> dict[str, str]:
    rows = client.query(
        ASK, "SELECT name, toString(uuid) FROM system.tables WHERE database = {d:String}", {"d": database}
    )
    return dict(rows)  # type: ignore[arg-type]


@pytest.mark.contract("P3")
def test_exchange_and_rename_move_uuids_and_the_catalog_tells(client: ControlClient, database: str) -> None:
    """Field report B5."""
    port: Publisher = ClickHousePublisher({"r1": client}, database, "t")
    first, second = generation(client, database, "c1"), generation(client, database, "c2")
    port.rename("r1", "c1", "t")
    assert names(client, database) == {"t": first, "c2": second}
    port.exchange("r1", "c2")
    assert names(client, database) == {"t": second, "c2": first}
    port.drop("r1", "c2")
    assert names(client, database) == {"t": second}


@pytest.mark.contract("P3")
def test_an_exchange_with_a_fenced_name_fails_with_60_and_changes_nothing(client: ControlClient, database: str) -> None:
    port = ClickHousePublisher({"r1": client}, database, "t")
    live, candidate = generation(client, database, "t"), generation(client, database, "c1")
    port.rename("r1", "c1", "c2")
    for call in (
        lambda: port.exchange("r1", "c1"),
        lambda: port.rename("r1", "c1", "c3"),
        lambda: port.drop("r1", "c1"),
    ):
        with pytest.raises(StatementFailed) as caught:
            call()
        assert caught.value.code == 60
    with pytest.raises(StatementFailed) as caught:
        port.rename("r1", "c2", "t")
    assert caught.value.code == 57
    assert names(client, database) == {"t": live, "c2": candidate}


@pytest.mark.contract("A4", "P3")
@pytest.mark.parametrize("action", ["refuse", "lose_reply"])
def test_an_exchange_without_an_answer_was_sent_once_and_the_catalog_decides(
    torn: ControlClient, native: TcpProxy, client: ControlClient, database: str, wire: DirectWire, action: Any
) -> None:
    """Field report B5."""
    live, candidate = generation(client, database, "t"), generation(client, database, "c1")
    native.rule(action, match=b"EXCHANGE TABLES")
    with pytest.raises(StatementFailed) as caught:
        ClickHousePublisher({"r1": torn}, database, "t").exchange("r1", "c1")
    assert (caught.value.code, native.seen(b"EXCHANGE TABLES"), wire.counts["exchange"]) == (None, 1, 1)
    facts = ClickHouseCatalog({"r1": torn}, database, "t").facts("r1", "c")
    assert facts.live is not None
    assert facts.live.uuid == (live if action == "refuse" else candidate)


@pytest.mark.contract("P3")
def test_an_exchange_that_arrives_after_the_fence_changes_nothing(
    endpoint: Endpoint, native: TcpProxy, client: ControlClient, database: str, connect: Connect
) -> None:
    live, candidate = generation(client, database, "t"), generation(client, database, "c1")
    slow = connect(attrs.evolve(endpoint, native_port=native.port, receive_timeout=0.3))
    held = native.rule("hold", match=b"EXCHANGE TABLES")
    with pytest.raises(StatementFailed):
        ClickHousePublisher({"r1": slow}, database, "t").exchange("r1", "c1")
    ClickHousePublisher({"r1": client}, database, "t").rename("r1", "c1", "c2")
    held.release()
    time.sleep(0.5)
    assert names(client, database) == {"t": live, "c2": candidate}


def test_a_drop_frees_its_name_at_once_and_neither_waits_for_readers_nor_disturbs_them(
    client: ControlClient, endpoint: Endpoint, connect: Connect, database: str
) -> None:
    """Field report B4."""
    generation(client, database, "c1")
    fill(client, database, "c1", 300)
    found: list[Any] = []

    def read() -> None:
        reader = connect(endpoint)
        settings = {"max_block_size": 10, "max_threads": 1, "function_sleep_max_microseconds_per_block": 0}
        sql = f"SELECT count(), sum(sleepEachRow(0.005)) FROM {database}.c1"
        found.extend(reader.query(ASK, sql, settings=settings))

    running = threading.Thread(target=read)
    running.start()
    time.sleep(0.4)
    started = time.monotonic()
    ClickHousePublisher({"r1": client}, database, "t").drop("r1", "c1")
    assert time.monotonic() - started < 0.6
    assert running.is_alive()
    generation(client, database, "c1")
    running.join()
    assert found == [(300, 0)]


def test_a_size_limit_of_the_server_does_not_keep_a_generation(client: ControlClient, database: str) -> None:
    generation(client, database, "c1")
    fill(client, database, "c1", 1000)
    with pytest.raises(StatementFailed) as caught:
        client.command(ASK, f"DROP TABLE {database}.c1", settings={"max_table_size_to_drop": 1})
    assert caught.value.code == 359
    ClickHousePublisher({"r1": client}, database, "t").drop("r1", "c1")
    assert names(client, database) == {}
