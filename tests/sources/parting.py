"""What the tests of partitions share: a load that is split, its plan, and the rows that each part reads."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.native.partition import Part, TransferPartition
from dpone_provider.sources.open import open_source
from dpone_provider.sources.partition import plan_partitions
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.wire import DirectWire

Rows = list[tuple[Any, ...]]


def split(source: dict[str, Any], parts: dict[str, Any], base: str = "", **sink: Any) -> LoadSpec:
    """A load of a source by partitions."""
    known = {"connection_ref": "r"} if source["type"] != "file" else {}
    target = {"type": "clickhouse", "connection_ref": "w", "table": {"schema": "d", "name": "t"}}
    return spec_from_values(
        source={**known, **source, "partitions": parts}, sink={**target, **sink}, name="load", base=base
    )


def planned(spec: LoadSpec, endpoint: SourceEndpoint | None) -> tuple[TransferPartition, ...]:
    return plan_partitions(spec, endpoint, DirectWire()).partitions


def read(spec: LoadSpec, endpoint: SourceEndpoint | None, part: Part | None = None) -> Rows:
    """The rows of a part, or of the whole source."""
    with open_source(spec.source, endpoint, wire=DirectWire(), columns=spec.sink.columns, part=part) as source:
        rows = [tuple(row.values()) for batch in source.batches() for row in batch.to_pylist()]
        assert source.rows == len(rows)
        return rows


def by_part(spec: LoadSpec, endpoint: SourceEndpoint | None) -> list[tuple[Part, Rows]]:
    """Every part of the plan with its rows."""
    return [(each.part, read(spec, endpoint, each.part)) for each in planned(spec, endpoint)]


def each_row_once(spec: LoadSpec, endpoint: SourceEndpoint | None) -> bool:
    """Whether the partitions together are the whole source, each row once."""
    found = [row for _, rows in by_part(spec, endpoint) for row in rows]
    return sorted(found, key=repr) == sorted(read(spec, endpoint), key=repr)


def refusal(spec: LoadSpec, endpoint: SourceEndpoint | None) -> DponeError:
    """The error that planning ends with."""
    with pytest.raises(DponeError) as caught:
        planned(spec, endpoint)
    return caught.value
