"""What ``dpone plan`` says of a load by partitions. Pure; a test compares it with what recorded loads sent (D1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpone_provider.cli.plan_steps import (
    CATALOG,
    STEP_LOG,
    Places,
    Step,
    When,
    admission,
    counted,
    hook,
    observes_target,
    opened,
    published,
)
from dpone_provider.manifest.partitions import artifact_folder, transfer_folder
from dpone_provider.manifest.spec import ClickHouseSource, LoadSpec, Partitions
from dpone_provider.wire import EffectKind


def partitions_of(spec: LoadSpec, operation_id: str | None) -> dict[str, Any] | None:
    """How the load is split, None for one that is not; ``count``: None where the source says it.

    Raises ``DponeError`` DPONE_PARTITIONS as ``dpone run`` would, for a folder that starts nowhere.
    """
    parts = spec.source.partitions
    if parts is None:
        return None
    known = len(parts.values) or (len(parts.bounds) + 1 if parts.bounds else None)
    own = operation_id or "<operation id>"
    kept = f"{transfer_folder(parts)}/{own}"
    elsewhere = artifact_folder(parts)
    return {
        "by": parts.by,
        "column": parts.column or None,
        "size": parts.size,
        "count": known,
        "workers": parts.workers,
        "folder": kept,
        "artifacts": f"{elsewhere}/{own}" if elsewhere else f"{kept}/artifacts",
    }


def partitioned(spec: LoadSpec, parts: Partitions, places: Places) -> Iterator[Step]:
    """Every step of a load by partitions that nothing disturbs; what is done for each stands in one step."""
    replaces = spec.sink.strategy.mode == "partition_replace"
    yield Step(what="Lock the folder of this operation, read its checkpoints", on=parts.folder)
    yield from _asked(spec, parts)
    yield from admission()
    if replaces:
        yield from _key(parts, places)
    yield STEP_LOG
    yield from hook(spec.sink.pre_sql, "pre", places.target)
    if replaces and spec.sink.pre_sql:  # which may have made another table of it
        yield from admission()
        yield from _key(parts, places)
    yield Step(what="Look for leftovers of this operation; drop them", on="system.tables", effects=("catalog_read",))
    if not isinstance(spec.source, ClickHouseSource):  # which has told its columns by now
        yield opened(spec)
    yield from _replaced(spec, parts, places) if replaces else _refreshed(spec, parts, places)
    yield Step(what="Publish the report, last of all", on=parts.folder)
    yield from hook(spec.sink.post_sql, "post", places.target)


def _asked(spec: LoadSpec, parts: Partitions) -> Iterator[Step]:
    if parts.by == "file":
        yield Step(what="List the files; open the first", on="the source", effects=("source_open",))
        return
    reads = opened(spec).reads

    def ask(what: str, when: When = "") -> Step:
        return Step(what=what, on="the source", effects=("source_open",), reads=reads, when=when)

    yield ask("Ask for the columns")
    yield ask(f"Ask for NULLs in {parts.column}", "the column may hold NULL")
    yield ask(f"Ask for the lowest and the highest value of {parts.column}")
    if parts.by == "list" and spec.sink.strategy.mode == "full_refresh":
        yield ask("Ask for values that are not listed")


def _key(parts: Partitions, places: Places) -> Iterator[Step]:
    yield Step(what="Partition key of the live table: does it match?", on="system.tables", effects=("catalog_read",))
    if parts.by == "range":
        when: When = "its key is a function of the column"
        yield Step(what="Is each bound a border of its partitions?", on=places.target, effects=("query",), when=when)


def _refreshed(spec: LoadSpec, parts: Partitions, places: Places) -> Iterator[Step]:
    yield Step(what="Create the private table with a UUID of our own", on=places.staging, effects=("create_table",))
    what = f"Each partition, {parts.workers} at a time: read it into its file, insert that"
    yield Step(what=what, on=places.staging, effects=("source_open", "insert"), reads=opened(spec).reads)
    yield counted(places)
    yield from published(spec, places, "Ask which UUID is live: proven or not; keep that all is committed")


def _replaced(spec: LoadSpec, parts: Partitions, places: Places) -> Iterator[Step]:
    what = f"Each partition, {parts.workers} at a time: read it into its file, insert that into a private table, count"
    effects: tuple[EffectKind, ...] = ("source_open", "create_table", "insert", "query")
    yield Step(what=what, on=places.staging, effects=effects, reads=opened(spec).reads)
    if parts.by != "file":
        what = "Each partition: what of the live table would go, and does no other row go with it?"
        yield Step(what=what, on=places.target, effects=("query", "query"))
    yield Step(what="Live table: still the one that was admitted? Gates", on=CATALOG, effects=("catalog_read",))
    what = "Each partition: replace it, sent once; ask whether it is live, keep that it is committed"
    if parts.bounds:
        what += ". The outer ones are open: what the source does not hold there, goes"
    yield Step(what=what, on=places.target, effects=("catalog_read", "replace_partition", "catalog_read"))
    if observes_target(spec):
        effects = ("query",) if parts.by == "file" else ("catalog_read", "query")
        yield Step(what="Count in the live table, within the partitions", on=places.target, effects=effects)
    yield Step(what="Look for what is left to drop", on="system.tables", effects=("catalog_read",))
    what = "Each partition: drop its private table under a name of its own, its UUID checked"
    yield Step(what=what, on=places.staging, effects=("rename", "catalog_read", "drop"))
