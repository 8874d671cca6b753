"""Load steps: one row each where there is a table for them, and nothing in them that could hurt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.load_steps import TABLE, ClickHouseLoadStepLog, has_load_steps, load_steps_ddl
from dpone_provider.errors import DponeError
from dpone_provider.load.ports import LoadStep, LoadStepLog, LoadStepLost
from dpone_provider.traces import STEPS
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import Sql
from tests.wirelab import TcpProxy

HOSTILE = "a'b\\c\"d`e\n\t é {x:String} %s --"
INSERT = b"INSERT INTO `"


def log_of(client: ControlClient, database: str, **about: str) -> ClickHouseLoadStepLog:
    facts = {"target": f"{database}.t", "process": "p", "run_id": "r", "load_id": "l", **about}
    return ClickHouseLoadStepLog(client=client, database=database, **facts)


@pytest.fixture
def provisioned(database: str, sql: Sql) -> str:
    sql(load_steps_ddl(database))
    return database


@pytest.mark.contract("X9")
def test_every_step_is_one_row_in_its_order(
    client: ControlClient, wire: DirectWire, provisioned: str, sql: Sql
) -> None:
    log: LoadStepLog = log_of(client, provisioned)
    assert has_load_steps(client, provisioned)
    for step in STEPS:
        log.record(LoadStep(step=step))
    log.record(LoadStep(step="staged", details={"rows": 3, "bytes": 2**64 - 1}))
    rows = sql(f"SELECT number, step, details FROM {provisioned}.{TABLE} ORDER BY target, load_id, number")
    assert [row[:2] for row in rows] == [*enumerate(STEPS, 1), (len(STEPS) + 1, "staged")]
    assert rows[-1][2] == '{"bytes":18446744073709551615,"rows":3}'
    assert wire.counts["load_step"] == len(STEPS) + 1


@pytest.mark.contract("X9")
def test_a_row_says_whose_step_it_is_and_when_by_the_servers_clock(
    client: ControlClient, provisioned: str, sql: Sql
) -> None:
    about = {"target": f"{HOSTILE}.t", "process": HOSTILE, "run_id": HOSTILE, "load_id": HOSTILE}
    log_of(client, provisioned, **about).record(LoadStep(step="finalized"))
    names = "target, process, run_id, load_id, abs(now() - recorded_at) < 60"
    assert sql(f"SELECT {names} FROM {provisioned}.{TABLE}") == [(*about.values(), 1)]


@pytest.mark.contract("X9")
def test_a_failure_says_where_it_happened(client: ControlClient, provisioned: str, sql: Sql) -> None:
    failed = {"failure_boundary": "post_commit", "acceptance_side": "target", "error_code": "DPONE_APPEND_UNCERTAIN"}
    log_of(client, provisioned).record(LoadStep(step="load_governance_failed", details=failed))
    assert json.loads(sql(f"SELECT details FROM {provisioned}.{TABLE}")[0][0]) == failed


@pytest.mark.contract("X7")
@pytest.mark.parametrize("action", ["refuse", "lose_reply"])
def test_a_step_without_an_answer_is_lost_and_sent_once(
    torn: ControlClient, native: TcpProxy, provisioned: str, action: Any
) -> None:
    assert has_load_steps(torn, provisioned)
    native.rule(action, match=INSERT)
    with pytest.raises(LoadStepLost) as caught:
        log_of(torn, provisioned).record(LoadStep(step="staged"))
    assert (caught.value.code, native.seen(INSERT)) == (None, 1)


@pytest.mark.contract("X7")
def test_a_step_that_the_server_refuses_is_lost_with_its_number(client: ControlClient, database: str) -> None:
    with pytest.raises(LoadStepLost) as caught:
        log_of(client, database).record(LoadStep(step="staged"))
    assert caught.value.code == 60


@pytest.mark.contract("X8")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    details=st.dictionaries(
        st.sampled_from([*sorted(STEPS["staged"]), "sql", "path"]),
        st.text() | st.floats() | st.binary() | st.integers() | st.lists(st.integers()) | st.none() | st.booleans(),
    )
)
def test_no_detail_is_more_than_a_bounded_scalar_of_its_step(details: dict[str, Any]) -> None:
    kept = LoadStep(step="staged", details=details).details
    assert kept.keys() <= STEPS["staged"]
    for name, value in kept.items():
        assert value is details[name]
        assert value is None or type(value) in (bool, int, float, str)
        assert not isinstance(value, str) or (len(value) <= 64 and not set(value) & set(" /\\'\"();\n"))
    assert len(json.dumps(dict(kept), allow_nan=False)) < 512


@pytest.mark.contract("X8")
@pytest.mark.parametrize(
    "value",
    [
        "x" * 65,
        "",
        "SELECT 1",
        "/etc/passwd",
        "Code: 60. DB::Exception",
        float("nan"),
        float("inf"),
        2**64,
        [1],
        {},
        b"a",
    ],
)
def test_what_is_no_code_and_no_number_is_left_out(value: Any) -> None:
    assert LoadStep(step="staged", details={"rows": value, "columns": 2}).details == {"columns": 2}


@pytest.mark.contract("X8")
def test_a_class_that_only_looks_like_text_is_left_out() -> None:
    class Sly(str):
        def __str__(self) -> str:
            return "SELECT 1"

    class Number(int):
        def __repr__(self) -> str:
            return "secret"

    assert LoadStep(step="staged", details={"rows": Sly("ok"), "bytes": Number(1)}).details == {}


def test_a_step_that_nobody_has_named_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="step"):
        LoadStep(step="whatever")


# -- admission ---


def test_without_the_table_there_are_no_steps_to_write(client: ControlClient, database: str) -> None:
    assert has_load_steps(client, database) is False


DRIFT = {
    "engine": ("ENGINE = MergeTree PARTITION BY", "ENGINE = ReplacingMergeTree PARTITION BY"),
    "key": ("ORDER BY (target, load_id, number)", "ORDER BY (target, number)"),
    "partition": ("PARTITION BY toYYYYMM(recorded_at)", ""),
    "setting": ("number)", "number) SETTINGS non_replicated_deduplication_window = 100"),
    "settings": ("number)", "number) SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1"),
    "type": ("number UInt32", "number UInt64"),
    "default": ("details String", "details String DEFAULT 'x'"),
    "order": ("target String, process String", "process String, target String"),
    "extra": ("details String", "details String, more String"),
    "ttl": ("number)", "number) TTL toDateTime(recorded_at) + INTERVAL 1 DAY"),
}


@pytest.mark.contract("X9", "A1")
@pytest.mark.parametrize("drift", list(DRIFT))
def test_a_table_of_another_shape_is_unsupported(
    client: ControlClient, wire: DirectWire, database: str, sql: Sql, drift: str
) -> None:
    old, new = DRIFT[drift]
    sql(load_steps_ddl(database).replace(old, new, 1) if drift != "key" else load_steps_ddl(database).replace(old, new))
    with pytest.raises(DponeError) as caught:
        has_load_steps(client, database)
    assert caught.value.code == "DPONE_LOAD_TABLES_UNSUPPORTED"
    assert f"{database}.{TABLE} " in caught.value.message
    assert set(wire.counts) == {"catalog_read"}


def test_a_log_counts_its_own_steps(client: ControlClient, provisioned: str, sql: Sql) -> None:
    for load in ("one", "two"):
        log = log_of(client, provisioned, load_id=load)
        log.record(LoadStep(step="staged"))
        log.record(LoadStep(step="finalized"))
    rows = sql(f"SELECT load_id, number FROM {provisioned}.{TABLE} ORDER BY load_id, number")
    assert rows == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
