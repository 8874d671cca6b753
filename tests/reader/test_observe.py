"""What the child's work sees on a real server: counts, names, drift before and after the scan, causes of silence."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator

import attrs
import pytest

from dpone_provider.clickhouse import quote
from dpone_provider.reader.messages import ObservationError, is_unavailable
from dpone_provider.reader.observe import observe, observe_through
from dpone_provider.sandbox import process
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser, render_users
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.reader.targets import HookedWire, address, request_of, told
from tests.sandbox_fixture import Sql, ask
from tests.wirelab import TcpProxy, native

TYPES = {
    "UInt8": ("1", "2"),
    "UInt64": ("1", "18446744073709551615"),
    "Int128": ("1", "-2"),
    "UInt256": ("1", "2"),
    "Float32": ("1", "2.5"),
    "Float64": ("1", "2.5"),
    "BFloat16": ("1", "2"),
    "Bool": ("true", "false"),
    "String": ("''", "'\\0'"),
    "Date": ("'2024-01-01'", "'2024-01-02'"),
    "Date32": ("'1924-01-01'", "'2024-01-02'"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'"),
    "IPv4": ("'1.2.3.4'", "'1.2.3.5'"),
    "IPv6": ("'::1'", "'::2'"),
    "Time": ("'10:00:00'", "'10:00:01'"),
    "Time64(3)": ("'10:00:00.001'", "'10:00:00.002'"),
    "DateTime": ("1", "2"),
    "DateTime('Asia/Tokyo')": ("1", "2"),
    "DateTime64(6)": ("1", "2"),
    "FixedString(3)": ("'a'", "'b'"),
    "Decimal(9, 2)": ("1.25", "1.26"),
    "Decimal(76, 3)": ("1.25", "1.26"),
    "Enum8('a' = 1, 'b' = 2)": ("'a'", "'b'"),
    "JSON": ("'{\"a\":1}'", "'{\"a\":2}'"),
    "LowCardinality(String)": ("'a'", "'b'"),
    "Array(Nullable(String))": ("['a', NULL]", "['a']"),
    "Map(String, Array(UInt8))": ("{'a': [1]}", "{'a': [2]}"),
    "Tuple(Int8, String)": ("(1, 'a')", "(1, 'b')"),
    "Tuple(a Nullable(Int8), b Array(String))": ("(NULL, ['a'])", "(1, ['a'])"),
}
NULLABLE = ("UInt64", "String", "Date", "UUID", "Decimal(9, 2)", "JSON")
NAMES = (
    "m0",
    "m1",
    "dpone_g",
    "count()",
    "a`b",
    "it's",
    'dou"ble',
    "back\\slash",
    "Ünï-☃",
    "new\nline",
    "n.a",
    "*",
    "%s{x}",
)


@pytest.mark.contract("R9")
def test_every_supported_type_is_counted(sandbox: RunningSandbox, database: str, sql: Sql) -> None:
    columns = {f"c{number}": (kind, *values) for number, (kind, values) in enumerate(TYPES.items())}
    nullable = {f"n{number}": kind for number, kind in enumerate(NULLABLE)}
    declared = [f"{name} {kind}" for name, (kind, *_) in columns.items()]
    declared += [f"{name} Nullable({kind})" for name, kind in nullable.items()]
    sql(f"CREATE TABLE {database}.t ({', '.join(declared)}) ENGINE = MergeTree ORDER BY tuple()")
    for pick in (1, 2, 2):
        values = [row[pick] for row in columns.values()]
        values += [TYPES[kind][0] if pick == 1 else "NULL" for kind in nullable.values()]
        sql(f"INSERT INTO {database}.t SETTINGS async_insert = 0 VALUES ({', '.join(values)})")
    names = (*columns, *nullable)
    found = observe(request_of(sandbox, database, "t", nulls=names, distinct=names))
    assert found == {
        "replica": "r1",
        "row_count": 3,
        "null_counts": {**dict.fromkeys(columns, 0), **dict.fromkeys(nullable, 2)},
        "distinct_counts": {**dict.fromkeys(columns, 2), **dict.fromkeys(nullable, 1)},
    }


@pytest.mark.contract("R7", "R9")
def test_names_mean_columns_whatever_they_are(sandbox: RunningSandbox, database: str, sql: Sql) -> None:
    table = "t`a 'b\" \\ ☃"
    where = quote.table(database, table)
    declared = ", ".join(f"{quote.identifier(name)} Nullable(UInt32)" for name in NAMES)
    sql(f"CREATE TABLE {where} ({declared}) ENGINE = MergeTree ORDER BY tuple()")
    picked = ", ".join(f"if(number < {ordinal}, NULL, number)" for ordinal in range(len(NAMES)))
    sql(f"INSERT INTO {where} SELECT {picked} FROM numbers(100)")
    found = observe(request_of(sandbox, database, table, nulls=NAMES, distinct=NAMES))
    assert found["row_count"] == 100
    assert found["null_counts"] == {name: ordinal for ordinal, name in enumerate(NAMES)}
    assert found["distinct_counts"] == {name: 100 - ordinal for ordinal, name in enumerate(NAMES)}


@pytest.fixture
def table(database: str, sql: Sql) -> str:
    """``database.t`` with 1000 rows in three parts, ids 0 to 999 and a NULL in every tenth ``n``."""
    sql(
        f"CREATE TABLE {database}.t (id UInt64, n Nullable(String)) ENGINE = MergeTree ORDER BY id "
        "SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1"
    )
    for first, last in ((0, 300), (300, 301), (301, 1000)):
        sql(
            f"INSERT INTO {database}.t SELECT number, if(number % 10 = 0, NULL, toString(number % 7)) "
            f"FROM numbers({first}, {last - first})"
        )
    return f"{database}.t"


@pytest.mark.contract("R9", "R10")
def test_only_what_was_asked_is_answered(sandbox: RunningSandbox, database: str, table: str) -> None:
    found = observe(request_of(sandbox, database, "t", rows=False, distinct=("n",)))
    assert found == {"replica": "r1", "row_count": None, "null_counts": {}, "distinct_counts": {"n": 7}}
    found = observe(request_of(sandbox, database, "t", rows=False, nulls=("n",)))
    assert found == {"replica": "r1", "row_count": None, "null_counts": {"n": 100}, "distinct_counts": {}}
    wire = HookedWire()
    found = observe_through(request_of(sandbox, database, "t", rows=False), wire, time.monotonic)
    assert found == {"replica": "r1", "row_count": None, "null_counts": {}, "distinct_counts": {}}
    assert wire.counts == {"catalog_read": 4}


@pytest.mark.contract("R9")
def test_an_empty_table_gives_real_zeros(sandbox: RunningSandbox, database: str, table: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.empty AS {table}")
    found = observe(request_of(sandbox, database, "empty", nulls=("n",), distinct=("id", "n")))
    assert found == {"replica": "r1", "row_count": 0, "null_counts": {"n": 0}, "distinct_counts": {"id": 0, "n": 0}}


@pytest.mark.contract("R9")
def test_a_column_of_nulls_has_no_distinct_value(sandbox: RunningSandbox, database: str, table: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.nulls AS {table}")
    sql(f"INSERT INTO {database}.nulls SELECT number, NULL FROM numbers(5)")
    found = observe(request_of(sandbox, database, "nulls", nulls=("n",), distinct=("n",)))
    assert (found["null_counts"], found["distinct_counts"]) == ({"n": 5}, {"n": 0})


@pytest.mark.contract("R8")
def test_every_replica_is_looked_at_twice_and_the_first_is_counted(
    sandbox: RunningSandbox, database: str, table: str
) -> None:
    replicas = (address(sandbox, "a"), address(sandbox, "b"))
    wire = HookedWire()
    found = observe_through(request_of(sandbox, database, "t", replicas=replicas), wire, time.monotonic)
    assert (found["replica"], found["row_count"]) == ("a", 1000)
    look = ["settings", "state of the target"]
    both = [("a", what) for what in look] + [("b", what) for what in look]
    assert wire.seen == [*both, ("a", "count in the target"), *both]


DRIFT = {
    "another generation": ("generation", ["CREATE TABLE {d}.x AS {d}.t", "EXCHANGE TABLES {d}.t AND {d}.x"]),
    "no table": ("generation", ["RENAME TABLE {d}.t TO {d}.x"]),
    "a new column": ("schema", ["ALTER TABLE {d}.t ADD COLUMN z UInt8"]),
    "another order": ("schema", ["ALTER TABLE {d}.t MODIFY COLUMN id UInt64 AFTER n"]),
    "another type": ("schema", ["ALTER TABLE {d}.t MODIFY COLUMN n Nullable(FixedString(9))"]),
    "a default": ("schema", ["ALTER TABLE {d}.t MODIFY COLUMN n Nullable(String) DEFAULT 'x'"]),
    "a setting of the engine": ("engine", ["ALTER TABLE {d}.t MODIFY SETTING old_parts_lifetime = 7"]),
    "a TTL of the table": ("engine", ["ALTER TABLE {d}.t MODIFY TTL toDateTime(id) + INTERVAL 99 YEAR"]),
    "a TTL of a column": (
        "ttl",
        ["ALTER TABLE {d}.t MODIFY COLUMN n Nullable(String) TTL toDateTime(id) + INTERVAL 99 YEAR"],
    ),
    "an unfinished mutation": (
        "mutation",
        ["ALTER TABLE {d}.t UPDATE n = toString(throwIf(id >= 0)) WHERE 1 SETTINGS mutations_sync = 0"],
    ),
    "a lightweight update": ("mutation", ["UPDATE {d}.t SET n = 'x' WHERE id < 10"]),
    "a lightweight delete": ("lightweight_delete", ["DELETE FROM {d}.t WHERE id < 10"]),
    "a lightweight delete by patch": (
        "mutation",
        ["DELETE FROM {d}.t WHERE id < 10 SETTINGS lightweight_delete_mode = 'lightweight_update'"],
    ),
}


@pytest.mark.contract("R8", "M7")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("change", DRIFT)
def test_drift_is_seen_before_and_after_the_scan(
    sandbox: RunningSandbox, database: str, table: str, change: str, when: str
) -> None:
    reason, statements = DRIFT[change]
    request = request_of(sandbox, database, "t", nulls=("n",), distinct=("n",))
    alter = told(sandbox, *(statement.format(d=database) for statement in statements))
    wire = HookedWire(after=alter) if when == "after" else HookedWire()
    if when == "before":
        alter()
    with pytest.raises(ObservationError) as raised:
        observe_through(request, wire, time.monotonic)
    assert (raised.value.reason, raised.value.unavailable) == (reason, False)
    assert wire.counts["query"] == (1 if when == "after" else 0)


@pytest.mark.contract("R8")
def test_drift_on_the_second_replica_is_seen(sandbox: RunningSandbox, database: str, table: str, other: Other) -> None:
    request = request_of(sandbox, database, "t", replicas=(address(sandbox, "a"), address(other.running, "b")))
    with pytest.raises(ObservationError) as raised:
        observe(request)
    assert raised.value.reason == "generation"


@pytest.mark.contract("M7")
@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("ReplacingMergeTree ORDER BY id", "engine"),
        ("SummingMergeTree ORDER BY id", "engine"),
        ("Log", "engine"),
        ("ReplicatedMergeTree('/{d}/t', 'r1') ORDER BY id", "replica_health"),
    ],
)
def test_only_healthy_plain_tables_are_observed(
    sandbox: RunningSandbox, database: str, sql: Sql, engine: str, reason: str
) -> None:
    """The sandbox's replicated tables stay read-only: it has no interserver port."""
    sql(f"CREATE TABLE {database}.t (id UInt64) ENGINE = {engine.format(d=database)}")
    with pytest.raises(ObservationError) as raised:
        observe(request_of(sandbox, database, "t"))
    assert raised.value.reason == reason


