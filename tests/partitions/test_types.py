"""Values of every kind arrive through an artefact as they were."""

from __future__ import annotations

import pytest

from tests.partitions.bench import Parts

COLUMNS = {
    "many": ("Array(Nullable(Int32))", "[number, NULL]"),
    "map": ("Map(String, UInt16)", "map('k', number)"),
    "low": ("LowCardinality(Nullable(String))", "if(number % 2, NULL, 'low')"),
    "wide": ("Decimal(60, 5)", "toDecimal256('12345678901234567890123456789.5', 5) + number"),
    "ref": ("UUID", "toUUID('12345678-1234-5678-9abc-def012345678')"),
    "at": ("IPv6", "toIPv6('::1')"),
    "four": ("IPv4", "toIPv4('10.0.0.1')"),
    "huge": ("Int128", "toInt128('-170141183460469231731687303715884105728') + number"),
    "fine": ("DateTime64(9, 'Europe/Berlin')", "toDateTime64('2026-01-01 10:00:00.123456789', 9, 'Europe/Berlin')"),
    "time": ("DateTime('UTC')", "toDateTime('2026-01-01 10:00:00', 'UTC') + number"),
    "old": ("Date32", "toDate32('1901-01-01')"),
    "word": ("Enum8('a' = 1, 'b' = 2)", "if(number % 2, 'a', 'b')"),
    "pair": ("Tuple(x Int8, y Nullable(String))", "tuple(1, NULL)"),
    "fixed": ("FixedString(4)", "'ab'"),
    "yes": ("Bool", "number % 2"),
    "odd": ("Float32", "if(number % 2, nan, -0.0)"),
    "raw": ("String", "unhex('ff00')"),
}


@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_every_type_survives_an_artefact(bench: Parts, mode: str) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    for name in ("s", "t"):
        bench.ask(f"DROP TABLE {bench.database}.{name} SYNC")
        bench.ask(
            f"CREATE TABLE {bench.database}.{name} (id Int64, {columns}) ENGINE = MergeTree "
            "PARTITION BY intDiv(id, 10) ORDER BY id"
        )
    values = ", ".join(value for _, value in COLUMNS.values())
    bench.ask(f"INSERT INTO {bench.database}.s SELECT number, {values} FROM numbers(20)")
    source = {"type": "clickhouse", "connection_ref": "source", "table": {"schema": bench.database, "name": "s"}}
    bench.run(spec=bench.spec(mode, source=source))
    hashed = "SELECT count(), groupBitXor(cityHash64(*)), min(toString(tuple(*))) FROM"
    assert bench.ask(f"{hashed} {bench.database}.t") == bench.ask(f"{hashed} {bench.database}.s")
