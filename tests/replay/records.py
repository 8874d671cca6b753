"""Records for the pure tests of the replay room."""

from __future__ import annotations

from typing import Any

import attrs

from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.identity import Operation, Target
from dpone_provider.replay.ports import CatalogFacts, NamedTable
from dpone_provider.replay.record import AuthorityRecord, Found, HistoryEntry

OLD = "00000000-0000-4000-8000-00000000000a"
NEW = "00000000-0000-4000-8000-00000000000b"
FOREIGN = "00000000-0000-4000-8000-00000000000c"
OWNER, OTHER = "a" * 32, "b" * 32
DIGEST = "sha256:" + "1" * 64


def operation(run_id: str = "r1", **changes: Any) -> Operation:
    values = {
        "namespace": "default",
        "dag_id": "dag",
        "run_id": run_id,
        "task_id": "task",
        "map_index": -1,
        "process": "refresh",
        "target": Target(cluster="", database="demo", table="flights"),
    }
    return Operation(**{**values, **changes})


def entry(
    write_id: str, *, version: int = 0, phase: str = "CLAIMED", epoch: int = 1, run_id: str = "r1", attempt: int = 1
) -> HistoryEntry:
    return HistoryEntry(
        version=version,
        write_id=write_id,
        operation_id=operation(run_id).operation_id,
        phase=phase,
        epoch=epoch,
        attempt=attempt,
        at=1_000,
        source_reads=0,
        rows=0,
        publications=0,
    )


def record(
    phase: Any = "CLAIMED", *, run_id: str = "r1", epoch: int = 1, owner: str = OWNER, **changes: Any
) -> AuthorityRecord:
    made = operation(run_id)
    sealed = phase not in {"CLAIMED", "REJECTED"}
    values: dict[str, Any] = {
        "operation": made,
        "admission_digest": DIGEST,
        "phase": phase,
        "epoch": epoch,
        "owner": "" if phase in {"REJECTED", "FAILED"} else owner,
        "claimed_at": 1_000,
        "refreshed_at": 1_000,
        "replicas": ("single",),
        "write_id": "c" * 32,
        "history": (entry("c" * 32, phase=phase, epoch=epoch, run_id=run_id),),
    }
    if sealed:
        values |= {
            "generation": NEW,
            "predecessor": {"single": OLD},
            "candidates": {"single": made.candidate(epoch)},
            "capsule": "{}",
        }
    return AuthorityRecord(**{**values, **changes})


def found(value: AuthorityRecord | None, *, version: int = 3, now: int = 2_000) -> Found:
    return Found(record=value, version=version if value is not None else -1, now=now)


def claimant(run_id: str = "r1", **changes: Any) -> Claimant:
    values = {"operation": operation(run_id), "admission_digest": DIGEST, "owner": OTHER, "replicas": ("single",)}
    return Claimant(**{**values, **changes})


def facts(live: str | None, **private: str) -> CatalogFacts:
    """``private``: suffix of the private name (``e1`` = epoch 1) → UUID."""
    prefix = operation().private_prefix
    tables = tuple(
        NamedTable(name=prefix + name.removeprefix("e"), uuid=uuid, comment=operation().mark(1))
        for name, uuid in sorted(private.items())
    )
    shown = NamedTable(name="flights", uuid=live, comment="") if live is not None else None
    return CatalogFacts(live=shown, private=tables)


def evolve(value: Any, **changes: Any) -> Any:
    return attrs.evolve(value, **changes)
