"""Partitions of a live table on the real server: keys that match, and replacements that can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.partitions import (
    Within,
    admit_key,
    create_like,
    is_replaced,
    live_outside,
    live_partitions,
    metrics_of,
    metrics_within,
    newest_block,
    replace_partition,
    staged_partitions,
)
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Effect, StatementFailed
from tests.loads import endpoint_of
from tests.sandbox_fixture import Sql

UUID = "11111111-1111-4111-8111-111111111111"
COLUMNS = "id Int64, day Date, ts DateTime('Europe/Berlin'), fine DateTime64(3, 'UTC'), note Nullable(String)"
JANUARY = Within(column="day", low="2026-01-01", high="2026-02-01")


@pytest.fixture
def client(sandbox: RunningSandbox) -> Iterator[ControlClient]:
    made = ControlClient(endpoint_of(sandbox), DirectWire())
    yield made
    made.close()


@pytest.fixture
def make(sql: Sql, database: str) -> Callable[..., None]:
    def made(key: str, name: str = "t", columns: str = COLUMNS) -> None:
        by = f"PARTITION BY {key}" if key else ""
        sql(
            f"CREATE TABLE {database}.{name} ({columns}) ENGINE = MergeTree {by} ORDER BY id "
            "SETTINGS allow_nullable_key = 1"
        )

    return made


def key_of(client: ControlClient, database: str, column: str, kind: str, *borders: str, listed: bool = False) -> None:
    admit_key(client, database, "t", column=column, kind=kind, borders=borders, listed=listed)


@pytest.mark.parametrize(
    ("key", "column", "kind", "borders"),
    [
        ("day", "day", "Date", ("2026-01-17",)),
        ("(day)", "day", "Date", ("2026-01-17",)),
        ("tuple(day)", "day", "Date", ("2026-01-17",)),
        ("toYYYYMM(day)", "day", "Date", ("2026-01-01", "2026-02-01")),
        ("(toYYYYMM(day))", "day", "Date", ("2026-01-01",)),
        ("toYYYYMMDD(day)", "day", "Date", ("2026-01-17",)),
        ("toMonday(day)", "day", "Date", ("2026-01-05",)),
        ("toStartOfMonth(day)", "day", "Date", ("2026-03-01",)),
        ("toYear(day)", "day", "Date", ("2026-01-01",)),
        ("toDate(ts)", "ts", "DateTime('Europe/Berlin')", ("2026-01-17",)),
        ("toYYYYMM(fine)", "fine", "DateTime64(3, 'UTC')", ("2026-01-01",)),
        ("id", "id", "Int64", ("7",)),
        ("intDiv(id, 1000)", "id", "Int64", ("0", "1000", "5000")),
    ],
)
def test_a_key_whose_partitions_lie_within_the_bounds_is_admitted(
    client: ControlClient, make: Callable[..., None], database: str, key: str, column: str, kind: str, borders: Any
) -> None:
    make(key)
    key_of(client, database, column, kind, *borders)


@pytest.mark.parametrize(
    ("key", "column", "kind", "borders"),
    [
        ("", "day", "Date", ("2026-01-01",)),
        ("tuple()", "day", "Date", ("2026-01-01",)),
        ("id", "day", "Date", ("2026-01-01",)),
        ("(day, id)", "day", "Date", ("2026-01-01",)),
        ("id % 10", "id", "Int64", ("10",)),
        ("toDayOfWeek(day)", "day", "Date", ("2026-01-05",)),
        ("toYYYYMM(day)", "day", "Date", ("2026-01-01", "2026-01-02")),
        ("toMonday(day)", "day", "Date", ("2026-01-01",)),
        ("toDate(ts)", "ts", "DateTime('Europe/Berlin')", ("2026-01-17 00:00:01",)),
        ("intDiv(id, 1000)", "id", "Int64", ("1500",)),
        ("intDiv(id, 1000)", "id", "Int64", ("-1000",)),  # -1999 to -1000 are one partition
        ("intDiv(id, -1000)", "id", "Int64", ("1000",)),
        ("toYYYYMM(day)", "day", "Date", ("seven",)),
    ],
)
def test_a_key_that_would_take_rows_of_another_partition_is_refused(
    client: ControlClient, make: Callable[..., None], database: str, key: str, column: str, kind: str, borders: Any
) -> None:
    make(key)
    with pytest.raises(DponeError, match="DPONE_PARTITION_KEY"):
        key_of(client, database, column, kind, *borders)


def test_a_list_needs_the_column_itself(client: ControlClient, make: Callable[..., None], database: str) -> None:
    make("toYYYYMM(day)")
    with pytest.raises(DponeError, match="DPONE_PARTITION_KEY"):
        key_of(client, database, "day", "Date", listed=True)


def test_a_column_of_a_strange_name_is_recognized(
    client: ControlClient, make: Callable[..., None], database: str
) -> None:
    make("toYYYYMM(`a``b (c`)", columns="id Int64, `a``b (c` Date")
    key_of(client, database, "a`b (c", "Date", "2026-01-01")


def filled(sql: Sql, database: str, name: str, *rows: tuple[int, str]) -> None:
    values = ", ".join(f"({number}, '{day}')" for number, day in rows)
    sql(f"INSERT INTO {database}.{name} (id, day) VALUES {values}")


@pytest.fixture
def months(sql: Sql, database: str, make: Callable[..., None], client: ControlClient) -> None:
    make("toYYYYMM(day)")
    filled(sql, database, "t", (1, "2026-01-05"), (2, "2026-01-06"), (3, "2026-02-07"))
    create_like(client, database, "s", UUID, "t", "mine")


def ids(sql: Sql, database: str) -> list[int]:
    return [row[0] for row in sql(f"SELECT id FROM {database}.t ORDER BY id")]


@pytest.mark.usefixtures("months")
def test_replacing_a_partition_touches_no_other_and_can_be_repeated(
    client: ControlClient, sql: Sql, database: str
) -> None:
    filled(sql, database, "s", (10, "2026-01-31"))
    for _ in range(2):
        replace_partition(client, database, "t", "s", "202601")
        assert ids(sql, database) == [3, 10]


@pytest.mark.usefixtures("months")
def test_a_partition_without_rows_is_replaced_by_nothing(client: ControlClient, sql: Sql, database: str) -> None:
    for _ in range(2):
        replace_partition(client, database, "t", "s", "202601", empty=True)
        assert ids(sql, database) == [3]


@pytest.mark.usefixtures("months")
def test_emptying_without_the_private_table_changes_nothing(client: ControlClient, sql: Sql, database: str) -> None:
    """A statement that arrives late must not take rows that a later load has brought."""
    before = ids(sql, database)
    with pytest.raises(StatementFailed) as caught:
        replace_partition(client, database, "t", "gone", "202601", empty=True)
    assert (caught.value.code, ids(sql, database)) == (60, before)


@pytest.mark.contract("P3")
@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("empty", [False, True], ids=["rows", "nothing"])
def test_the_catalog_shows_whether_a_partition_was_replaced(
    client: ControlClient, sql: Sql, database: str, empty: bool
) -> None:
    if not empty:
        filled(sql, database, "s", (10, "2026-01-31"))
    newest = newest_block(client, database, "t", "202601")

    def shown() -> bool:
        return is_replaced(client, database, "t", "s", "202601", newest=newest, empty=empty)

    assert not shown()
    replace_partition(client, database, "t", "s", "202601", empty=empty)
    assert shown()
    if empty:  # parts without rows are left: what is merged with them looks old, and is not believed
        return
    filled(sql, database, "t", (11, "2026-01-30"))
    sql(f"OPTIMIZE TABLE {database}.t PARTITION ID '202601' FINAL")
    assert shown(), "rows that others add, and merges, take nothing away"


@pytest.mark.contract("P3")
@pytest.mark.usefixtures("months")
def test_a_new_partition_is_shown_by_its_rows(client: ControlClient, sql: Sql, database: str) -> None:
    filled(sql, database, "s", (10, "2026-07-31"))
    newest = newest_block(client, database, "t", "202607")
    assert not is_replaced(client, database, "t", "s", "202607", newest=newest)
    replace_partition(client, database, "t", "s", "202607")
    assert is_replaced(client, database, "t", "s", "202607", newest=newest)


@pytest.mark.usefixtures("months")
def test_an_answer_that_is_lost_is_no_answer_and_repeating_is_harmless(
    sandbox: RunningSandbox, sql: Sql, database: str
) -> None:
    class Lost(DirectWire):
        def send(self, effect: Effect, call: Callable[[], Any]) -> Any:
            answer = super().send(effect, call)
            if effect.kind == "replace_partition" and self.counts["replace_partition"] == 1:
                raise StatementFailed(None)
            return answer

    wire = Lost()
    client = ControlClient(endpoint_of(sandbox), wire)
    filled(sql, database, "s", (10, "2026-01-31"))
    with pytest.raises(StatementFailed):
        replace_partition(client, database, "t", "s", "202601")
    replace_partition(client, database, "t", "s", "202601")
    assert ids(sql, database) == [3, 10]
    client.close()


@pytest.mark.usefixtures("months")
def test_what_lies_within_the_bounds_is_found_and_what_does_not_is_counted(
    client: ControlClient, sql: Sql, database: str
) -> None:
    assert live_partitions(client, database, "t", JANUARY, "Date") == ("202601",)
    assert live_partitions(client, database, "t", Within(), "Date") == ("202601", "202602")
    assert live_partitions(client, database, "t", Within(column="day", values=("2026-02-07",)), "Date") == ("202602",)
    filled(sql, database, "s", (10, "2026-01-31"), (11, "2026-02-01"), (12, "2025-12-31"))
    staged = staged_partitions(client, database, "s", JANUARY, "Date")
    assert (staged.rows, staged.outside, staged.ids) == (3, 2, ("202512", "202601", "202602"))


def test_rows_that_a_replacement_would_take_away_are_counted(
    client: ControlClient, sql: Sql, database: str, make: Callable[..., None]
) -> None:
    make("intDiv(id, 1000)", columns="id Int64")
    sql(f"INSERT INTO {database}.t VALUES (-5), (5), (5000)")
    first = Within(column="id", low="0", high="1000")
    assert live_outside(client, database, "t", first, "Int64", ("0",)) == 1
    assert live_outside(client, database, "t", Within(column="id", low="5000"), "Int64", ("5",)) == 0


def test_a_null_lies_within_no_bounds(
    client: ControlClient, sql: Sql, database: str, make: Callable[..., None]
) -> None:
    make("n", columns="id Int64, n Nullable(Int64)")
    sql(f"INSERT INTO {database}.t VALUES (1, NULL), (2, 5)")
    for within in (Within(column="n"), Within(column="n", low="0"), Within(column="n", values=("5",))):
        assert metrics_within(client, database, "t", (), within, "Nullable(Int64)").row_count == 1
    assert staged_partitions(client, database, "t", Within(column="n", low="0"), "Nullable(Int64)").outside == 1


@pytest.mark.usefixtures("months")
def test_rows_and_nulls_are_counted_within_the_bounds_alone(client: ControlClient, sql: Sql, database: str) -> None:
    counted = metrics_within(client, database, "t", ("note",), JANUARY, "Date")
    assert (counted.row_count, counted.null_counts) == (2, (("note", 2),))
    assert metrics_of(client, database, "t", ("note",), ("202602", "209912")).null_counts == (("note", 1),)
    assert metrics_of(client, database, "t", (), ()).row_count == 0