@attrs.frozen(kw_only=True)
class Other:
    """A second server: user ``poor`` may only select from ``d.t``; ``d.ruled`` has a row policy for ``ruled``."""

    running: RunningSandbox

    def as_user(self, name: str) -> RunningSandbox:
        return attrs.evolve(self.running, user=name, password="x")


_GRANTS = ("GRANT SELECT ON d.t",)
_POLICY = "<databases><d><ruled><filter>id &lt; 3</filter></ruled></d></databases>"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    users = (
        SandboxUser(name="poor", password="x", grants=_GRANTS),
        SandboxUser(name="ruled", password="x"),
        SandboxUser(name="tight", password="x", settings={"max_memory_usage": 1}, constant=("max_memory_usage",)),
    )
    server = SandboxServer()
    config = SandboxConfig(folder=tmp_path_factory.mktemp("other"), users=users, bound_to_starter=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "render_users", _with_row_policy)
        running = server.start(config)
    try:
        ask(running, "CREATE DATABASE d ENGINE = Atomic")
        for table in ("t", "ruled"):
            ask(running, f"CREATE TABLE d.{table} (id UInt64) ENGINE = MergeTree ORDER BY id")
            ask(running, f"INSERT INTO d.{table} SELECT number FROM numbers(10)")
        yield Other(running=running)
    finally:
        server.stop(running.folder)


