"""One load, said in every family of manifests, in plain and in layered ways."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.read import load_spec, spec_from_values
from dpone_provider.manifest.spec import LoadSpec

CSV = {"type": "file", "format": "csv", "path": "a.csv"}
SINK: dict[str, Any] = {
    "type": "clickhouse",
    "connection_ref": "w",
    "table": {"schema": "d", "name": "t"},
    "strategy": {"mode": "full_refresh", "max_source_bytes": 1000},
}
GATES = [
    {"id": "rows", "type": "row_count_reconciliation", "severity": "error", "tolerance": {"mode": "pct", "value": 0.5}},
    {"id": "some", "type": "min_rows", "severity": "warn", "side": "source", "threshold": 3},
]
JUDGED = [
    {"id": "same", "type": "typed_hash_reconciliation", "severity": "error", "mode": "sample"},
    {"id": "keys", "type": "unique", "severity": "error", "threshold": 0, "sql": "(id, at)"},
    {"id": "paid", "type": "not_null", "severity": "warn", "threshold": 10, "sql": "paid_at"},
    {"id": "known", "type": "accepted_values", "severity": "error", "threshold": 0, "sql": "s IN ('a',\n\t'b')"},
    {"id": "new", "type": "freshness", "severity": "error", "threshold": 3600, "sql": "at"},
    {"id": "own", "type": "custom_sql", "severity": "error", "threshold": 0, "sql": "SELECT count() FROM {table}"},
]
ACCEPTANCE = {
    "enabled": True,
    "mode": "required",
    "capture": {"source": True, "staged": True, "target": False},
    "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": "all_columns"},
}
CLICKHOUSE = {
    "engine": "MergeTree",
    "order_by": ["id", "toDate(at)"],
    "partition_by": "toYYYYMM(at)",
    "settings": {"index_granularity": 4096, "storage_policy": "default", "allow_nullable_key": True},
}


TABLED = {"type": "clickhouse", "connection_ref": "r", "table": {"schema": "s", "name": "t"}}
SPLIT = {"range": {"column": "id", "size": 5}, "workers": 16}


def sink(**changes: Any) -> dict[str, Any]:
    """The plain sink with changes; ``options`` are the sink's options."""
    return deepcopy({**SINK, **changes})


def design(**keys: Any) -> dict[str, Any]:
    return {"physical_design": {"storage": {"clickhouse": keys}}}


def case(source: dict[str, Any] | None = None, quality: Any = None, **changes: Any) -> dict[str, Any]:
    """A process: source, sink and, when given, quality."""
    values = {"source": deepcopy(source or CSV), "sink": sink(**changes)}
    return values | ({} if quality is None else {"quality": deepcopy(quality)})


CASES: dict[str, dict[str, Any]] = {
    "plain": case(),
    "replayed": case(options={"durable_quality_replay": True}),
    "not_replayed": case(connection_ref="v", options={"durable_quality_replay": False}),
    "no_budget": case(strategy={"mode": "full_refresh"}),
    "csv_options": case({**CSV, "options": {"delimiter": ";", "null_values": ["", "NA"], "skip_rows": 0}}),
    "jsonl": case({"type": "file", "format": "jsonl", "path": "x/*.jsonl.gz", "options": {"block_size": 4096}}),
    "parquet": case({"type": "file", "format": "parquet", "path": "s3://b/k", "options": {"columns": ["id", "at"]}}),
    "arrow": case({"type": "file", "format": "arrow", "path": "/data/a.arrow", "connection_ref": "files"}),
    "table": case({"type": "clickhouse", "connection_ref": "r", "table": {"schema": "s", "name": "Q t"}}),
    "query": case({"type": "clickhouse", "connection_ref": "r", "query": "SELECT 1 AS id -- one\n"}),
    "sql_table": case({"type": "sql", "connection_ref": "r", "table": {"schema": "s", "name": "Q t"}}),
    "sql_query": case(
        {"type": "sql", "connection_ref": "r", "query": "SELECT 'C:\\' AS id", "options": {"batch_rows": 9}}
    ),
    "appended": case(strategy={"mode": "append"}),
    "cursor": case(
        {**CSV, "cursor": {"column": "ä b"}},
        {"gates": GATES, "acceptance": {**ACCEPTANCE, "capture": {"staged": False}}},
        strategy={"mode": "append", "max_source_bytes": 1000},
        columns={"ä b": "UInt64"},
        pre_sql=["SYSTEM RELOAD DICTIONARY d.r", "TRUNCATE TABLE d.u -- all\n", "SYSTEM RELOAD DICTIONARY d.r"],
        post_sql=["OPTIMIZE TABLE d.t"],
    ),
    "sql_cursor": case(
        {"type": "sql", "connection_ref": "r", "query": "SELECT 1 AS id", "cursor": {"column": "id"}},
        strategy={"mode": "append"},
    ),
    "table_cursor": case(
        {"type": "clickhouse", "connection_ref": "r", "query": "SELECT 1 AS id", "cursor": {"column": "id"}},
        strategy={"mode": "append"},
    ),
    "split": case(
        {"type": "sql", "connection_ref": "r", "query": "SELECT 1 AS id", "partitions": SPLIT},
        strategy={"mode": "partition_replace"},
    ),
    "cut": case({**TABLED, "partitions": {"range": {"column": "ä b", "bounds": ["2025-12-31", "2026-02-28"]}}}),
    "listed": case({**TABLED, "partitions": {"list": {"column": "s", "values": ["b", "a"]}, "workers": 1}}),
    "numbered": case({**TABLED, "partitions": {"list": {"column": "n", "values": [-1, 2**64 - 1]}}}),
    "filed": case({**CSV, "partitions": {"file": True, "folder": "/var/t", "artifacts": "s3://lake/x"}}),
    "hooked": case(pre_sql=["SELECT 1"], post_sql=[]),
    "columns": case(columns={"id": "UInt64", "ä b": "LowCardinality(String)", "at": "DateTime64(3, 'UTC')"}),
    "designed": case(options={**design(**CLICKHOUSE), "keep_previous": True}),
    "staged": case(staging={"schema": "staging"}, options=design(order_by=["id"])),
    "gated": case(quality={"gates": GATES}),
    "hashed": case(quality={"gates": JUDGED[:1]}),
    "judged": case(strategy={"mode": "full_refresh"}, quality={"gates": JUDGED}),  # no gate of SQL with the selector
    "accepted": case(quality={"gates": GATES[:1], "acceptance": ACCEPTANCE}),
    "warned": case(quality={"acceptance": {**ACCEPTANCE, "mode": "warn_only", "checks": {"distinct_counts": True}}}),
    "disabled": case(quality={"gates": GATES[1:], "acceptance": {**ACCEPTANCE, "enabled": False}}),
    "everything": case(
        {**CSV, "path": "all.csv", "options": {"timestamp_formats": ["%d.%m.%Y"], "true_values": ["Y"]}},
        {"gates": GATES, "acceptance": {**ACCEPTANCE, "capture": {"target": True}}},
        columns={"id": "UInt64", "at": "Date32"},
        options={"durable_quality_replay": True, "keep_previous": True, **design(**CLICKHOUSE)},
    ),
}
_WEAKER_SINK = {"connection_ref": "weaker", "strategy": {"mode": "full_refresh"}, "columns": {}}
_WEAKER_QUALITY = {"gates": [{"id": "weaker", "type": "min_rows", "threshold": 9}]}


