"""Answers that are not what was asked for are errors, never zeros (R9)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.control import Answer
from dpone_provider.reader import queries
from dpone_provider.reader.messages import ObservationError
from dpone_provider.reader.result import TableSight, require_settings, scan_result, table_sight, wrong_setting

SCAN = queries.scan(database="d", table="t", row_count=True, null_columns=("a", "b"), distinct_columns=("b",))
COLUMNS = tuple((f"m{ordinal}", "UInt64") for ordinal in range(4))
SIGHT = TableSight(
    uuid="u",
    engine="MergeTree",
    engine_full="MergeTree ORDER BY id",
    columns=(("id", "UInt64", ""), ("n", "String", "")),
    has_ttl=False,
    row_policies=0,
    mutations=0,
    patched=0,
    lightweight_deletes=0,
    replica=None,
)
REPLICATED = {"engine": "ReplicatedMergeTree", "engine_full": "ReplicatedMergeTree('/t', 'r') ORDER BY id"}
STATE: tuple[Any, ...] = (
    "u",
    "MergeTree",
    "MergeTree ORDER BY id",
    "CREATE TABLE d.t (`id` UInt64)",
    [["0000000002", "n", "String", ""], ["0000000001", "id", "UInt64", ""]],
    0,
    0,
    [0, 0],
    [],
)


@pytest.mark.contract("R9", "R10")
def test_the_row_becomes_the_result() -> None:
    found = scan_result(Answer(rows=[(3, 0, 1, 2)], columns=COLUMNS), SCAN, "r1")
    assert found == {
        "replica": "r1",
        "row_count": 3,
        "null_counts": {"a": 0, "b": 1},
        "distinct_counts": {"b": 2},
    }


@pytest.mark.contract("R9")
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([], COLUMNS),
        ([], ()),
        ([(3, 0, 1, 2), (3, 0, 1, 2)], COLUMNS),
        ([(3, 0, 1)], COLUMNS),
        ([(3, 0, 1, 2, 0)], COLUMNS),
        ([(3, 0, 1, 2)], COLUMNS[:3]),
        ([(3, 0, 1, 2)], COLUMNS[::-1]),
        ([(3, 0, 1, 2)], (*COLUMNS[:3], ("x", "UInt64"))),
        ([(3, 0, 1, 2)], (*COLUMNS[:3], ("m3", "Nullable(UInt64)"))),
        ([(3, 0, 1, 2)], (*COLUMNS[:3], ("m3", "Int64"))),
        ([(3, 0, 1, None)], COLUMNS),
        ([(3, 0, 1, True)], COLUMNS),
        ([(3, 0, 1, 2.0)], COLUMNS),
        ([(3, 0, 1, "2")], COLUMNS),
        ([(3, 0, 1, -1)], COLUMNS),
        ([(3, 0, 1, 2**64)], COLUMNS),
    ],
)
def test_anything_else_is_refused(rows: list[tuple[Any, ...]], columns: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ObservationError) as raised:
        scan_result(Answer(rows=rows, columns=columns), SCAN, "r1")
    assert (raised.value.reason, raised.value.unavailable) == ("answer", False)


def sealed(sight: TableSight) -> str | None:
    columns = (("id", "UInt64"), ("n", "String"))
    return sight.drift(generation="u", engine_full=sight.engine_full, columns=columns)


@pytest.mark.contract("R8")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"uuid": "v"}, "generation"),
        ({"engine": "ReplacingMergeTree"}, "engine"),
        ({"columns": (("id", "UInt64", ""),)}, "schema"),
        ({"columns": (("id", "UInt64", "DEFAULT"), ("n", "String", ""))}, "schema"),
        ({"has_ttl": True}, "ttl"),
        ({"row_policies": 1}, "row_policy"),
        ({"mutations": 1}, "mutation"),
        ({"patched": 1}, "mutation"),
        ({"lightweight_deletes": 1}, "lightweight_delete"),
        ({"replica": (0, 0, 1, 1)}, "replica_health"),
        ({**REPLICATED, "replica": None}, "replica_health"),
        ({**REPLICATED, "replica": (0, 0, 2, 2)}, None),
        ({**REPLICATED, "replica": (1, 0, 2, 2)}, "replica_health"),
        ({**REPLICATED, "replica": (0, 1, 2, 2)}, "replica_health"),
        ({**REPLICATED, "replica": (0, 0, 1, 2)}, "replica_health"),
        ({**REPLICATED, "replica": (0, 0, 0, 0)}, "replica_health"),
    ],
)
def test_what_is_drift(changes: dict[str, Any], reason: str | None) -> None:
    assert sealed(attrs.evolve(SIGHT, **changes)) == reason


def test_another_engine_text_is_drift() -> None:
    assert SIGHT.drift(generation="u", engine_full="MergeTree ORDER BY n", columns=()) == "engine"


@pytest.mark.contract("R8", "R9")
def test_the_state_is_read_in_the_columns_order() -> None:
    assert table_sight(Answer(rows=[STATE], columns=())) == SIGHT
    assert table_sight(Answer(rows=[], columns=())) is None


@pytest.mark.contract("R9")
@pytest.mark.parametrize("position", range(4, 9))
@pytest.mark.parametrize("value", [None, "x", -1, [[1]], [1]])
def test_a_state_of_another_form_is_refused(position: int, value: Any) -> None:
    state = (*STATE[:position], value, *STATE[position + 1 :])
    with pytest.raises(ObservationError) as raised:
        table_sight(Answer(rows=[state], columns=()))
    assert raised.value.reason == "answer"


@pytest.mark.contract("R8")
@pytest.mark.parametrize("position", [2, 3])
def test_a_table_that_the_server_could_not_print_is_unavailable(position: int) -> None:
    """The server writes an empty text where it cannot read a table's definition; that is no drift."""
    state = (*STATE[:position], "", *STATE[position + 1 :])
    with pytest.raises(ObservationError) as raised:
        table_sight(Answer(rows=[state], columns=()))
    assert (raised.value.reason, raised.value.unavailable) == ("network", True)


