"""The KeeperMap store: admission, one read, strict writes, each sent once."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pytest

from dpone_provider.clickhouse.authority_store import AUTHORITY, TABLE, ClickHouseReplayQualityStore
from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.catalog import ClickHouseCatalog
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.publisher import ClickHousePublisher
from dpone_provider.clickhouse.staging import create_generation, staged_metrics
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import PhysicalDesign
from dpone_provider.replay.ports import AuthorityStore, Expect, StoredRow
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import SandboxServer
from dpone_provider.wire import DirectWire, StatementFailed
from tests.clickhouse.conftest import ASK, endpoint_of
from tests.wirelab import TcpProxy

Sql = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[[Endpoint], ControlClient]
HOSTILE = "a'b\\c\"d`e\0\n\r\t\b\f\a\v é 😀 {x:String} %s %(a)s \\N \\' \\\\' ;-- /* 𝔘 \x1b"


def row(owner: str = "w1", record: str = "{}", phase: str = "CLAIMED", key: str = "k") -> StoredRow:
    return StoredRow(target_key=key, operation_id="op", phase=phase, owner=owner, record=record, record_sha256="0" * 64)


def expect(version: int, owner: str = "w1", **changes: Any) -> Expect:
    return attrs.evolve(Expect(version=version, operation_id="op", owner=owner, phase="CLAIMED"), **changes)


@pytest.fixture
def provisioned(database: str, sql: Sql) -> str:
    sql(AUTHORITY.ddl(database, f"/dpone/{database}"))
    return database


@pytest.fixture
def store(client: ControlClient, provisioned: str) -> ClickHouseReplayQualityStore:
    return ClickHouseReplayQualityStore({"r1": client}, provisioned)


def test_a_key_that_is_not_there_is_no_row_and_the_servers_clock(store: ClickHouseReplayQualityStore) -> None:
    port: AuthorityStore = store
    slot = port.read("k")
    assert slot.rows == ()
    assert abs(slot.now_ms - time.time() * 1000) < 5_000


@pytest.mark.contract("A2")
def test_a_created_row_has_version_zero_and_each_update_counts(store: ClickHouseReplayQualityStore) -> None:
    store.create(row())
    assert store.read("k").rows == ((row(), 0),)
    store.update(row(owner="w2", phase="PREPARED"), expect(0))
    assert store.read("k").rows == ((row(owner="w2", phase="PREPARED"), 1),)


@pytest.mark.contract("A2")
def test_a_strict_create_of_a_present_key_fails_and_changes_nothing(store: ClickHouseReplayQualityStore) -> None:
    store.create(row())
    with pytest.raises(StatementFailed) as caught:
        store.create(row(owner="other"))
    assert caught.value.code == 999
    assert store.read("k").rows == ((row(), 0),)


@pytest.mark.contract("A3")
@pytest.mark.parametrize(
    "stale", [expect(1), expect(-1), expect(0, owner="w2"), expect(0, operation_id="x"), expect(0, phase="PREPARED")]
)
def test_an_update_that_expects_something_else_is_silent_and_changes_nothing(
    store: ClickHouseReplayQualityStore, stale: Expect
) -> None:
    store.create(row())
    store.update(row(owner="thief"), stale)
    assert store.read("k").rows == ((row(), 0),)


@pytest.mark.contract("A2")
@pytest.mark.parametrize(
    "record",
    [HOSTILE, (HOSTILE * 20_000)[: 512 * 1024], '{"a":"\\\\u0000\\"\'"}' * 30_000, "\\", "'", ""],
    ids=["hostile", "hostile-512K", "json-512K", "backslash", "quote", "empty"],
)
def test_hostile_records_come_back_as_they_were(store: ClickHouseReplayQualityStore, record: str) -> None:
    key = HOSTILE + "key"
    store.create(row(owner=HOSTILE, record=record, key=key))
    assert store.read(key).rows == ((row(owner=HOSTILE, record=record, key=key), 0),)
    store.update(row(owner="w2", record=record + "'", key=key), expect(0, owner=HOSTILE))
    assert store.read(key).rows == ((row(owner="w2", record=record + "'", key=key), 1),)


def test_bytes_that_are_no_text_are_shown_not_raised(store: ClickHouseReplayQualityStore, sql: Sql) -> None:
    sql(f"INSERT INTO {store._database}.{TABLE} SELECT 'k', 'op', 'p', 'w', unhex('ff7b'), ''")
    assert store.read("k").rows[0][0].record == "\\xff{"


@pytest.mark.contract("A4", "A3")
@pytest.mark.parametrize("action", ["refuse", "lose_reply", "close"])
def test_a_torn_write_is_sent_once_and_decided_by_reading(
    torn: ControlClient, native: TcpProxy, provisioned: str, wire: DirectWire, action: Any
) -> None:
    store = ClickHouseReplayQualityStore({"r1": torn}, provisioned)
    native.rule(action, match=b"INSERT INTO")
    with pytest.raises(StatementFailed) as caught:
        store.create(row())
    assert (caught.value.code, native.seen(b"INSERT INTO")) == (None, 1)
    # an INSERT sends its data only after the server's answer to its head: torn there, nothing can have been applied
    assert store.read("k").rows == ()
    store.create(row())
    native.rule(action, match=b"ALTER TABLE")
    with pytest.raises(StatementFailed) as caught:
        store.update(row(owner="w2"), expect(0))
    assert (caught.value.code, native.seen(b"ALTER TABLE")) == (None, 1)
    time.sleep(0.2)
    found = store.read("k").rows
    assert found in (((row(), 0),), ((row(owner="w2"), 1),))
    if action != "close":
        assert found == (((row(), 0),) if action == "refuse" else ((row(owner="w2"), 1),))
    assert wire.counts == {"authority_create": 2, "authority_cas": 1, "authority_read": 2}


@pytest.mark.contract("A4", "A3")
def test_a_create_whose_acknowledgement_is_lost_is_applied_and_sent_once(
    torn: ControlClient, native: TcpProxy, provisioned: str
) -> None:
    store = ClickHouseReplayQualityStore({"r1": torn}, provisioned)
    marked = row(record="the-data-block")
    native.rule("lose_reply", once_seen=b"the-data-block")  # the empty block that ends the INSERT
    with pytest.raises(StatementFailed) as caught:
        store.create(marked)
    assert (caught.value.code, native.seen(b"the-data-block")) == (None, 1)
    assert store.read("k").rows == ((marked, 0),)


def _race(endpoint: Endpoint, database: str, owner: str, rounds: int, done: Any) -> None:
    client = ControlClient(endpoint, DirectWire())
    store = ClickHouseReplayQualityStore({"r1": client}, database)
    won = 0
    for _ in range(rounds):
        ((current, version),) = store.read("k").rows
        try:
            store.update(
                attrs.evolve(current, owner=owner, record=str(int(current.record) + 1)),
                Expect(version=version, operation_id="op", owner=current.owner, phase="CLAIMED"),
            )
        except StatementFailed as failed:
            if failed.code != 999:
                raise
            continue
        ((after, now),) = store.read("k").rows
        won += now == version + 1 and after.owner == owner
    client.close()
    done.put(won)


@pytest.mark.contract("A2")
def test_two_processes_that_race_lose_no_update(
    store: ClickHouseReplayQualityStore, endpoint: Endpoint, provisioned: str
) -> None:
    """Field report B13."""
    store.create(row(record="0"))
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Queue()
    racers = [spawn.Process(target=_race, args=(endpoint, provisioned, name, 60, done)) for name in ("w2", "w3")]
    for racer in racers:
        racer.start()
    won = sum(done.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join(20)
    ((last, version),) = store.read("k").rows
    assert int(last.record) == version, "an update was overwritten by one that had not seen it"
    assert 0 < won <= version


# -- admission ---

COLUMNS = "target_key String, operation_id String, phase String, owner String, record String, record_sha256 String"
DRIFT = {
    "missing": (None, "is missing"),
    "engine": (f"({COLUMNS}) ENGINE = MergeTree ORDER BY target_key", "the engine MergeTree"),
    "macro": (f"({COLUMNS}) ENGINE = KeeperMap('/dpone/{{database}}x') PRIMARY KEY target_key", "macros"),
    "limit": (f"({COLUMNS}) ENGINE = KeeperMap('/dpone/limit', 100) PRIMARY KEY target_key", "engine clause"),
    "brackets": (f"({COLUMNS}) ENGINE = KeeperMap('/dpone/br') PRIMARY KEY (target_key)", "engine clause"),
    "key": (f"({COLUMNS}) ENGINE = KeeperMap('/dpone/key') PRIMARY KEY owner", "engine clause"),
    "order": (
        "(operation_id String, target_key String, phase String, owner String, record String, record_sha256 String) "
        "ENGINE = KeeperMap('/dpone/order') PRIMARY KEY target_key",
        "exactly the columns",
    ),
    "extra": (
        f"({COLUMNS}, x String) ENGINE = KeeperMap('/dpone/extra') PRIMARY KEY target_key",
        "exactly the columns",
    ),
    "type": (
        f"({COLUMNS.replace('record String', 'record Nullable(String)')}) "
        "ENGINE = KeeperMap('/dpone/type') PRIMARY KEY target_key",
        "column record of type Nullable(String)",
    ),
    "default": (
        f"({COLUMNS.replace('phase String', 'phase String DEFAULT 1')}) "
        "ENGINE = KeeperMap('/dpone/default') PRIMARY KEY target_key",
        "DEFAULT expression on column phase",
    ),
}


@pytest.mark.contract("A1", "A7")
@pytest.mark.parametrize("drift", list(DRIFT))
def test_a_table_that_is_not_exactly_as_specified_is_unsupported_and_left_alone(
    client: ControlClient, wire: DirectWire, database: str, sql: Sql, drift: str
) -> None:
    definition, said = DRIFT[drift]
    if definition is not None:
        sql(f"CREATE TABLE {database}.{TABLE} {definition}")
    before = sql("SELECT name, uuid, create_table_query FROM system.tables WHERE database = %(d)s", {"d": database})
    with pytest.raises(DponeError) as caught:
        ClickHouseReplayQualityStore({"r1": client}, database).admit()
    assert caught.value.code == "DPONE_REPLAY_AUTHORITY_UNSUPPORTED"
    assert said in caught.value.message
    assert set(wire.counts) == {"catalog_read"}
    after = sql("SELECT name, uuid, create_table_query FROM system.tables WHERE database = %(d)s", {"d": database})
    assert after == before


@pytest.mark.contract("A1")
def test_the_exact_table_is_admitted_by_reading_only(store: ClickHouseReplayQualityStore, wire: DirectWire) -> None:
    store.admit()
    assert wire.counts == {"catalog_read": 1}


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A second server, with users whose profiles try to change what statements mean."""
    poison = SandboxUser(
        name="poisoned",
        password="x",
        settings={
            "final": 1,
            "limit": 1,
            "offset": 1,
            "additional_table_filters": f"{{'poison.{TABLE}': '1 = 0', 'system.tables': '1 = 0'}}",
            "additional_result_filter": "1 = 0",
            "max_result_rows": 1,
            "result_overflow_mode": "break",
            "max_rows_to_read": 1,
            "read_overflow_mode": "break",
            "async_insert": 1,
            "wait_for_async_insert": 0,
            "keeper_map_strict_mode": 0,
            "insert_keeper_max_retries": 20,
            "max_query_size": 2_000,
            "empty_result_for_aggregation_by_empty_set": 1,
            "aggregate_functions_null_for_empty": 1,
            "prefer_column_name_to_alias": 1,
            "extremes": 1,
            "data_type_default_nullable": 1,
            "max_table_size_to_drop": 1,
            "join_use_nulls": 1,
            "apply_deleted_mask": 0,
        },
    )
    bulk = SandboxUser(
        name="bulk",
        password="x",
        settings={
            "async_insert": 1,
            "wait_for_async_insert": 0,
            "deduplicate_insert": "enable",
            "insert_deduplicate": 1,
            "input_format_null_as_default": 1,
            "input_format_arrow_allow_missing_columns": 1,
            "send_progress_in_http_headers": 1,
        },
    )
    server = SandboxServer()
    config = SandboxConfig(folder=tmp_path_factory.mktemp("second"), users=(poison, bulk), bound_to_starter=True)
    running = server.start(config)
    try:
        yield endpoint_of(running)
    finally:
        server.stop(running.folder)


