"""Nothing that a load means escapes its digest, and nothing else gets into it."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.read import check_file, spec_from_values
from dpone_provider.manifest.spec import IDENTITY, LoadSpec
from dpone_provider.quality.policy import AcceptanceMetricPolicy, GateSpec, QualityPolicy, Tolerance
from tests.manifest.families import CASES, CSV, batch_whole, case, written

GATE = GateSpec(id="g", type="min_rows", side="target", threshold=1, tolerance=Tolerance())
POLICY = AcceptanceMetricPolicy(enabled=True, null_counts="business_columns")
# The quality room's values are digested as their snapshot: one other value for each field, which must be seen there.
QUALITY: dict[type, tuple[Any, dict[str, Any]]] = {
    QualityPolicy: (QualityPolicy(), {"gates": (GATE,), "acceptance": POLICY}),
    GateSpec: (
        GATE,
        {
            "id": "h",
            "type": "custom_sql",
            "severity": "warn",
            "side": "source",
            "threshold": 2,
            "tolerance": Tolerance(value=1),
            "mode": "full",
            "sql": "SELECT 1",
        },
    ),
    Tolerance: (Tolerance(), {"mode": "pct", "value": 0.25}),
    AcceptanceMetricPolicy: (
        POLICY,
        {
            "enabled": False,
            "mode": "required",
            "source": False,
            "staged": False,
            "target": False,
            "row_count": False,
            "null_counts": ("id",),
            "distinct_counts": "all_columns",
        },
    ),
}


def reachable(start: type) -> set[type]:
    """Every attrs class that a value of ``start`` can hold, by the annotations."""
    found: set[type] = set()

    def walk(hint: Any) -> None:
        for inner in typing.get_args(hint):
            walk(inner)
        if isinstance(hint, type) and attrs.has(hint) and hint not in found:
            found.add(hint)
            for annotation in typing.get_type_hints(hint).values():
                walk(annotation)

    walk(start)
    return found


def policy_with(value: Any) -> QualityPolicy:
    """A policy that holds this value."""
    match value:
        case QualityPolicy():
            return value
        case GateSpec():
            return QualityPolicy(gates=(value,))
        case Tolerance():
            return QualityPolicy(gates=(attrs.evolve(GATE, tolerance=value),))
        case _:
            return QualityPolicy(acceptance=value)


@pytest.mark.contract("I5")
def test_every_class_that_a_load_can_hold_is_registered() -> None:
    found = reachable(LoadSpec)
    assert found >= set(QUALITY)
    assert {owner.__name__ for owner in found - set(QUALITY)} == {
        *("LoadSpec", "FileSource", "ClickHouseSource", "SqlSource", "Cursor", "Partitions", "TableRef"),
        *("SinkSpec", "Strategy", "PhysicalDesign"),
    }
    for owner in found - set(QUALITY):
        for field in attrs.fields(owner):
            assert field.metadata.get(IDENTITY) in ("semantic", "added", "neutral"), f"{owner.__name__}.{field.name}"
    for owner in QUALITY:
        assert {field.name for field in attrs.fields(owner)} == QUALITY[owner][1].keys(), owner.__name__


@pytest.mark.contract("I4", "I5")
@pytest.mark.parametrize(
    ("owner", "field"),
    [pytest.param(owner, field, id=f"{owner.__name__}.{field}") for owner in QUALITY for field in QUALITY[owner][1]],
)
def test_every_field_of_the_quality_values_changes_the_digest(owner: type, field: str) -> None:
    value, others = QUALITY[owner]
    load = spec_from_values(name="load", **case())
    before = attrs.evolve(load, quality=policy_with(value))
    after = attrs.evolve(load, quality=policy_with(attrs.evolve(value, **{field: others[field]})))
    assert admission_digest(before) != admission_digest(after)
    assert before.quality.snapshot_id != after.quality.snapshot_id


# -- what authors write ------------------------------------------------------------------------------------------

FULL: dict[str, Any] = {"name": "load", **CASES["everything"]}
QUERY: dict[str, Any] = {"name": "load", **CASES["query"]}
TABLE: dict[str, Any] = {"name": "load", **CASES["table"]}
APPENDED: dict[str, Any] = {"name": "load", **CASES["appended"]}
CURSOR: dict[str, Any] = {"name": "load", **CASES["cursor"]}
SQL: dict[str, Any] = {"name": "load", **CASES["sql_table"]}
SQL_QUERY: dict[str, Any] = {"name": "load", **CASES["sql_query"]}
SPLIT, CUT, LISTED, FILED = ({"name": "load", **CASES[name]} for name in ("split", "cut", "listed", "filed"))
STORAGE = "sink.options.physical_design.storage.clickhouse"
ONE_VALUE_ONLY = {"sink.type", "sink.strategy.mode", f"{STORAGE}.engine"}  # no other word is admitted here
OTHERS: dict[str, Any] = {
    "name": "other",
    "source.type": CASES["query"]["source"],
    "source.format": "jsonl",
    "source.path": "b.csv",
    "source.options.timestamp_formats": ["%d/%m/%Y"],
    "source.options.true_values": ["Y", "y"],
    "sink.connection_ref": "v",
    "sink.table.schema": "e",
    "sink.table.name": "u",
    "sink.strategy.max_source_bytes": 1001,
    "sink.columns.id": "UInt32",
    "sink.columns.at": "Date",
    "sink.options.keep_previous": False,
    f"{STORAGE}.order_by": ["toDate(at)", "id"],
    f"{STORAGE}.partition_by": "toYear(at)",
    f"{STORAGE}.settings.index_granularity": 8192,
    f"{STORAGE}.settings.storage_policy": "other",
    f"{STORAGE}.settings.allow_nullable_key": False,
    "quality.gates": [],
    "quality.acceptance.enabled": False,
    "quality.acceptance.mode": "warn_only",
    "quality.acceptance.capture.target": False,
    "quality.acceptance.checks.row_count": False,
    "quality.acceptance.checks.null_counts": ["id", "at"],
    "quality.acceptance.checks.distinct_counts": "none",
}
NEUTRAL: dict[str, Any] = {"sink.options.durable_quality_replay": False}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of all authored values; a list is one value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield ".".join(path)


def changed(process: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The process with another value at a path; another type of source replaces the source."""
    result = deepcopy(process)
    *parents, last = path.split(".")
    if path == "source.type":
        parents, last = [], "source"
    inner = result
    for key in parents:
        inner = inner[key]
    assert inner[last] != value
    inner[last] = value
    if value is None:
        del inner[last]
    if path == "source.format":
        del inner["options"]
    return result