def written(path: Path, manifest: dict[str, Any]) -> Path:
    """A manifest as a file; JSON is YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def batch_whole(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """Everything in the defaults."""
    manifest = {"kind": "dpone.batch.v1", "defaults": {"name": name, **process}, "schemas": {"s": {"tables": ["t"]}}}
    return load_spec(written(folder / "whole.dpone.yaml", manifest))


def batch_spread(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """Spread over all layers, with weaker values that are overridden, among other tables."""
    strong, options = deepcopy(process["sink"]), process["sink"].get("options", {})
    target = strong.pop("table")
    strong.pop("options", None)
    quality = process.get("quality", {})
    own: dict[str, Any] = {"name": name, "sink": {"options": options, "table": {"name": target["name"]}}}
    gates = {"quality": {**quality, "gates": quality.get("gates", [])}}
    manifest = {
        "kind": "dpone.batch.v1",
        "metadata": {"owner": "analytics"},
        "quality": _WEAKER_QUALITY,
        "defaults": {"sink": {**_WEAKER_SINK, "type": "clickhouse"}, "metadata": {"a": 1}},
        "schemas": {
            "s": {
                "defaults": {"source": process["source"], "sink": {**strong, "table": {"schema": target["schema"]}}},
                "tables": [{"table": "x", "overrides": own | gates}, {"table": "other"}],
            },
        },
    }
    return load_spec(written(folder / "spread.dpone.yaml", manifest), "s.x")


def _flow(file: str, **keys: Any) -> dict[str, Any]:
    return {"kind": "dpone.flow.v1", "authoring": {"source": file}, **keys}


def flow_whole(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """Everything at the process."""
    manifest = _flow("whole.flow.dpone.yaml", processes=[{"name": name, **process}])
    return load_spec(written(folder / "whole.flow.dpone.yaml", manifest), name)


def flow_fragment(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """In a fragment, with the quality and a part of the sink at the flow, and weaker values that are overridden."""
    strong = {key: value for key, value in process["sink"].items() if key in ("table", "options", "columns")}
    rest = {key: value for key, value in process["sink"].items() if key not in strong}
    replaces = process["sink"]["strategy"]["mode"] == "partition_replace"
    whole = {"strategy": {"mode": "full_refresh"}} if replaces else {}
    manifest = _flow(
        "parts.flow.dpone.yaml",
        quality={"gates": [], **process.get("quality", {})},
        defaults={"sink": rest | {"options": {"keep_previous": False}}, "metadata": {"b": 2}},
        processes=[{"name": "before", "source": CSV, "sink": {"table": {"schema": "d", "name": "before"}} | whole}],
        fragments=["steps/one.yaml"],
    )
    part = {"name": name, "source": process["source"], "sink": strong, "depends_on": ["before"]}
    written(folder / "steps" / "one.yaml", {"kind": "dpone.flow-fragment.v1", "processes": [part]})
    return load_spec(written(folder / "parts.flow.dpone.yaml", manifest), name)


def config_authored(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """A config as people write it."""
    manifest = {"kind": "etl-config", "name": name, **process}
    return load_spec(written(folder / "config.dpone.yaml", manifest))


def config_built(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """What the builder makes of a process, written and read again."""
    config = LoadConfigBuilder({"name": name, **process}).build()
    return load_spec(written(folder / "built.dpone.yaml", config))


def arguments(folder: Path, name: str, process: dict[str, Any]) -> LoadSpec:
    """The operator's arguments."""
    return spec_from_values(name=name, base=str(folder), **process)


FORMS = (batch_whole, batch_spread, flow_whole, flow_fragment, config_authored, config_built, arguments)