@pytest.mark.contract("A1", "A5")
def test_replicas_must_hold_the_table_under_one_path(
    client: ControlClient, second: Endpoint, connect: Connect, provisioned: str
) -> None:
    other = connect(second)
    store = ClickHouseReplayQualityStore({"r2": other, "r1": client}, provisioned)
    with pytest.raises(DponeError, match="on replica r2 is missing"):
        store.admit()
    other.command(ASK, f"CREATE DATABASE {provisioned} ENGINE = Atomic")
    other.command(ASK, AUTHORITY.ddl(provisioned, "/dpone/elsewhere"))
    with pytest.raises(DponeError, match="on replica r2 has another Keeper path than on r1"):
        store.admit()
    other.command(ASK, f"DROP TABLE {provisioned}.{TABLE} SYNC")
    other.command(ASK, AUTHORITY.ddl(provisioned, f"/dpone/{provisioned}"))
    store.admit()
    store.create(row())
    assert [len(store.read("k", replica=name).rows) for name in (None, "r1", "r2")] == [1, 1, 0], "two Keepers here"


@pytest.mark.contract("A2")
def test_no_setting_of_a_users_profile_changes_the_store(second: Endpoint, connect: Connect) -> None:
    """Field report B13."""
    owner = connect(second)
    owner.command(ASK, "CREATE DATABASE poison ENGINE = Atomic")
    owner.command(ASK, AUTHORITY.ddl("poison", "/dpone/poison"))
    poisoned = connect(attrs.evolve(second, user="poisoned", password="x"))
    assert poisoned.query(ASK, "SELECT 1") == [], "the profile does poison"
    store = ClickHouseReplayQualityStore({"r1": poisoned}, "poison")
    store.admit()
    assert store.read("k").rows == ()
    big = row(record=HOSTILE * 3_000)
    store.create(big)
    with pytest.raises(StatementFailed, match="999"):
        store.create(row())
    assert store.read("k").rows == ((big, 0),)
    store.update(attrs.evolve(big, owner="w2"), expect(0))
    store.update(attrs.evolve(big, owner="w3"), expect(0))
    assert store.read("k").rows == ((attrs.evolve(big, owner="w2"), 1),)


