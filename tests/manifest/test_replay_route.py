"""What the durable route refuses before anything is read, created or written."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_provider.manifest.problems import ManifestError
from dpone_provider.manifest.read import spec_from_values

pytestmark = pytest.mark.contract("M7")
SOURCE = {"type": "file", "format": "csv", "path": "a.csv"}


def sink(selector: bool, **changes: Any) -> dict[str, Any]:
    options = {
        "durable_quality_replay": selector,
        "physical_design": {"storage": {"clickhouse": changes.pop("design", {})}},
    }
    strategy = {"mode": "full_refresh", "max_source_bytes": 1}
    table = {"schema": "d", "name": "t"}
    base = {"type": "clickhouse", "connection_ref": "w", "table": table, "strategy": strategy, "options": options}
    return {key: value for key, value in (base | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"strategy": None}, "sink.strategy.max_source_bytes"),
        ({"strategy": {"mode": "full_refresh"}}, "sink.strategy.max_source_bytes"),
        (
            {"design": {"settings": {"ttl_only_drop_parts": 1}}},
            "sink.options.physical_design.storage.clickhouse.settings.ttl_only_drop_parts",
        ),
    ],
)
def test_true_refuses_what_false_allows(changes: dict[str, Any], path: str) -> None:
    spec_from_values(source=SOURCE, sink=sink(False, **changes), name="load")
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source=SOURCE, sink=sink(True, **changes), name="load")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("DPONE_ROUTE_UNSUPPORTED", path)]


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"staging": {"schema": "other"}}, "sink.staging.schema"),
        ({"design": {"engine": "ReplacingMergeTree"}}, "sink.options.physical_design.storage.clickhouse.engine"),
        ({"design": {"engine": "ReplicatedMergeTree"}}, "sink.options.physical_design.storage.clickhouse.engine"),
        ({"design": {"engine": "MergeTree(x)"}}, "sink.options.physical_design.storage.clickhouse.engine"),
    ],
)
def test_what_no_staged_refresh_can_do_is_refused_either_way(
    changes: dict[str, Any], path: str, selector: bool
) -> None:
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source=SOURCE, sink=sink(selector, **changes), name="load")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("DPONE_ROUTE_UNSUPPORTED", path)]


@pytest.mark.parametrize("selector", [True, False])
def test_a_mode_of_a_later_version_is_refused_by_name(selector: bool) -> None:
    strategy = {"mode": "partition_replace", "max_source_bytes": 1}
    with pytest.raises(ManifestError) as caught:
        spec_from_values(source=SOURCE, sink=sink(selector, strategy=strategy), name="load")
    assert "not available yet for this kind" in str(caught.value)


@pytest.mark.parametrize("acceptance", [{"enabled": False}, {"enabled": True}, {"enabled": True, "mode": "required"}])
def test_acceptance_of_every_side_is_admitted(acceptance: dict[str, Any]) -> None:
    spec_from_values(source=SOURCE, sink=sink(True), quality={"acceptance": acceptance}, name="load")


def test_a_plain_engine_is_plain_with_and_without_brackets() -> None:
    for engine in ("MergeTree", "MergeTree()", " MergeTree ( ) "):
        spec = spec_from_values(source=SOURCE, sink=sink(True, design={"engine": engine}), name="load")
        assert spec.sink.design.engine == "MergeTree"


@pytest.mark.parametrize(
    "text", ["a TTL b", "a SETTINGS x = 1", "a) TTL (b", "a; DROP TABLE t", "a -- b", "a /* b */", "'a", "a, b"]
)
def test_a_key_cannot_bring_another_clause(text: str) -> None:
    for design in ({"order_by": [text]}, {"partition_by": text}):
        with pytest.raises(ManifestError):
            spec_from_values(source=SOURCE, sink=sink(False, design=design), name="load")


@pytest.mark.parametrize("name", ["comment", "ttl", "sample", "order"])
def test_a_column_may_be_named_like_a_clause(name: str) -> None:
    spec_from_values(source=SOURCE, sink=sink(False, design={"order_by": [name]}), name="load")
