"""The mark of a source: one compare-and-swap a load, decided by reading back, whatever becomes of the wire."""

from __future__ import annotations

import multiprocessing
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.source_state import MARKS, MAX_TEXT, ClickHouseSourceStateStore
from dpone_provider.errors import DponeError
from dpone_provider.load.ports import SourceStateStore
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import SandboxServer
from dpone_provider.wire import DirectWire, StatementFailed
from tests.clickhouse.conftest import endpoint_of
from tests.docs.markdown import DOCS
from tests.sandbox_fixture import Sql, ask
from tests.wire.faults import FAULTS, Fault
from tests.wire.task import TaskTimeout, timeout_after
from tests.wirelab import TcpProxy

Store = ClickHouseSourceStateStore
SLOW_START = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
HOSTILE = "a'b\\c\"d`e\0\n\r\t\b é 😀 {x:String} %s %(a)s \\' \\\\' ;-- /* \x1b"
SHORT = 0.4


def store_of(client: ControlClient, database: str) -> Store:
    return ClickHouseSourceStateStore(client, database, new_id=lambda: secrets.token_hex(16))


@pytest.fixture
def provisioned(database: str, sql: Sql) -> str:
    sql(MARKS.ddl(database, f"/dpone_source_state/{database}"))
    return database


@pytest.fixture
def store(client: ControlClient, provisioned: str) -> Store:
    return store_of(client, provisioned)


def uncertain(call: Callable[[], object]) -> DponeError:
    with pytest.raises(DponeError) as caught:
        call()
    assert caught.value.code == "DPONE_SOURCE_STATE_UNCERTAIN"
    assert not caught.value.retryable
    return caught.value


def test_a_source_that_no_load_has_read_has_no_mark(store: Store) -> None:
    port: SourceStateStore = store
    port.admit()
    assert port.read("k") is None


def test_a_mark_is_what_the_last_advance_left(store: Store, wire: DirectWire) -> None:
    first = store.advance("k", None, "number:1", "load1")
    assert (first.key, first.value, first.load_id, first.version) == ("k", "number:1", "load1", 0)
    assert store.read("k") == first
    second = store.advance("k", first, "number:2", "load2")
    assert (second.value, second.load_id, second.version) == ("number:2", "load2", 1)
    assert (store.read("k"), store.read("other")) == (second, None)
    assert wire.counts["source_state"] == 2


@pytest.mark.parametrize("start", ["none", "some"])
def test_whoever_advanced_first_wins_and_the_other_is_told(store: Store, wire: DirectWire, start: str) -> None:
    seen = store.advance("k", None, "number:1", "before") if start == "some" else None
    winner = store.advance("k", seen, "number:5", "winner")
    error = uncertain(lambda: store.advance("k", seen, "number:4", "loser"))
    assert error.context == {"source_state": "conflict", "source_key": "k"}
    assert "Another load moved the mark" in error.message
    assert error.boundary == "post_commit"
    assert store.read("k") == winner


def test_the_same_value_of_another_load_is_a_conflict_not_ours(store: Store) -> None:
    store.advance("k", None, "number:5", "load")
    assert uncertain(lambda: store.advance("k", None, "number:5", "load")).context["source_state"] == "conflict"


@pytest.mark.parametrize("change", [{"version": 7}, {"version": -1}, {"write_id": "0" * 32}])
def test_an_advance_from_a_state_that_was_never_there_changes_nothing(store: Store, change: Any) -> None:
    there = store.advance("k", None, "number:1", "load")
    uncertain(lambda: store.advance("k", attrs.evolve(there, **change), "number:2", "thief"))
    assert store.read("k") == there


def test_a_mark_that_was_removed_meanwhile_is_not_made_again(store: Store, provisioned: str, sql: Sql) -> None:
    there = store.advance("k", None, "number:1", "load")
    sql(f"ALTER TABLE {provisioned}.{MARKS.name} DELETE WHERE source_key = 'k'")
    assert uncertain(lambda: store.advance("k", there, "number:2", "load2")).context["source_state"] == "unknown"
    assert store.read("k") is None


def test_a_mark_made_again_after_a_removal_is_not_taken_for_the_old_one(
    store: Store, provisioned: str, sql: Sql
) -> None:
    old = store.advance("k", None, "number:1", "load")
    sql(f"ALTER TABLE {provisioned}.{MARKS.name} DELETE WHERE source_key = 'k'")
    again = store.advance("k", None, "number:1", "load")
    assert again.version == old.version
    uncertain(lambda: store.advance("k", old, "number:2", "load2"))
    assert store.read("k") == again