@pytest.mark.contract("A2")
def test_no_setting_of_a_users_profile_changes_a_generation_or_its_counts(
    second: Endpoint, connect: Connect, wire: DirectWire
) -> None:
    poisoned = connect(attrs.evolve(second, user="poisoned", password="x"))
    connect(second).command(ASK, "CREATE DATABASE poisoned ENGINE = Atomic")
    schema = pa.schema([("a", pa.int64())])
    design = PhysicalDesign(order_by=("a",), settings=(("non_replicated_deduplication_window", 100),))
    name = {"database": "poisoned", "name": "g"}
    create_generation(poisoned, **name, uuid=str(uuid4()), columns=(("a", "Int64"),), design=design, comment="c")
    batch = pa.record_batch([pa.array(range(1000), pa.int64())], schema=schema)
    where = attrs.evolve(second, user="bulk", password="x")
    for _ in range(2):
        insert_stream(where, database="poisoned", table="g", columns=["a"], schema=schema, batches=[batch], wire=wire)
    found = staged_metrics(poisoned, "poisoned", "g", ["a"], ["a"])
    assert (found.row_count, found.null_counts, found.distinct_counts) == (2000, (("a", 0),), (("a", 1000),))
    facts = ClickHouseCatalog({"r1": poisoned}, "poisoned", "t").facts("r1", "g")
    assert [table.name for table in facts.private] == ["g"]
    ClickHousePublisher({"r1": poisoned}, "poisoned", "t").drop("r1", "g")


def test_a_path_with_macros_is_no_ddl() -> None:
    for path in ("/dpone/{database}", "dpone", ""):
        with pytest.raises(ValueError, match="literal"):
            AUTHORITY.ddl("d", path)
