"""From what ``dpone status`` saw to its document (O5). Pure."""

from __future__ import annotations

from typing import Any

import attrs

from dpone_provider.cli.next_step import next_step
from dpone_provider.cli.sighting import Sighting, live_is, relation
from dpone_provider.load.outcome import attempts_of
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import CatalogFacts, NamedTable
from dpone_provider.replay.record import AuthorityRecord

KIND = "dpone.status.v1"


def report(saw: Sighting) -> dict[str, Any]:
    """The document of ``dpone status --format json`` (strict JSON)."""
    record = saw.record
    sink = saw.spec.sink
    return {
        "kind": KIND,
        "manifest": saw.spec.manifest,
        "process": saw.spec.process,
        "selector": saw.spec.selector,
        "target": f"{sink.table.database}.{sink.table.name}",
        "authority": _authority(saw),
        "slot": _slot(saw, record, saw.found.version) if saw.found is not None and record is not None else None,
        "operation": _operation(record.operation) if record is not None else None,
        "asked": _asked(saw, record),
        "capsule": _capsule(saw.capsule),
        "generation": _generation(saw, record),
        "attempts": _attempts(record) if record is not None else [],
        "private_tables": [_private(table, record) for table in saw.facts.private],
        "next_step": next_step(saw),
    }


def _authority(saw: Sighting) -> dict[str, Any]:
    if not saw.spec.sink.durable_quality_replay:
        return {"state": "not used", "table": None, "problem": None}
    state = "unsupported" if saw.problem else "provisioned"
    return {"state": state, "table": saw.authority, "problem": saw.problem or None}


def _slot(saw: Sighting, record: AuthorityRecord, version: int) -> dict[str, Any]:
    return {
        "phase": record.phase,
        "epoch": record.epoch,
        "version": version,
        "owner": "held" if record.owner else "released",
        "claimed_at_ms": record.claimed_at,
        "refreshed_at_ms": record.refreshed_at,
        "age_seconds": saw.age_ms / 1000,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    names = ("namespace", "dag_id", "run_id", "task_id", "map_index", "process", "reprocess")
    return {"operation_id": operation.operation_id, **{name: getattr(operation, name) for name in names}}


def _asked(saw: Sighting, record: AuthorityRecord | None) -> dict[str, Any]:
    stands = relation(saw)
    same = record.admission_digest == saw.admission_digest if record is not None and stands == "this" else None
    operation_id = saw.operation.operation_id if saw.operation is not None else None
    return {"operation_id": operation_id, "relation": stands, "same_configuration": same}


def _capsule(capsule: QualityReplayCapsule | None) -> dict[str, Any] | None:
    if capsule is None:
        return None
    return {"kind": capsule.kind, "state": capsule.state, "core_digest": capsule.core_digest}


def _generation(saw: Sighting, record: AuthorityRecord | None) -> dict[str, Any]:
    return {
        "live": _live(saw.facts),
        "sealed": record.generation if record is not None else None,
        "predecessor": dict(record.predecessor) if record is not None else {},
        "live_is": live_is(saw, record),
        **({"replicas": {name: _replica(facts) for name, facts in saw.replicas.items()}} if saw.replicas else {}),
    }


def _replica(facts: CatalogFacts | None) -> dict[str, Any]:
    return {"answers": facts is not None, "live": _live(facts) if facts is not None else None}


def _live(facts: CatalogFacts) -> str | None:
    return facts.live.uuid if facts.live is not None else None


def _attempts(record: AuthorityRecord) -> list[dict[str, Any]]:
    return [attrs.asdict(attempt) for attempt in attempts_of(record.history, record.operation.operation_id)]


def _private(table: NamedTable, record: AuthorityRecord | None) -> dict[str, Any]:
    what = "leftover"
    if record is not None and table.uuid == record.generation:
        what = "sealed generation"
    elif record is not None and table.uuid in record.predecessor.values():
        what = "predecessor"
    elif record is not None and record.phase == "CLAIMED" and table.name == record.operation.candidate(record.epoch):
        what = "staging"
    return {"name": table.name, "uuid": table.uuid, "what": what}
