"""ClickHouse type text: parsed, written as the server writes it, refused when it is no type."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.clickhouse.types import UnknownType, parse_type

TEXTS = [
    *("Int8", "UInt256", "BFloat16", "FixedString(4)", "DateTime", "DateTime('Europe/Berlin')", "DateTime64"),
    *("DateTime64( 6,'UTC')", "Decimal(9,2)", "Decimal(5)", "Decimal32(2)", "Decimal256(10)", "Time", "Time64(3)"),
    *("Enum8('a'=1,'b''c' = -2)", "Enum('x','y')", "Enum16('a\\'b\\n'=300)", "Enum('a' = 200)"),
    *("LowCardinality(Nullable(String))", "Array(Array(Nullable(Int8)))", "Map(String, Array(Int8))", "JSON"),
    *("Tuple(a Int8, `b c` String)", "Tuple(Int8, Tuple(x UInt8))", "Tuple(Int8 Int8)", "Nullable(Decimal(38, 10))"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_canonical_text_is_the_servers(database: str, sql: Any, text: str) -> None:
    sql(f"CREATE TABLE {database}.v (v {text}) ENGINE = Memory")
    stored = sql(f"SELECT type FROM system.columns WHERE database = '{database}' AND table = 'v'")[0][0]
    assert str(parse_type(text)) == stored
    assert parse_type(stored) == parse_type(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "INT", "Int8 NULL", "Nullable(Array(Int8))", "Decimal(80,2)", "Decimal(2, 3)", "FixedString(0)"),
        *("Enum8('a'=300)", "Enum8('a'=1,'a'=2)", "Foo(1", "Tuple()", "Int8)", "String; DROP TABLE x", "Map(Int8)"),
        *(
            "DateTime(3)",
            "Array(",
            "JSON(",
            "Variant(Int8, String)",
            "Tuple(a Int8, String)",
            "Array(" * 50 + "Int8" + ")" * 50,
        ),
    ],
)
def test_what_is_no_supported_type_is_refused(text: str) -> None:
    with pytest.raises(UnknownType):
        parse_type(text)


def test_nullable_and_low_cardinality_are_looked_through() -> None:
    kind = parse_type("LowCardinality(Nullable(String))")
    assert (kind.nullable, str(kind.base)) == (True, "String")
    assert not parse_type("Array(Nullable(String))").nullable
