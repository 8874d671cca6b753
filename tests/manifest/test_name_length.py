"""The longest target name that the manifest admits still has room for its private generations on the server."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.sqltext import MAX_TARGET_LENGTH


def admit(database: str, table: str) -> None:
    spec_from_values(
        source={"type": "file", "format": "csv", "path": "a.csv"},
        sink={"type": "clickhouse", "connection_ref": "w", "table": {"schema": database, "name": table}},
        name="load",
    )


@pytest.mark.parametrize(("letter", "length"), [("t", 1), ("-", 3), ("ж", 6)])
def test_the_longest_private_name_fits_the_server(letter: str, length: int, database: str, sql: Any) -> None:
    table = letter * ((MAX_TARGET_LENGTH - len(database)) // length)
    admit(database, table)
    with pytest.raises(ManifestError):
        admit(database, table + letter)
    private = f"{table}__dpone_{'a' * 12}_{'9' * 10}x{'f' * 32}"
    sql(f"CREATE TABLE {database}.`{private}` (a UInt8) ENGINE = MergeTree ORDER BY a")
    sql(f"DROP TABLE {database}.`{private}` SYNC")