def test_the_statements_of_the_operating_guide_set_and_move_a_mark(store: Store, provisioned: str, sql: Sql) -> None:
    guide = (DOCS / "operating.md").read_text(encoding="utf-8")
    insert, update = (
        re.search(rf"^ *({word} shop.dpone_source_state .*)$", guide, re.MULTILINE)
        for word in ("INSERT INTO", "ALTER TABLE")
    )
    assert insert is not None
    assert update is not None
    for found, value in ((insert, "number:1042"), (update, "number:7")):
        sql(found[1].replace("shop.", f"{provisioned}.").replace("<its key>", "k").replace("number:1042", value))
        there = store.read("k")
        assert there is not None
        assert there.value == value
    assert store.advance("k", there, "number:8", "load").version == 2


def test_a_mark_over_its_bound_is_never_sent(store: Store, wire: DirectWire) -> None:
    assert (
        uncertain(lambda: store.advance("k", None, "é" * (MAX_TEXT // 2 + 1), "l")).context["source_state"] == "refused"
    )
    assert not wire.counts["source_state"]


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_START)
@given(texts=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=30)] * 3))
def test_hostile_texts_come_back_as_they_were(store: Store, texts: tuple[str, str, str]) -> None:
    key, value, load = (secrets.token_hex(4) + HOSTILE + text for text in texts)
    first = store.advance(key, None, value, load)
    second = store.advance(key, first, value + "'", load + "\\")
    assert store.read(key) == second
    assert (second.value, second.load_id) == (value + "'", load + "\\")


@pytest.mark.parametrize("column", ["write_id", "value"])
def test_a_row_that_no_load_wrote_is_uncertain_before_the_load(
    store: Store, provisioned: str, sql: Sql, column: str
) -> None:
    values = {"write_id": "'number:1', 'l', 'mine'", "value": f"unhex('ff'), 'l', '{'a' * 31}Z'"}[column]
    sql(f"INSERT INTO {provisioned}.{MARKS.name} VALUES ('k', {values})")
    assert uncertain(lambda: store.read("k")).boundary == "admission"


# -- what becomes of a torn wire ---

INSERT, UPDATE, READ = b"INSERT INTO `", b"ALTER TABLE `", b"SELECT groupArray(2)"


QUICK = (
    "closed before",
    "false acknowledgement",
    "arrives when its sender is gone",
    "error after",
    "truncated",
    "garbage",
)
NATIVE = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.slow])
    for fault in FAULTS
    if fault.native is not None
]


@pytest.mark.contract("A3")
@pytest.mark.parametrize("place", [INSERT, b"number:9", UPDATE, READ], ids=["create", "its row", "update", "read back"])
@pytest.mark.parametrize("fault", NATIVE)
def test_a_fault_at_the_advance_never_makes_a_mark_that_is_not_there(
    endpoint: Endpoint, native: TcpProxy, store: Store, provisioned: str, fault: Fault, place: bytes
) -> None:
    """Success is only what stands in the table afterwards; a failure says that it does not know."""
    before = store.advance("k", None, "number:1", "before") if place == UPDATE else None
    wire = DirectWire()
    where = attrs.evolve(endpoint, native_port=native.port, connect_timeout=SHORT, receive_timeout=SHORT)
    client = ControlClient(where, wire)
    torn = store_of(client, provisioned)
    torn.admit()
    rule = fault.on(native, match=place)
    advanced = None
    try:
        with timeout_after(rule.fired, 3 * SHORT):
            advanced = torn.advance("k", before, "number:9", "torn")
    except DponeError as error:
        assert error.code == "DPONE_SOURCE_STATE_UNCERTAIN"
    except TaskTimeout:
        assert fault.name in ("drip", "endless progress"), "what no socket timeout sees ends with the task"
    assert rule.fired.is_set()
    client.close()
    rule.release()
    if fault.late:
        time.sleep(0.3)
    assert advanced is not None or not fault.harmless
    assert wire.counts["source_state"] == 1
    assert sum(map(native.seen, (INSERT, UPDATE))) == 1
    found = store.read("k")
    assert found == advanced if advanced is not None else found == before or found.load_id == "torn"


@pytest.mark.contract("A3")
def test_a_lost_acknowledgement_is_verified_by_reading_back(
    endpoint: Endpoint, native: TcpProxy, torn: ControlClient, provisioned: str
) -> None:
    store = store_of(torn, provisioned)
    first = store.advance("k", None, "number:1", "load")
    native.rule("lose_reply", match=UPDATE)
    assert store.advance("k", first, "number:2", "load2").version == 1
    assert native.seen(UPDATE) == 1