def _with_row_policy(users: Iterable[SandboxUser]) -> str:
    """Row policies cannot be made by SQL in the sandbox; the server's ``users.xml`` can hold them."""
    return render_users(users).replace("</ruled>", f"{_POLICY}</ruled>", 1)


@pytest.mark.contract("R8", "M7")
def test_a_row_policy_is_drift_for_everybody(other: Other) -> None:
    assert ask(other.as_user("ruled"), "SELECT count() FROM d.ruled") == [(3,)]
    for user in (other.running, other.as_user("ruled")):
        request = request_of(other.running, "d", "ruled", replicas=(address(user),))
        with pytest.raises(ObservationError) as raised:
            observe(request)
        assert raised.value.reason == "row_policy"


@pytest.mark.contract("R9")
@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [("nobody", "x", "authentication"), ("tight", "x", "setting_refused"), ("poor", "x", "server_denied")],
)
def test_a_server_that_does_not_let_us_look(other: Other, user: str, password: str, reason: str) -> None:
    at = address(other.running, user=user, password=password)
    with pytest.raises(ObservationError) as raised:
        observe(request_of(other.running, "d", "t", replicas=(at,)))
    assert (raised.value.reason, raised.value.unavailable) == (reason, True)


def test_nobody_listens(sandbox: RunningSandbox, database: str, table: str) -> None:
    with TcpProxy(sandbox.tcp_port) as proxy:
        port = proxy.port
    with pytest.raises(ObservationError) as raised:
        observe(request_of(sandbox, database, "t", replicas=(address(sandbox, port=port),)))
    assert raised.value.reason == "network"


