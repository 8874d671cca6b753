"""The SQL gates on a real server: a whole number, or no answer; never a zero instead of none (Q1, B7, B23)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.gate_sql import GateAnswers, gate_answers
from dpone_provider.errors import DponeError
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser, SettingValue
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.wire import DirectWire, StatementFailed
from tests.reader.test_poison import ALL, POISONS
from tests.sandbox_fixture import Sql, ask
from tests.wirelab import TcpProxy

TABLE = "staged {sql} `x`"
"""A name that must be quoted, and that looks like a place of a template."""
COLUMNS = (
    "id UInt64, a Nullable(Int32), f Float64, name String, tags Array(String), at DateTime, "
    "seen Nullable(DateTime64(3)), `count()` UInt8, dpone_g UInt8"
)
ROWS = """
SELECT number + 1 AS id, if(number < 2, NULL, 7) AS a, 0.5 AS f, ['x', 'y', 'y', ''][number + 1] AS name,
  if(number = 0, [], ['t', 'u']) AS tags, now() - 100 - number AS at, NULL AS seen, 1 AS c, 1 AS g FROM numbers(4)"""


@pytest.fixture
def table(sql: Sql, database: str) -> str:
    quoted = quote.table(database, TABLE)
    sql(f"CREATE TABLE {quoted} ({COLUMNS}) ENGINE = MergeTree ORDER BY id")
    sql(f"INSERT INTO {quoted} {ROWS}")
    sql(f"CREATE TABLE {database}.empty AS {quoted}")
    return database


def gate(kind: str, text: str, name: str = "g") -> GateSpec:
    return GateSpec(id=name, type=kind, sql=text)


def asked(client: ControlClient, database: str, *gates: GateSpec, name: str = TABLE, **options: Any) -> GateAnswers:
    return gate_answers(client, database, name, gates, **options)


def answer(client: ControlClient, database: str, kind: str, text: str, **options: Any) -> int | None:
    """The answer of one gate; without one there is a reason, with one there is none."""
    found = asked(client, database, gate(kind, text), **options)
    assert found.values.keys() == {"g"}
    assert found.reasons.keys() == {name for name, value in found.values.items() if value is None}
    return found.values["g"]


ANSWERED = [
    ("not_null", "id", 0),
    ("not_null", "a", 2),
    ("not_null", "seen", 4),
    ("not_null", "NULL", 4),
    ("not_null", "nullIf(name, 'y')", 2),
    ("not_null", "tags", 0),
    ("not_null", "`count()`", 0),
    ("unique", "id", 0),
    ("unique", "name", 1),
    ("unique", "a", 2),  # two NULLs are one value, as two sevens are
    ("unique", "name, a", 0),
    ("unique", "(f, a)", 2),
    ("unique", "1", 3),  # a constant, not the first column
    ("unique", "`count()`", 3),
    ("unique", "dpone_g", 3),
    ("accepted_values", "name IN ('x', 'y', '')", 0),
    ("accepted_values", "name IN ('x')", 3),
    ("accepted_values", "a = 7", 2),  # NULL is not true
    ("accepted_values", "NULL", 4),
    ("accepted_values", "name LIKE '%' AND f = 0.5", 0),
    ("accepted_values", "`count()`", 0),
    ("freshness", "now() + 1000", 0),
    ("custom_sql", "SELECT count() FROM {table} WHERE a IS NULL", 2),
    ("custom_sql", "select count() from {table} -- of {table}", 4),
    ("custom_sql", "WITH x AS (SELECT id FROM {table}) SELECT max(id) FROM x", 4),
    ("custom_sql", "SELECT count() FROM {table} AS l JOIN {table} AS r ON l.id = r.id + 1", 3),
    ("custom_sql", "SELECT countIf(name != '{table}') FROM {table} /* {table} */", 4),
    ("custom_sql", "SELECT toNullable(max(id)) > 5 FROM {table}", 0),
    ("custom_sql", "SELECT 1 AS id, id + 1 AS dpone_a FROM {table} LIMIT 0 UNION ALL SELECT 1, 2 LIMIT 0", None),
]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(("kind", "text", "expected"), ANSWERED)
def test_an_sql_gate_answers_one_whole_number(
    client: ControlClient, table: str, kind: str, text: str, expected: int | None
) -> None:
    assert answer(client, table, kind, text) == expected


@pytest.mark.contract("Q1")
def test_freshness_is_the_age_of_the_newest_value(client: ControlClient, table: str) -> None:
    age = answer(client, table, "freshness", "at")
    assert age is not None
    assert 100 <= age <= 160


EMPTY = [
    ("not_null", "a", 0),
    ("unique", "name", 0),
    ("accepted_values", "name = 'x'", 0),
    ("custom_sql", "SELECT count() FROM {table}", 0),
    ("custom_sql", "SELECT max(a) FROM {table}", None),
    ("freshness", "at", None),
]


@pytest.mark.contract("Q1")
@pytest.mark.parametrize(("kind", "text", "expected"), EMPTY)
def test_an_empty_table_has_no_newest_value_and_nothing_that_is_wrong(
    client: ControlClient, table: str, kind: str, text: str, expected: int | None
) -> None:
    assert answer(client, table, kind, text, name="empty") == expected


UNANSWERED = {
    "a missing column": ("not_null", "nothing"),
    "a missing column of a query": ("custom_sql", "SELECT max(nothing) FROM {table}"),
    "all NULL has no age": ("freshness", "seen"),
    "the age of a number": ("freshness", "id"),
    "the age of a text": ("freshness", "toString(at)"),
    "a number as a condition": ("accepted_values", "id"),
    "a text as a condition": ("accepted_values", "name"),
    "two expressions": ("not_null", "id, a"),
    "a tuple, which is never NULL": ("not_null", "(id, a)"),
    "an aggregate": ("not_null", "max(a)"),
    "a comment": ("not_null", "a -- b"),
    "a bracket that breaks out": ("not_null", "1)), 'x' FROM system.one --"),
    "a closed bracket": ("accepted_values", "1) + countIf(1"),
    "an open bracket": ("accepted_values", "(1"),
    "a heredoc that hides a quote": ("accepted_values", "$$'$$) + countIf(1) --' = ''"),
    "a typographic quote": ("accepted_values", "\u2018)'\u2019 = ''"),
    "no rows": ("custom_sql", "SELECT id FROM {table} WHERE 0"),
    "several rows": ("custom_sql", "SELECT id FROM {table}"),
    "several columns": ("custom_sql", "SELECT count(), 0 FROM {table}"),
    "a negative number": ("custom_sql", "SELECT -count() FROM {table}"),
    "a float": ("custom_sql", "SELECT count() * 1.0 FROM {table}"),
    "a decimal": ("custom_sql", "SELECT toDecimal32(count(), 0) FROM {table}"),
    "a text": ("custom_sql", "SELECT toString(count()) FROM {table}"),
    "a boolean": ("custom_sql", "SELECT true FROM {table} LIMIT 1"),
    "an interval": ("custom_sql", "SELECT toIntervalDay(count()) FROM {table}"),
    "NULL": ("custom_sql", "SELECT sum(seen IS NULL ? NULL : 1) FROM {table}"),
    "2 to the 63rd": ("custom_sql", "SELECT toUInt64(count() * 0 + 9223372036854775808) FROM {table}"),
    "a large text": ("custom_sql", "SELECT repeat('x', 1000000 + count()) FROM {table}"),
    "a query of another table": ("custom_sql", "SELECT count() FROM system.one"),
    "the table in quotes only": ("custom_sql", "SELECT '{table}' = '' /* {table} */"),
    "a server parameter": ("custom_sql", "SELECT {x:UInt8} FROM {table}"),
    "an insert": ("custom_sql", "INSERT INTO {table} SELECT * FROM {table}"),
    "a drop": ("custom_sql", "DROP TABLE {table}"),
    "a second statement": ("custom_sql", "SELECT 0 FROM {table}; DROP TABLE {table}"),
    "a drop behind a bracket": ("custom_sql", "SELECT 0 FROM {table}) DROP TABLE {table} --"),
    "a with that inserts": ("custom_sql", "WITH 1 AS x INSERT INTO {table} SELECT * FROM {table}"),
    "a format": ("custom_sql", "SELECT count() FROM {table} FORMAT Null"),
    "a file": ("custom_sql", "SELECT count() FROM {table} INTO OUTFILE 'x'"),
    "an address": ("custom_sql", "SELECT count() FROM {table}, url('http://127.0.0.1:1/', 'CSV', 'x Int8')"),
    "an error of its own": ("custom_sql", "SELECT throwIf(count() > 0) FROM {table}"),
}


@pytest.mark.contract("Q1", "Q8")
@pytest.mark.parametrize("what", UNANSWERED)
def test_what_is_no_whole_number_is_no_answer(client: ControlClient, table: str, sql: Sql, what: str) -> None:
    """Field report B23."""
    kind, text = UNANSWERED[what]
    assert answer(client, table, kind, text) is None
    assert sql(f"SELECT count() FROM {table}.empty") == [(0,)]
    assert sql("SELECT total_rows FROM system.tables WHERE database = %(d)s AND name = %(n)s", {"d": table, "n": TABLE})


@pytest.mark.contract("Q1", "Q8")
def test_a_reason_says_neither_sql_nor_what_the_server_said(client: ControlClient, table: str) -> None:
    found = asked(client, table, *(gate(*UNANSWERED[what], name=what) for what in UNANSWERED))
    assert set(found.reasons) == set(UNANSWERED)
    assert found.reasons["a missing column"] == "server error 47"
    assert all(
        len(reason) <= 64 and "DROP" not in reason and "system" not in reason for reason in found.reasons.values()
    )


@pytest.mark.contract("Q1")
def test_a_gate_without_an_answer_hides_no_other(client: ControlClient, table: str) -> None:
    """Field report B23."""
    gates = [gate("not_null", "a", "first"), gate("not_null", "nothing", "second"), gate("unique", "name", "third")]
    assert asked(client, table, *gates).values == {"first": 2, "second": None, "third": 1}


def test_only_sql_gates_are_asked(client: ControlClient, table: str, wire: DirectWire) -> None:
    others = GateSpec(id="m", type="min_rows", threshold=1), GateSpec(id="r", type="row_count_reconciliation")
    assert asked(client, table, *others).values == {}
    assert wire.counts["query"] == 0


@pytest.mark.contract("Q1")
def test_a_gate_over_its_time_is_no_answer(client: ControlClient, table: str) -> None:
    slow = "SELECT sum(sleepEachRow(0.5)) FROM {table}, numbers(40) SETTINGS max_block_size = 1"
    started = time.monotonic()
    assert answer(client, table, "custom_sql", slow, within=0.3) is None
    assert time.monotonic() - started < 5


def test_between_two_gates_the_load_may_be_cancelled(client: ControlClient, table: str) -> None:
    class Cancelled(Exception):
        pass

    def before() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Cancelled

    calls: list[int] = []
    with pytest.raises(Cancelled):
        asked(client, table, gate("not_null", "a", "x"), gate("not_null", "a", "y"), before=before)


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("lost", ["close", "answer"])
def test_an_answer_that_does_not_arrive_is_an_error(
    endpoint: Endpoint, native: TcpProxy, connect: Callable[[Endpoint], ControlClient], table: str, lost: str
) -> None:
    """Field report B7: a lost connection, and an end without columns."""
    client = connect(attrs.evolve(endpoint, native_port=native.port))
    native.rule(lost, match=b"countIf", payload=b"\x05")
    with pytest.raises(StatementFailed) as raised:
        asked(client, table, gate("not_null", "a"))
    assert raised.value.code is None


MEANINGS: dict[str, dict[str, SettingValue]] = {
    "null_joins": {"join_use_nulls": 1},
    "any_joins": {"join_default_strictness": "ANY"},
    "uniq": {"count_distinct_implementation": "uniq"},
    "except": {"except_default_mode": "DISTINCT"},
}
"""Profiles under which the same SQL means something else."""
JOINS = {
    "alone": (
        "SELECT count() FROM {table} AS a LEFT JOIN (SELECT 1 AS k, 2 AS w) AS b ON a.id = b.k WHERE b.w = 0",
        89_998,
    ),
    "double": ("SELECT count() FROM {table} AS a JOIN (SELECT arrayJoin([1, 1, 1]) AS k) AS b ON a.id = b.k", 6),
    "ids": ("SELECT count(DISTINCT id) FROM {table}", 45_000),
    "rest": ("SELECT count() FROM (SELECT id FROM {table} EXCEPT SELECT toUInt64(1))", 89_999),
}
ZONES = ("Etc/GMT+9", "Etc/GMT-8")


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """A server with a user for each poisoned profile; ``d.t`` fails every gate."""
    profiles = {**POISONS, "all": ALL, **MEANINGS, **{f"zone_{zone[-1]}": {"session_timezone": zone} for zone in ZONES}}
    users = tuple(SandboxUser(name=f"p_{name}", password="x", settings=profiles[name]) for name in profiles)
    server = SandboxServer()
    config = SandboxConfig(folder=tmp_path_factory.mktemp("poisoned"), users=users, bound_to_starter=True)
    running = server.start(config)
    try:
        ask(running, "CREATE DATABASE d ENGINE = Atomic")
        ask(running, "CREATE TABLE d.t (id UInt64, n Nullable(UInt8), at DateTime) ENGINE = MergeTree ORDER BY id")
        ask(
            running, "INSERT INTO d.t SELECT intDiv(number, 2), if(number % 9 = 0, NULL, 1), 100000 FROM numbers(90000)"
        )
        yield running
    finally:
        server.stop(running.folder)


@pytest.mark.contract("Q1")
def test_a_profile_s_time_zone_makes_no_day_younger(poisoned: RunningSandbox) -> None:
    ages = []
    for zone in ZONES:
        client = ControlClient(attrs.evolve(poisoned.endpoint, user=f"p_zone_{zone[-1]}", password="x"), DirectWire())
        try:
            ages.append(gate_answers(client, "d", "t", [gate("freshness", "toDate(10)", "day")]).values["day"])
        finally:
            client.close()
    assert ages[0] is not None
    assert ages[1] is not None
    assert 0 <= ages[1] - ages[0] < 60


@pytest.mark.contract("Q1")
@pytest.mark.parametrize("name", MEANINGS)
def test_a_query_means_the_same_under_every_profile(poisoned: RunningSandbox, name: str) -> None:
    """A join that the profile makes another one would find no row that is wrong."""
    client = ControlClient(attrs.evolve(poisoned.endpoint, user=f"p_{name}", password="x"), DirectWire())
    gates = [gate("custom_sql", text, gate_id) for gate_id, (text, _) in JOINS.items()]
    try:
        found = gate_answers(client, "d", "t", gates).values
    finally:
        client.close()
    assert found == {gate_id: value for gate_id, (_, value) in JOINS.items()}


REFUSED = ("unknown_packet", "binary_types", "transaction", "forced_key", "missing_database", "all")
"""Profiles under which the server refuses, or answers in a way that cannot be read."""


def under(poisoned: RunningSandbox, name: str) -> dict[str, int | None]:
    """What gates of which none should pass are answered under a profile; the newest value is rounded to a billion."""
    client = ControlClient(attrs.evolve(poisoned.endpoint, user=f"p_{name}", password="x"), DirectWire())
    gates = [
        gate("not_null", "n", "nulls"),
        gate("unique", "id", "double"),
        gate("accepted_values", "id = 0", "other"),
        gate("custom_sql", "SELECT count() FROM {table}", "rows"),
        gate("freshness", "at", "age"),
    ]
    try:
        found = dict(gate_answers(client, "d", "t", gates).values)
    except (StatementFailed, DponeError):
        return {}
    finally:
        client.close()
    age = found["age"]
    return {**found, "age": age and age // 10**9}


FAILING = {"nulls": 10_000, "double": 45_000, "other": 89_998, "rows": 90_000, "age": 1}


@pytest.mark.contract("Q1", "R7")
@pytest.mark.parametrize("name", [name for name in POISONS if name not in REFUSED])
def test_a_poisoned_profile_changes_no_answer(poisoned: RunningSandbox, name: str) -> None:
    assert under(poisoned, name) == FAILING


@pytest.mark.contract("Q1", "R7")
@pytest.mark.parametrize("name", REFUSED)
def test_a_profile_that_cannot_be_pinned_gives_the_answer_or_none(poisoned: RunningSandbox, name: str) -> None:
    assert all(value in (None, FAILING[gate_id]) for gate_id, value in under(poisoned, name).items())