@pytest.mark.contract("A3")
def test_an_advance_that_never_arrived_is_unknown_and_never_sent_again(
    native: TcpProxy, torn: ControlClient, provisioned: str
) -> None:
    store = store_of(torn, provisioned)
    first = store.advance("k", None, "number:1", "load")
    native.rule("refuse", match=UPDATE)
    error = uncertain(lambda: store.advance("k", first, "number:2", "load2"))
    assert error.context["source_state"] == "unknown"
    assert "no answer" in error.message
    assert (native.seen(UPDATE), store.read("k")) == (1, first)


@pytest.mark.contract("A3")
def test_an_advance_that_arrives_late_loses_against_the_next_load(
    native: TcpProxy, torn: ControlClient, store: Store, provisioned: str
) -> None:
    late = store_of(torn, provisioned)
    first = store.advance("k", None, "number:1", "load")
    rule = native.rule("hold", match=UPDATE)
    torn.endpoint = attrs.evolve(torn.endpoint, receive_timeout=SHORT)
    torn.close()
    assert uncertain(lambda: late.advance("k", first, "number:2", "late")).context["source_state"] == "unknown"
    second = store.advance("k", first, "number:3", "next")
    rule.release()
    time.sleep(0.3)
    assert store.read("k") == second


def _race(endpoint: Endpoint, database: str, name: str, rounds: int, done: Any) -> None:
    client = ControlClient(endpoint, DirectWire())
    store, won = store_of(client, database), 0
    for _ in range(rounds):
        there = store.read("k")
        value = int(there.value.partition(":")[2]) + 1 if there is not None else 1
        try:
            store.advance("k", there, f"number:{value}", name)
            won += 1
        except DponeError:
            continue
    client.close()
    done.put(won)


@pytest.mark.contract("A2")
def test_two_processes_that_race_lose_no_advance(store: Store, endpoint: Endpoint, provisioned: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Queue()
    racers = [spawn.Process(target=_race, args=(endpoint, provisioned, name, 40, done)) for name in ("a", "b")]
    for racer in racers:
        racer.start()
    won = sum(done.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join(20)
    last = store.read("k")
    assert last is not None
    assert last.value == f"number:{last.version + 1}", "an advance was overwritten by one that had not seen it"
    assert 0 < won <= last.version + 1


# -- admission ---

DRIFT = {
    "missing": (None, "is missing"),
    "engine": (
        "(source_key String, value String, load_id String, write_id String) ENGINE = Memory",
        "the engine Memory",
    ),
    "key": (
        "(source_key String, value String, load_id String, write_id String) "
        "ENGINE = KeeperMap('/dpone_source_state/key') PRIMARY KEY value",
        "engine clause",
    ),
    "columns": (
        "(source_key String, value String) ENGINE = KeeperMap('/dpone_source_state/cols') PRIMARY KEY source_key",
        "exactly the columns",
    ),
}


@pytest.mark.contract("A1")
@pytest.mark.parametrize("drift", list(DRIFT))
def test_a_table_that_is_not_exactly_as_specified_is_unsupported(
    client: ControlClient, wire: DirectWire, database: str, sql: Sql, drift: str
) -> None:
    definition, said = DRIFT[drift]
    if definition is not None:
        sql(f"CREATE TABLE {database}.{MARKS.name} {definition}")
    with pytest.raises(DponeError) as caught:
        store_of(client, database).admit()
    assert caught.value.code == "DPONE_LOAD_TABLES_UNSUPPORTED"
    assert said in caught.value.message
    assert "dpone provision --load-tables" in caught.value.next_step
    assert set(wire.counts) == {"catalog_read"}


@pytest.mark.contract("A1")
def test_a_table_that_keeper_forgot_is_unsupported_not_without_marks(tmp_path: Any) -> None:
    folder, server = tmp_path / "sandbox", SandboxServer()
    for forgotten in (False, True):
        running = server.start(SandboxConfig(folder=folder, bound_to_starter=True))
        client = ControlClient(endpoint_of(running), DirectWire())
        try:
            if not forgotten:
                ask(running, "CREATE DATABASE d ENGINE = Atomic")
                ask(running, MARKS.ddl("d", "/dpone_source_state/d"))
                continue
            with pytest.raises(DponeError) as caught:
                store_of(client, "d").read("k")
            assert caught.value.code == "DPONE_LOAD_TABLES_UNSUPPORTED"
            assert "lost its data in Keeper" in caught.value.message
        finally:
            client.close()
            server.stop(folder)


def test_an_answer_that_never_came_is_no_mark_and_no_missing_mark(
    torn: ControlClient, provisioned: str, native: TcpProxy
) -> None:
    store = store_of(torn, provisioned)
    store.advance("k", None, "number:1", "load")
    native.rule("lose_reply", match=READ)
    with pytest.raises(StatementFailed):
        store.read("k")
