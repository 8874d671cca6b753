"""What a manifest means: frozen values that every other room works from.

Every field is declared ``semantic()``, ``added()`` or ``neutral()``; ``manifest.digest`` refuses any other (I5).
Semantic fields enter ``admission_digest``, added ones unless they are at their default; neutral ones (the selector
``durable_quality_replay``, advice) never do (M9).
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from dpone_provider.quality.policy import QualityPolicy

IDENTITY = "dpone.identity"


def semantic(**kwargs: Any) -> Any:
    """A field that is part of what the load means: a change of it is another load."""
    return attrs.field(metadata={IDENTITY: "semantic"}, **kwargs)


def added(**kwargs: Any) -> Any:
    """A semantic field that came later: at its default it is left out, so that older digests stay as they are (M8)."""
    return attrs.field(metadata={IDENTITY: "added"}, **kwargs)


def neutral(**kwargs: Any) -> Any:
    """A field that changes how, never what: left out of every digest."""
    return attrs.field(metadata={IDENTITY: "neutral"}, **kwargs)


@attrs.frozen(kw_only=True)
class TableRef:
    """A ClickHouse table: ``database`` (``schema`` in manifests) and ``name``, both unquoted."""

    database: str = semantic()
    name: str = semantic()


@attrs.frozen(kw_only=True)
class Cursor:
    """Read only what is new: rows whose ``column`` is above the mark that the last load left in the source state."""

    column: str = semantic()


@attrs.frozen(kw_only=True)
class Partitions:
    """A load in parts: spans of ``column`` (range), values of it (list), or files (file).

    ``size``: width of a span on a fixed grid, in whole numbers or days; ``bounds``: the cuts instead, ascending, whole
    numbers or ISO dates. ``values``: whole numbers or texts, each once. ``workers``: partitions at a time, 1 to 16.
    ``folder``: local, for checkpoints and reports; ``artifacts``: fsspec path of the Parquet files, "" = in ``folder``.
    A relative path starts from ``base``, the manifest's folder.
    """

    by: Literal["range", "list", "file"] = semantic()
    column: str = semantic(default="")
    size: int | None = semantic(default=None)
    bounds: tuple[str | int, ...] = semantic(default=())
    values: tuple[str | int, ...] = semantic(default=())
    workers: int = neutral(default=2)
    folder: str = neutral(default=".dpone/transfers")
    artifacts: str = neutral(default="")
    base: str = neutral(default="")


@attrs.frozen(kw_only=True)
class FileSource:
    """Files read through pyarrow: ``path`` is one path, glob or fsspec URL as authored.

    ``base`` is the folder that a relative path starts from (the manifest's folder), never the working directory (I3).
    ``options`` are format options, e.g. CSV ``delimiter``, ``null_values``.
    """

    format: Literal["csv", "jsonl", "parquet", "arrow"] = semantic()
    path: str = semantic()
    options: tuple[tuple[str, Any], ...] = semantic(default=())
    connection_ref: str | None = semantic(default=None)
    base: str = neutral(default="")
    cursor: Cursor | None = added(default=None)
    partitions: Partitions | None = added(default=None)
    type: Literal["file"] = semantic(default="file")


@attrs.frozen(kw_only=True)
class ClickHouseSource:
    """A ClickHouse table or query, read as an Arrow stream. Exactly one of ``table`` and ``query`` is set."""

    connection_ref: str = semantic()
    table: TableRef | None = semantic(default=None)
    query: str | None = semantic(default=None)
    options: tuple[tuple[str, Any], ...] = semantic(default=())
    cursor: Cursor | None = added(default=None)
    partitions: Partitions | None = added(default=None)
    type: Literal["clickhouse"] = semantic(default="clickhouse")


@attrs.frozen(kw_only=True)
class SqlSource:
    """A table or query of any SQL database with a DB-API or ADBC driver. Exactly one of ``table`` and ``query`` is set.

    ``schema`` "" = the connection's own. ``batch_rows``: rows of one fetch.
    """

    connection_ref: str = semantic()
    schema: str = semantic(default="")
    table: str | None = semantic(default=None)
    query: str | None = semantic(default=None)
    batch_rows: int = neutral(default=65_536)
    cursor: Cursor | None = semantic(default=None)
    partitions: Partitions | None = added(default=None)
    type: Literal["sql"] = semantic(default="sql")


SourceSpec = FileSource | ClickHouseSource | SqlSource


@attrs.frozen(kw_only=True)
class Strategy:
    """How the target changes: a new generation takes its place (full_refresh), rows are added to it (append), or its
    partitions are replaced one by one (partition_replace).

    ``max_source_bytes``: budget of Arrow bytes read, or None (refused with the selector on).
    """

    mode: Literal["full_refresh", "append", "partition_replace"] = semantic(default="full_refresh")
    max_source_bytes: int | None = semantic(default=None)


@attrs.frozen(kw_only=True)
class PhysicalDesign:
    """The generation's storage: engine text, sorting key, partition key and MergeTree settings, as authored SQL."""

    engine: str = semantic(default="MergeTree")
    order_by: tuple[str, ...] = semantic(default=())
    partition_by: str | None = semantic(default=None)
    settings: tuple[tuple[str, Any], ...] = semantic(default=())


@attrs.frozen(kw_only=True)
class SinkSpec:
    """The ClickHouse target. ``columns``: explicit ``(name, ClickHouse type)`` pairs; others are derived.

    ``staging_database`` None = the target's. ``cluster`` "" = one server. ``pre_sql``, ``post_sql``: statements that
    run on the target's server before the source is read, and after everything else succeeded.
    """

    connection_ref: str = semantic()
    table: TableRef = semantic()
    strategy: Strategy = semantic(factory=Strategy)
    staging_database: str | None = semantic(default=None)
    columns: tuple[tuple[str, str], ...] = semantic(default=())
    design: PhysicalDesign = semantic(factory=PhysicalDesign)
    keep_previous: bool = semantic(default=False)
    pre_sql: tuple[str, ...] = added(default=())
    post_sql: tuple[str, ...] = added(default=())
    durable_quality_replay: bool = neutral(default=False)
    cluster: str = semantic(default="")
    type: Literal["clickhouse"] = semantic(default="clickhouse")


@attrs.frozen(kw_only=True)
class LoadSpec:
    """One process of a manifest, complete and checked: what to read, where to, under which proof.

    ``depends_on``: selectors of the same manifest that run before. ``metadata``: the author's advice to people, never
    interpreted.
    """

    process: str = semantic()
    selector: str = neutral()
    source: SourceSpec = semantic()
    sink: SinkSpec = semantic()
    quality: QualityPolicy = semantic(factory=QualityPolicy)
    manifest: str = neutral(default="")
    depends_on: tuple[str, ...] = neutral(default=())
    metadata: tuple[tuple[str, Any], ...] = neutral(default=())