@pytest.mark.contract("R9")
def test_too_little_memory_is_no_zero(sandbox: RunningSandbox, database: str, sql: Sql) -> None:
    sql(f"CREATE TABLE {database}.t (s String) ENGINE = MergeTree ORDER BY tuple()")
    sql(f"INSERT INTO {database}.t SELECT toString(number) FROM numbers(300000)")
    with pytest.raises(ObservationError) as raised:
        observe(request_of(sandbox, database, "t", distinct=("s",), max_memory_bytes=20_000_000))
    assert (raised.value.reason, raised.value.unavailable) == ("server_overloaded", True)


@pytest.mark.contract("R3")
def test_the_servers_own_limits_are_what_is_left(sandbox: RunningSandbox, database: str, table: str, sql: Sql) -> None:
    instants = iter(100.0 + 0.5 * step for step in range(1000))
    request = request_of(sandbox, database, "t", max_memory_bytes=123_456_789)
    observe(request, clock=lambda: next(instants))
    sql("SYSTEM FLUSH LOGS query_log")
    found = sql(
        "SELECT toFloat64(Settings['max_execution_time']), Settings['max_memory_usage'], Settings['readonly'] "
        "FROM system.query_log WHERE type = 'QueryFinish' AND has(databases, %(d)s) "
        "AND startsWith(query, 'SELECT count() AS m0')",
        {"d": database},
    )
    assert [row[1:] for row in found] == [("123456789", "1")]
    assert 10 < found[0][0] < 18


@pytest.mark.contract("R3")
def test_nothing_is_asked_after_the_deadline(sandbox: RunningSandbox, database: str, table: str) -> None:
    instants = iter(100.0 + 0.5 * step for step in range(1000))
    wire = HookedWire()
    with pytest.raises(ObservationError) as raised:
        observe_through(request_of(sandbox, database, "t", budget_ms=3_600), wire, lambda: next(instants))
    assert (raised.value.reason, raised.value.unavailable) == ("deadline", True)
    assert wire.counts["query"] == 0


@pytest.mark.contract("R3")
def test_a_silent_socket_ends_at_the_deadline(sandbox: RunningSandbox, database: str, table: str) -> None:
    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("deaf", match=b"count() AS m0")
        request = request_of(sandbox, database, "t", replicas=(address(sandbox, port=proxy.port),), budget_ms=600)
        started = time.monotonic()
        with pytest.raises(ObservationError) as raised:
            observe(request)
    assert raised.value.reason == "deadline"
    assert time.monotonic() - started < 1.5


