"""The screen of a ``dpone plan`` document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpone_provider.cli.screen import Fact, Grid, Row, Screen

_ROUTES = {
    "durable": "durable: staged, proven, sealed in the authority, switched once",
    "direct": "direct: read to the end, added with one insert, checked afterwards; nothing is staged",
    "partitioned": "by partitions: each read into a file of its own, all checked together, then published",
    "plain": "plain: staged, checked, switched once; no authority",
}


def plan_screen(document: Mapping[str, Any]) -> Screen:
    """Route, identity, tables, checks; then the steps and what cannot be known offline."""
    return Screen(
        title=f"{document['tables']['target']}: plan of {document['selector']}; nothing was connected to",
        tone="plain",
        facts=tuple(_facts(document)),
        grids=tuple(_grids(document)),
        details=tuple(_details(document)),
    )


def _facts(document: Mapping[str, Any]) -> Iterator[Fact]:
    route, tables, budget = document["route"], document["tables"], document["budget"]["max_source_bytes"]
    yield Fact(label="Route", value=f"{_ROUTES[route['name']]} ({route['mode']})")
    yield Fact(label="A retry", value=route["retry"])
    yield Fact(label="Operation", value=_operation(document["identity"]))
    yield Fact(label="Made of", value=_made_of(document["identity"]["made_of"]))
    yield Fact(label="Source", value=", ".join(str(value) for value in document["source"].values()))
    if parts := document["partitions"]:
        yield Fact(label="Partitions", value=_partitions(parts))
        yield Fact(label="Checkpoints", value=parts["folder"])
        yield Fact(label="Files", value=parts["artifacts"])
    if document["cursor"]:
        value = "only rows whose {column} is above the mark in {marks}".format(**document["cursor"])
        yield Fact(label="Reads", value=value)
    if tables["staging"]:
        yield Fact(label="Staged as", value=tables["staging"])
    if tables["staging"] and route["mode"] != "partition_replace":
        kept = "kept under its private name" if route["keep_previous"] else "dropped at the end"
        yield Fact(label="Old table", value=kept)
    if tables["authority"]:
        yield Fact(label="Authority", value=f"{tables['authority']}, unless the connection names another database")
    yield Fact(label="Budget", value=f"{budget:,} bytes of Arrow batches" if budget is not None else "none")
    if document["depends_on"]:
        yield Fact(label="After", value=", ".join(document["depends_on"]))


def _partitions(parts: Mapping[str, Any]) -> str:
    count = "as many as the source has" if parts["count"] is None else str(parts["count"])
    what = "one a file" if parts["by"] == "file" else f"by {parts['by']} of {parts['column']}"
    size = f", {parts['size']} wide" if parts["size"] is not None else ""
    return f"{count}, {what}{size}; {parts['workers']} at a time"


def _operation(identity: Mapping[str, Any]) -> str:
    if identity["operation_id"] is not None:
        return str(identity["operation_id"])
    return "a new one each time: without --run-id, `dpone run` makes a fresh run id"


def _made_of(made_of: Mapping[str, Any]) -> str:
    shown = {name: "(fresh)" if value is None else value for name, value in made_of.items() if value != ""}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _grids(document: Mapping[str, Any]) -> Iterator[Grid]:
    rows = (
        Row(
            cells=(
                str(step["number"]),
                step["what"],
                ", ".join(step["statements"]) or "-",
                step["on"],
                f"if {step['when']}" if step["when"] else "",
            )
        )
        for step in document["steps"]
    )
    columns = ("", "what", "statements", "on", "")
    yield Grid(title="Steps", columns=columns, rows=tuple(rows), numeric=frozenset({0}))
    checks = document["checks"]
    if checks["gates"]:
        gates = tuple(Row(cells=tuple(_gate(gate))) for gate in checks["gates"])
        yield Grid(title="Gates", columns=("gate", "type", "severity", "asks"), rows=gates)
    if checks["acceptance"]:
        yield _acceptance(checks["acceptance"])
    unknown = tuple(Row(cells=(item["what"], item["known"])) for item in document["unknown"])
    yield Grid(title="Cannot be known offline", columns=("what", "known"), rows=unknown)


def _gate(gate: Mapping[str, Any]) -> Iterator[str]:
    yield from (gate["id"], gate["type"], gate["severity"])
    asks = {key: gate[key] for key in ("side", "threshold", "hash_mode") if gate[key] is not None}
    if gate["tolerance"] is not None:
        asks["tolerance"] = f"{gate['tolerance']['value']} {gate['tolerance']['mode']}"
    yield ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in asks.items())


def _acceptance(acceptance: Mapping[str, Any]) -> Grid:
    known = acceptance["columns"]
    counts = {name: known[name] if known else acceptance[name] for name in ("null_counts", "distinct_counts")}
    shown = [
        ", ".join(value) or "none" if isinstance(value, list) else value.replace("_", " ") for value in counts.values()
    ]
    rows = [
        Row(
            cells=(
                side["side"] if side["available"] else f"{side['side']}: cannot be observed on this route",
                "yes" if acceptance["row_count"] else "no",
                *shown,
            ),
            tone="plain" if side["available"] else "open",
        )
        for side in acceptance["sides"]
    ]
    title = f"Acceptance, {acceptance['mode']}"
    if known and known["missing"]:
        title += f"; not among the source's columns: {', '.join(known['missing'])}"
    return Grid(title=title, columns=("side", "rows", "NULLs of", "distinct of"), rows=tuple(rows))


def _details(document: Mapping[str, Any]) -> Iterator[Fact]:
    identity = document["identity"]
    yield Fact(label="admission digest", value=identity["admission_digest"], tone="quiet")
    yield Fact(label="policy", value=identity["policy_snapshot_id"], tone="quiet")
    yield Fact(label="target key", value=identity["target_key"], tone="quiet")
    yield Fact(label="", value=document["note"], tone="quiet")