def settings(**changes: str) -> Answer:
    sent = queries.pinned(seconds=2.5, max_memory_bytes=2**30)
    found = {**{name: str(value) for name, value in sent.items()}, **changes}
    return Answer(rows=[([[name, value] for name, value in found.items() if value != "gone"],)], columns=())


@pytest.mark.contract("R7")
def test_settings_as_they_were_sent() -> None:
    sent = queries.pinned(seconds=2.5, max_memory_bytes=2**30)
    require_settings(settings(), sent)
    require_settings(settings(max_execution_time="2.500"), sent)
    require_settings(settings(discard_query_data="gone", make_distributed_plan="gone"), sent)


@pytest.mark.contract("R7")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("final", "1"),
        ("filter", "1 = 0"),
        ("max_memory_usage", "0"),
        ("max_execution_time", "0"),
        ("max_execution_time", "x"),
        ("final", "gone"),
        ("max_memory_usage", "gone"),
        ("readonly", "2"),
    ],
)
def test_a_setting_that_is_another_one_makes_the_answer_invalid(name: str, value: str) -> None:
    sent = queries.pinned(seconds=2.5, max_memory_bytes=2**30)
    answer = settings(**{name: value})
    assert wrong_setting(answer, sent) == name
    with pytest.raises(ObservationError) as raised:
        require_settings(answer, sent)
    assert (raised.value.reason, raised.value.unavailable) == ("setting_changed", False)


@pytest.mark.contract("R7")
@pytest.mark.parametrize("rows", [[], [(1,)], [([["a"]],)], [([],), ([],)]])
def test_settings_of_another_form_are_refused(rows: list[tuple[Any, ...]]) -> None:
    with pytest.raises(ObservationError) as raised:
        require_settings(Answer(rows=rows, columns=()), {"final": 0})
    assert raised.value.reason == "answer"