def digest(process: dict[str, Any]) -> str:
    return admission_digest(spec_from_values(**process))


@pytest.mark.contract("M9", "I4")
def test_every_authored_value_is_in_one_of_the_tables() -> None:
    assert set(leaves(FULL)) == OTHERS.keys() | NEUTRAL.keys() | ONE_VALUE_ONLY


@pytest.mark.contract("M9", "I4")
@pytest.mark.parametrize("path", OTHERS)
def test_every_semantic_value_changes_the_digest(path: str) -> None:
    assert digest(changed(FULL, path, OTHERS[path])) != digest(FULL)


@pytest.mark.contract("M9", "I4")
@pytest.mark.parametrize(
    ("process", "path", "value"),
    [
        (QUERY, "source.query", "SELECT 2 AS id"),
        (QUERY, "source.connection_ref", "x"),
        (TABLE, "source.table.schema", "x"),
        (TABLE, "source.table.name", "x"),
        (TABLE, "source.connection_ref", "x"),
        (SQL, "source.table.schema", "x"),
        (SQL, "source.table.name", "x"),
        (SQL, "source.connection_ref", "x"),
        (SQL_QUERY, "source.query", "SELECT 2 AS id"),
        (APPENDED, "sink.strategy.mode", "full_refresh"),
        (CURSOR, "source.cursor.column", "x"),
        (SPLIT, "sink.strategy.mode", "full_refresh"),
        (SPLIT, "source.partitions.range.column", "x"),
        (SPLIT, "source.partitions.range.size", 6),
        (CUT, "source.partitions.range.bounds", ["2025-12-31"]),
        (LISTED, "source.partitions.list.column", "x"),
        (LISTED, "source.partitions.list.values", ["a", "b"]),
        (FILED, "source.partitions", None),
        (CURSOR, "sink.pre_sql", ["SYSTEM RELOAD DICTIONARY d.r"]),
        (CURSOR, "sink.post_sql", []),
    ],
)
def test_every_semantic_value_of_other_sources_and_modes_changes_the_digest(
    process: dict[str, Any], path: str, value: Any
) -> None:
    assert digest(changed(process, path, value)) != digest(process)


