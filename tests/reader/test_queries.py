"""The statements: only SELECTs, only quoted names, every setting one that the server has and that changes nothing."""

from __future__ import annotations

import pytest

from dpone_provider.clickhouse import pins
from dpone_provider.reader import queries
from tests.sandbox_fixture import Sql


@pytest.mark.contract("R9")
def test_the_scan_has_ordinal_aliases_and_quoted_names() -> None:
    scan = queries.scan(
        database="d`b", table="t'", row_count=True, null_columns=("m0", "n"), distinct_columns=("m0", "a`b")
    )
    assert scan is not None
    assert scan.sql == (
        "SELECT count() AS m0, countIf(isNull(dpone_g.`m0`)) AS m1, countIf(isNull(dpone_g.`n`)) AS m2, "
        "uniqExact(dpone_g.`m0`) AS m3, uniqExact(dpone_g.`a\\`b`) AS m4 FROM `d\\`b`.`t'` AS dpone_g"
    )
    assert scan.aliases == ("m0", "m1", "m2", "m3", "m4")


@pytest.mark.contract("R10")
def test_an_empty_selection_has_no_scan() -> None:
    assert queries.scan(database="d", table="t", row_count=False, null_columns=(), distinct_columns=()) is None


@pytest.mark.contract("R7")
def test_every_statement_is_one_select() -> None:
    scan = queries.scan(database="d", table="t", row_count=True, null_columns=(), distinct_columns=())
    assert scan is not None
    for text in (scan.sql, queries.STATE.strip(), queries.settings_query(queries.OBSERVE)):
        assert text.startswith("SELECT ")
        assert ";" not in text


@pytest.mark.contract("R7")
def test_every_pinned_setting_is_one_of_the_server(sql: Sql) -> None:
    """A misspelled pin would be skipped in silence, since a server may not know all of them."""
    sent = queries.pinned(seconds=1.0, max_memory_bytes=2**30)
    known = {name for (name,) in sql("SELECT name FROM system.settings WHERE alias_for = ''")}
    assert sent.keys() <= known


@pytest.mark.contract("R7")
def test_the_settings_of_the_protocol_are_pinned() -> None:
    sent = queries.pinned(seconds=12.3456, max_memory_bytes=2**30)
    promised = {
        "readonly": 1,
        "max_execution_time": 12.346,
        "timeout_overflow_mode": "throw",
        "read_overflow_mode": "throw",
        "result_overflow_mode": "throw",
        "max_result_rows": 1,
        "max_rows_to_read": 0,
        "max_bytes_to_read": 0,
        "max_memory_usage": 2**30,
        "skip_unavailable_shards": 0,
        "final": 0,
        "apply_deleted_mask": 1,
        "additional_table_filters": "{}",
        "additional_result_filter": "",
        "limit": 0,
        "offset": 0,
        "use_query_cache": 0,
        "empty_result_for_aggregation_by_empty_set": 0,
        "max_parallel_replicas": 1,
    }
    assert {name: sent.get(name) for name in promised} == promised
    assert sent.items() >= {name: value for name, value in pins.READ.items() if name != "max_result_rows"}.items()


@pytest.mark.parametrize(("seconds", "sent"), [(0.00001, 0.001), (59.9996, 60.0), (0.25, 0.25)])
def test_the_time_left_is_never_no_limit(seconds: float, sent: float) -> None:
    assert queries.pinned(seconds=seconds, max_memory_bytes=1)["max_execution_time"] == sent
