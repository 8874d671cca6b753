"""Partitions and checkpoints to test with."""

from __future__ import annotations

from typing import Any

from dpone_provider.native.checkpoint import Checkpoint, Ledger, State
from dpone_provider.native.partition import PartitionContext, TransferPartition, plan_range

CONTEXT = PartitionContext(query_hash="q" * 8, schema_hash="s" * 8, source="sql", strategy="full_refresh", target="d.t")


def partitions(count: int) -> tuple[TransferPartition, ...]:
    return CONTEXT.partitions(plan_range("id", 10, 0, count * 10 - 1))


def ids(count: int) -> list[str]:
    return [each.partition_id for each in partitions(count)]


def checkpoint(partition_id: str, state: State = "committed", rows: Any = 10, **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {"attempt": 1, "exported_rows": rows, "loaded_rows": rows, "null_counts": {"name": 1}}
    return Checkpoint(partition_id=partition_id, state=state, **{**values, **changes})


def ledger(*checkpoints: Checkpoint) -> Ledger:
    result = Ledger()
    for each in checkpoints:
        result = result.after(each)
    return result