@pytest.mark.contract("M9")
def test_the_rows_of_a_fetch_change_no_digest() -> None:
    assert digest(changed(SQL_QUERY, "source.options", {"batch_rows": 10})) == digest(SQL_QUERY)


@pytest.mark.contract("M9")
@pytest.mark.parametrize(("key", "value"), [("workers", 2), ("folder", "/elsewhere"), ("artifacts", "gs://lake")])
def test_how_a_load_is_moved_changes_no_digest(key: str, value: Any) -> None:
    assert digest(changed(FILED, "source.partitions", {"file": True, key: value})) == digest(FILED)


@pytest.mark.contract("M9")
@pytest.mark.parametrize("path", NEUTRAL)
def test_the_selector_alone_changes_no_digest(path: str) -> None:
    assert digest(changed(FULL, path, NEUTRAL[path])) == digest(FULL)


def reversed_keys(value: Any) -> Any:
    """The same mapping, written in the other order; the order of columns means something and stays."""
    if not isinstance(value, dict):
        return value
    return {key: value[key] if key == "columns" else reversed_keys(value[key]) for key in reversed(value)}


@pytest.mark.contract("I3", "M9")
def test_what_people_note_and_how_they_write_changes_no_digest(tmp_path: Path) -> None:
    process = {key: value for key, value in FULL.items() if key != "name"}
    plain = batch_whole(tmp_path / "a", "load", process)
    noted = batch_whole(
        tmp_path / "deep" / "b",
        "load",
        reversed_keys(process) | {"metadata": {"owner": "me", "airflow": {"retries": 3}}},
    )
    assert admission_digest(noted) == admission_digest(plain)
    assert noted.metadata != plain.metadata

    manifest = {
        "kind": "dpone.flow.v1",
        "authoring": {"source": "f.yaml", "mode": "flow"},
        "metadata": {"owner": "me"},
        "processes": [
            {**FULL, "depends_on": ["first"]},
            {"name": "first", "source": CSV, "sink": {**FULL["sink"], "table": {"schema": "d", "name": "z"}}},
        ],
    }
    result = check_file(written(tmp_path / "f.yaml", manifest))
    assert result.problems == ()
    assert admission_digest(result.processes[0]) == admission_digest(plain)


@pytest.mark.contract("I3")
def test_a_quoted_or_aliased_yaml_says_the_same(tmp_path: Path) -> None:
    text = """
# a comment
kind: "dpone.batch.v1"
defaults: &all
  name: 'load'
  source: {type: file, "format": csv, path: "a.csv"}
  sink:
    type: clickhouse
    connection_ref: w
    table: {schema: d, name: t}
    strategy:
      mode: full_refresh
      max_source_bytes: 1000   # bytes
schemas: {s: {defaults: *all, tables: [{table: t, overrides: *all}]}}
"""
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    (found,) = check_file(path).processes
    assert admission_digest(found) == digest({"name": "load", **case()})
    assert LoadConfigBuilder(found).build() == {"kind": "etl-config", "name": "load", **case()}