@pytest.mark.contract("R9")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *((code, "probe_unsupported") for code in (43, 46, 48)),
        *((code, "server_overloaded") for code in (160, 201, 202, 241, 439)),
        (159, "deadline"),
        (497, "server_denied"),
        (452, "setting_refused"),
        (60, "server_error_60"),
        (218, "server_error_218"),
        (394, "server_error_394"),
    ],
)
def test_what_a_servers_error_means(sandbox: RunningSandbox, database: str, table: str, code: int, reason: str) -> None:
    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("answer", match=b"AS m0", payload=native.exception(code))
        with pytest.raises(ObservationError) as raised:
            observe(request_of(sandbox, database, "t", replicas=(address(sandbox, port=proxy.port),)))
    assert (raised.value.reason, raised.value.unavailable) == (reason, True)


@pytest.mark.contract("R11")
def test_only_the_scan_can_find_a_metric_missing(sandbox: RunningSandbox, database: str, table: str) -> None:
    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("answer", match=b"system.mutations", payload=native.exception(46))
        with pytest.raises(ObservationError) as raised:
            observe(request_of(sandbox, database, "t", replicas=(address(sandbox, port=proxy.port),)))
    assert raised.value.reason == "server_error_46"


@pytest.mark.contract("R9")
@pytest.mark.parametrize("payload", [b"", native.END_OF_STREAM, native.UNKNOWN, b"\x01\x00"])
def test_an_answer_without_its_row_is_no_zero(
    sandbox: RunningSandbox, database: str, table: str, payload: bytes
) -> None:
    """B7: an end without columns, or anything torn, is no answer."""
    with TcpProxy(sandbox.tcp_port) as proxy:
        proxy.rule("answer", match=b"AS m0", payload=payload)
        with pytest.raises(ObservationError) as raised:
            observe(request_of(sandbox, database, "t", replicas=(address(sandbox, port=proxy.port),)))
    assert raised.value.reason == "network"


@pytest.mark.contract("R8", "R9")
def test_a_table_dropped_at_the_scan_is_unavailable(sandbox: RunningSandbox, database: str, table: str) -> None:
    wire = HookedWire(before=told(sandbox, f"DROP TABLE {table}"))
    with pytest.raises(ObservationError) as raised:
        observe_through(request_of(sandbox, database, "t"), wire, time.monotonic)
    assert (raised.value.reason, raised.value.unavailable) == ("server_error_60", True)


@pytest.mark.contract("R8", "R9")
def test_a_reader_beside_publications_is_never_wrong(sandbox: RunningSandbox, database: str, sql: Sql) -> None:
    """B4: each generation has its own number of rows; EXCHANGE and DROP go on while they are observed."""
    sizes: dict[str, int] = {}
    stopped = threading.Event()

    def create(name: str, rows: int) -> None:
        generation = str(uuid.uuid4())
        sizes[generation] = rows
        table = f"{database}.{name}"
        ask(sandbox, f"CREATE TABLE {table} UUID '{generation}' (id UInt64) ENGINE = MergeTree ORDER BY id")
        ask(sandbox, f"INSERT INTO {table} SELECT number FROM numbers({rows})")

    def publish() -> None:
        while not stopped.is_set():
            create("next", len(sizes) + 1)
            ask(sandbox, f"EXCHANGE TABLES {database}.t AND {database}.next")
            ask(sandbox, f"DROP TABLE {database}.next SYNC")

    def look() -> str | None:
        request = request_of(sandbox, database, "t", distinct=("id",))
        try:
            found = observe(request)
        except ObservationError as error:
            return error.reason
        rows = sizes[request.generation]
        assert (found["row_count"], found["distinct_counts"]) == (rows, {"id": rows})
        return None

    create("t", 1)
    publisher = threading.Thread(target=publish)
    publisher.start()
    met = set()
    try:
        until = time.monotonic() + 4
        while time.monotonic() < until:
            met.add(look())
    finally:
        stopped.set()
        publisher.join()
    assert all(reason in (None, "generation") or is_unavailable(reason) for reason in met)
    assert met - {None}, "nothing was published meanwhile"
    assert look() is None
