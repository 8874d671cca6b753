"""Hostile names survive the way to a real server and back."""

from __future__ import annotations

import pytest

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.control import ControlClient
from tests.clickhouse.conftest import ASK

HOSTILE = [
    "plain",
    "a`b",
    "a'b",
    'a"b',
    "a\\b",
    "a\\",
    "`; DROP DATABASE x; --",
    "new\nline\ttab\rret",
    "bell\a\v\f\b",
    "ünïcode €  😀",
    " line separator",
    "select",
    "a.b",
    "100%s %(x)s {x:String}",
    "/* c */ -- d",
    " leading and trailing ",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_exactly_that_tables_and_columns_name(
    client: ControlClient, database: str, name: str
) -> None:
    where = quote.table(database, name)
    client.command(
        ASK, f"CREATE TABLE {where} ({quote.identifier(name)} UInt8) ENGINE = Memory COMMENT {quote.string(name)}"
    )
    found = client.query(
        ASK,
        "SELECT t.name, t.comment, c.name FROM system.tables t JOIN system.columns c ON c.database = t.database "
        "AND c.table = t.name WHERE t.database = {d:String}",
        {"d": database},
    )
    assert found == [(name, name, name)]
    client.command(ASK, f"INSERT INTO {where} ({quote.identifier(name)}) SELECT 7", settings={"async_insert": 0})
    assert client.query(ASK, f"SELECT {quote.identifier(name)} FROM {where}") == [(7,)]


@pytest.mark.parametrize("text", [*HOSTILE, "", "nul \0 inside"])
def test_a_hostile_string_comes_back_from_a_literal_and_from_a_parameter(client: ControlClient, text: str) -> None:
    sql = f"SELECT {quote.string(text)}, {{p:String}}"
    assert client.query(ASK, sql, {"p": text}) == [(text, text)]


def test_the_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        quote.identifier("")
