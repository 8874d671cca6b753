"""What a load says at its end.

Two answers, commit truth and governance, and the counters of every attempt (protocol 8; O2, O3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from dpone_provider.errors import DponeError, TargetCommit
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.acceptance import run_document
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.replay.record import HistoryEntry


@attrs.frozen(kw_only=True)
class RunIdentity:
    """Who runs a load: the scheduler's names, or the CLI's. ``map_index`` -1 = not mapped; ``reprocess`` "" = none."""

    run_id: str
    dag_id: str
    task_id: str
    namespace: str = "default"
    map_index: int = -1
    reprocess: str = ""


@attrs.frozen(kw_only=True)
class Attempt:
    """What one attempt did, out of the authority's history. Counters never prove a commit."""

    number: int
    epoch: int
    phases: tuple[str, ...]
    source_reads: int
    rows: int
    publications: int


@attrs.frozen(kw_only=True)
class LoadOutcome:
    """A load that succeeded. Rows are of this attempt, ``final_rows`` of the live table; None: nobody counted.

    ``finalization``: how governance ended where that is not by a switch. ``load_steps``: what was done, in order.
    ``scope``: the partitions that the gates' counts are over.
    """

    spec: LoadSpec
    identity: RunIdentity
    durable: bool
    replayed: bool
    target_commit: TargetCommit
    extracted_rows: int
    inserted_rows: int | None
    final_rows: int | None
    duration_seconds: float
    generation: str
    gates: Mapping[str, Any]
    acceptance: Mapping[str, Any]
    attempts: tuple[Attempt, ...]
    operation_id: str
    load_id: str
    quality_replay: Mapping[str, Any] | None = None
    leftovers: tuple[str, ...] = ()
    finalization: str = ""
    load_steps: Sequence[Mapping[str, Any]] = ()
    scope: QualityScopeSummary | None = None

    def document(self) -> dict[str, Any]:
        """The JSON document of ``dpone run --format json`` (strict JSON values only)."""
        metrics: dict[str, Any] = {"acceptance": run_document(self.acceptance), "quality_gates": dict(self.gates)}
        if self.quality_replay is not None and self.replayed:
            metrics["quality_replay"] = dict(self.quality_replay)
        details: dict[str, Any] = {
            "target_commit": self.target_commit,
            "governance": "complete",
            "durable_quality_replay": self.durable,
            "replayed": self.replayed,
            "operation_id": self.operation_id,
            "load_id": self.load_id,
            "generation": self.generation,
            "attempts": [attrs.asdict(attempt) for attempt in self.attempts],
            "reconciliation_metrics": metrics,
            "load_steps": [dict(step) for step in self.load_steps],
        }
        if self.finalization:
            details["governance_finalization"] = self.finalization
        if self.scope is not None:
            details["quality_scope"] = self.scope.payload()
        if self.leftovers:
            details["leftovers"] = list(self.leftovers)
        return {
            **_head(self.spec, self.identity, passed=True),
            "attempts": self.attempts[-1].number if self.attempts else 1,
            "result": {
                "status": "succeeded",
                "inserted_rows": self.inserted_rows,
                "updated_rows": 0,
                "final_rows": self.final_rows,
                "extracted_rows": self.extracted_rows,
                "duration_seconds": round(self.duration_seconds, 3),
                "errors": [],
                "details": details,
            },
        }

    def summary(self) -> dict[str, Any]:
        """The small dict that Airflow keeps as XCom (F8)."""
        return {
            "process": self.spec.process,
            "target": f"{self.spec.sink.table.database}.{self.spec.sink.table.name}",
            "run_id": self.identity.run_id,
            "operation_id": self.operation_id,
            "target_commit": self.target_commit,
            "governance": "complete",
            "replayed": self.replayed,
            "extracted_rows": self.extracted_rows,
            "inserted_rows": self.inserted_rows,
            "final_rows": self.final_rows,
            "generation": self.generation,
            "attempts": self.attempts[-1].number if self.attempts else 1,
            **_unverified(self.spec),
        }


def failure_document(error: DponeError, spec: LoadSpec, identity: RunIdentity) -> dict[str, Any]:
    """The JSON document of a load that failed: real counters where known, no claim where not (O2, O4, protocol 8)."""
    facts = dict(error.context)
    counters = {"inserted_rows": 0, "final_rows": None, "extracted_rows": 0, **facts.get("counters", {})}
    replay: dict[str, Any] = {"error_code": error.code, "governance": "blocked", "current_run_id": identity.run_id}
    if error.target_commit is not None:
        replay["target_commit"] = error.target_commit
    replay.update(facts.get("replay_details", {}))
    return {
        **_head(spec, identity, passed=False),
        "attempts": facts.get("attempts", 1),
        "error_code": error.code,
        "quality_gates": facts.get("quality_gates"),
        "evidence": facts.get("evidence"),
        "failure_context": {
            "failure_boundary": error.boundary,
            "retryable": error.retryable,
            "next_step": error.next_step,
            **facts.get("failure_context", {}),
        },
        "replay_details": replay,
        "result": {
            "status": "failed",
            "inserted_rows": counters["inserted_rows"],
            "updated_rows": 0,
            "final_rows": counters["final_rows"],
            "extracted_rows": counters["extracted_rows"],
            "duration_seconds": round(facts.get("duration_seconds", 0.0), 3),
            "errors": [{"code": error.code, "message": error.message, "next_step": error.next_step}],
        },
    }


def attempts_of(history: Iterable[HistoryEntry], operation_id: str) -> tuple[Attempt, ...]:
    """The attempts of one operation that the slot's history still knows, in order."""
    found: dict[int, list[HistoryEntry]] = {}
    for entry in history:
        if entry.operation_id == operation_id:
            found.setdefault(entry.attempt, []).append(entry)
    return tuple(
        Attempt(
            number=number,
            epoch=entries[0].epoch,
            phases=tuple(dict.fromkeys(entry.phase for entry in entries)),
            source_reads=max(entry.source_reads for entry in entries),
            rows=max(entry.rows for entry in entries),
            publications=max(entry.publications for entry in entries),
        )
        for number, entries in sorted(found.items())
    )


def _head(spec: LoadSpec, identity: RunIdentity, *, passed: bool) -> dict[str, Any]:
    return {
        "manifest": spec.manifest,
        "process": spec.process,
        "selector": spec.selector,
        "run_id": identity.run_id,
        "passed": passed,
        **({"strategy": mode} if (mode := spec.sink.strategy.mode) != "full_refresh" else {}),
        **_unverified(spec),
    }


def _unverified(spec: LoadSpec) -> dict[str, str]:
    """What no test of this release has seen on the real thing, and this load depends on (D3)."""
    return {"data_replication": "UNVERIFIED"} if spec.sink.cluster else {}
