"""Which fields make a load what it is."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from dpone_provider.manifest import spec as specs
from dpone_provider.manifest.digest import admission_digest, projection
from dpone_provider.manifest.spec import (
    IDENTITY,
    ClickHouseSource,
    Cursor,
    FileSource,
    LoadSpec,
    Partitions,
    PhysicalDesign,
    SinkSpec,
    SqlSource,
    Strategy,
    TableRef,
)
from dpone_provider.quality.policy import GateSpec, QualityPolicy

VALUES = [
    value
    for value in vars(specs).values()
    if isinstance(value, type) and attrs.has(value) and value is not QualityPolicy
]
TABLE = TableRef(database="d", name="t")
FILE = FileSource(format="csv", path="a.csv")
QUERY = ClickHouseSource(connection_ref="a", table=TABLE)
SQL = SqlSource(connection_ref="a", table="t")
SINK = SinkSpec(connection_ref="w", table=TABLE)
LOAD = LoadSpec(process="load", selector="s.t", source=FILE, sink=SINK)
GATE = GateSpec(id="g", type="min_rows", side="target", threshold=1)

OTHER: dict[type, dict[str, Any]] = {
    TableRef: {"database": "e", "name": "u"},
    FileSource: {
        "format": "parquet",
        "path": "b.csv",
        "options": (("delimiter", ";"),),
        "connection_ref": "c",
        "base": "/elsewhere",
        "cursor": Cursor(column="id"),
        "partitions": Partitions(by="range", column="id", size=5),
        "type": "other",
    },
    ClickHouseSource: {
        "connection_ref": "b",
        "table": TableRef(database="d", name="u"),
        "query": "SELECT 1",
        "options": (("a", 1),),
        "cursor": Cursor(column="id"),
        "partitions": Partitions(by="range", column="id", size=5),
        "type": "other",
    },
    SqlSource: {
        "connection_ref": "b",
        "schema": "e",
        "table": "u",
        "query": "SELECT 1",
        "batch_rows": 7,
        "cursor": Cursor(column="id"),
        "partitions": Partitions(by="range", column="id", size=5),
        "type": "other",
    },
    Cursor: {"column": "placed"},
    Partitions: {
        "by": "list",
        "column": "placed",
        "size": 6,
        "bounds": (1, 2),
        "values": ("a",),
        "workers": 3,
        "folder": "/elsewhere",
        "artifacts": "s3://b/k",
        "base": "/elsewhere",
    },
    Strategy: {"mode": "other", "max_source_bytes": 7},
    PhysicalDesign: {
        "engine": "ReplacingMergeTree",
        "order_by": ("a",),
        "partition_by": "b",
        "settings": (("index_granularity", 1),),
    },
    SinkSpec: {
        "connection_ref": "v",
        "table": TableRef(database="d", name="u"),
        "strategy": Strategy(max_source_bytes=7),
        "staging_database": "e",
        "columns": (("a", "UInt8"),),
        "design": PhysicalDesign(order_by=("a",)),
        "keep_previous": True,
        "pre_sql": ("OPTIMIZE TABLE t",),
        "post_sql": ("OPTIMIZE TABLE t",),
        "durable_quality_replay": True,
        "cluster": "c",
        "type": "other",
    },
    LoadSpec: {
        "process": "other",
        "selector": "s.u",
        "source": QUERY,
        "sink": attrs.evolve(SINK, connection_ref="v"),
        "quality": QualityPolicy(gates=(GATE,)),
        "manifest": "m.yaml",
        "depends_on": ("s.a",),
        "metadata": (("a", 1),),
    },
}


def loads(owner: type) -> tuple[LoadSpec, Any]:
    """A load that holds a value of this type, and a function that puts a changed one in its place."""
    if owner is LoadSpec:
        return LOAD, lambda changes: attrs.evolve(LOAD, **changes)
    if owner is Cursor:
        load = attrs.evolve(LOAD, source=attrs.evolve(QUERY, cursor=Cursor(column="id")))
        return load, lambda changes: attrs.evolve(load, source=attrs.evolve(QUERY, cursor=Cursor(**changes)))
    if owner is Partitions:
        parts = Partitions(by="range", column="id", size=5)
        load = attrs.evolve(LOAD, source=attrs.evolve(QUERY, partitions=parts))
        return load, lambda changes: attrs.evolve(
            load, source=attrs.evolve(QUERY, partitions=attrs.evolve(parts, **changes))
        )
    sources = {type(source): source for source in (FILE, QUERY, SQL)}
    if owner in sources:
        load = attrs.evolve(LOAD, source=sources[owner])
        return load, lambda changes: attrs.evolve(load, source=attrs.evolve(load.source, **changes))
    name = {SinkSpec: "", TableRef: "table", Strategy: "strategy", PhysicalDesign: "design"}[owner]

    def put(changes: dict[str, Any]) -> LoadSpec:
        inner = {name: attrs.evolve(getattr(SINK, name), **changes)} if name else changes
        return attrs.evolve(LOAD, sink=attrs.evolve(SINK, **inner))

    return LOAD, put


def fields(*kinds: str) -> list[Any]:
    return [
        pytest.param(owner, field.name, id=f"{owner.__name__}.{field.name}")
        for owner in VALUES
        for field in attrs.fields(owner)
        if field.metadata.get(IDENTITY) in kinds
    ]


@pytest.mark.contract("I4")
@pytest.mark.parametrize(("owner", "field"), fields("semantic", "added"))
def test_every_semantic_field_changes_the_digest(owner: type, field: str) -> None:
    load, put = loads(owner)
    assert admission_digest(put({field: OTHER[owner][field]})) != admission_digest(load)


@pytest.mark.contract("I3", "M9")
@pytest.mark.parametrize(("owner", "field"), fields("neutral"))
def test_no_neutral_field_changes_the_digest(owner: type, field: str) -> None:
    load, put = loads(owner)
    changed = put({field: OTHER[owner][field]})
    assert changed != load
    assert admission_digest(changed) == admission_digest(load)


@pytest.mark.contract("I5")
def test_every_field_of_every_value_is_classified() -> None:
    assert {owner.__name__ for owner in VALUES} >= {"LoadSpec", "SinkSpec", "FileSource", "ClickHouseSource"}
    for owner in VALUES:
        for field in attrs.fields(owner):
            assert field.metadata.get(IDENTITY) in ("semantic", "added", "neutral"), f"{owner.__name__}.{field.name}"
            assert field.name in OTHER[owner]


@pytest.mark.contract("I5")
def test_a_field_that_nobody_classified_fails_the_projection() -> None:
    @attrs.frozen(kw_only=True)
    class Unclassified:
        field: int = 1

    with pytest.raises(TypeError, match="is not"):
        projection(Unclassified())
