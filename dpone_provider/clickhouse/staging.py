"""A generation: the private table that a load fills, and what is counted in it before anything is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.manifest.spec import PhysicalDesign
from dpone_provider.wire import Effect, StatementFailed

REPLICATED: Final = "ReplicatedMergeTree"
KEEPER_PATH: Final = "/clickhouse/tables/{uuid}"
"""Of a replicated generation: every generation has a UUID of its own, the same on every replica."""
_ENGINES: Final = {REPLICATED: f"{REPLICATED}('{KEEPER_PATH}', '{{replica}}')"}


@attrs.frozen(kw_only=True)
class StagedMetrics:
    """Exact counts of one generation, from one SELECT. The pairs are ``(column, count)`` in the order asked for."""

    row_count: int
    null_counts: tuple[tuple[str, int], ...] = ()
    distinct_counts: tuple[tuple[str, int], ...] = ()


def generation_ddl(
    *,
    database: str,
    name: str,
    uuid: str,
    columns: Sequence[tuple[str, str]],
    design: PhysicalDesign,
    comment: str,
) -> str:
    """CREATE TABLE with a UUID of our choice.

    ``columns``: ``(name, ClickHouse type)``; types and the design are authored SQL.
    An ``order_by`` item that is a column's name is quoted, anything else is taken as an expression; none = ``tuple()``.
    """
    names = {column for column, _ in columns}
    body = ", ".join(f"{quote.identifier(column)} {kind}" for column, kind in columns)
    order = ", ".join(quote.identifier(item) if item in names else item for item in design.order_by)
    parts = [
        f"CREATE TABLE {quote.table(database, name)} UUID {quote.string(uuid)} ({body})",
        f"ENGINE = {_ENGINES.get(design.engine, design.engine)}",
    ]
    if design.partition_by is not None:
        by = design.partition_by
        parts.append(f"PARTITION BY {quote.identifier(by) if by in names else by}")
    parts.append(f"ORDER BY ({order})" if order else "ORDER BY tuple()")
    if design.settings:
        pairs = ", ".join(f"{quote.identifier(key)} = {quote.setting(value)}" for key, value in design.settings)
        parts.append(f"SETTINGS {pairs}")
    if comment:
        parts.append(f"COMMENT {quote.string(comment)}")
    return " ".join(parts)


def create_generation(
    client: ControlClient,
    *,
    database: str,
    name: str,
    uuid: str,
    columns: Sequence[tuple[str, str]],
    design: PhysicalDesign,
    comment: str,
    replica: str = "",
) -> None:
    """Create the generation, sent once. Raises ``StatementFailed`` (57 when the name or the UUID is taken)."""
    statement = generation_ddl(database=database, name=name, uuid=uuid, columns=columns, design=design, comment=comment)
    effect = Effect(kind="create_table", what="create the generation", replica=replica)
    client.command(effect, statement, settings=pins.DEFINE)


def staged_count(client: ControlClient, database: str, name: str, *, replica: str = "") -> int:
    """Rows of the generation by ``count()``."""
    return staged_metrics(client, database, name, (), (), replica=replica).row_count


def staged_metrics(
    client: ControlClient,
    database: str,
    name: str,
    null_columns: Sequence[str],
    distinct_columns: Sequence[str],
    *,
    what: str = "count in the generation",
    replica: str = "",
    where: tuple[str, dict[str, Any]] | None = None,
) -> StagedMetrics:
    """Rows, NULLs and exact distinct values (NULL is none), in one SELECT with ordinal aliases. ``what`` it is doing.

    ``where``: a condition on ``dpone_g`` and its parameters.

    Raises ``StatementFailed`` for a server error, a missing row, or a count that is not a UInt64: never zero instead
    (B7).
    """
    asked = ["count()"]
    asked += [f"countIf(isNull({_column(column)}))" for column in null_columns]
    asked += [f"uniqExact({_column(column)})" for column in distinct_columns]
    selection = ", ".join(f"{expression} AS dpone_m{ordinal}" for ordinal, expression in enumerate(asked))
    effect = Effect(kind="query", what=what, replica=replica)
    condition, bound = (f" WHERE {where[0]}", where[1]) if where is not None else ("", {})
    found = f"FROM {quote.table(database, name)} AS dpone_g{condition}"
    rows = client.query(effect, f"SELECT {selection} {found}", bound, settings=pins.READ)
    counts = [_count(value) for value in only_row(rows)]
    if len(counts) != len(asked):
        raise StatementFailed(None, "another number of counts than asked for")
    nulls = counts[1 : 1 + len(null_columns)]
    return StagedMetrics(
        row_count=counts[0],
        null_counts=tuple(zip(null_columns, nulls, strict=True)),
        distinct_counts=tuple(zip(distinct_columns, counts[1 + len(null_columns) :], strict=True)),
    )


def _column(name: str) -> str:
    """A column by its table, so that a column named like one of our aliases is that column."""
    return f"dpone_g.{quote.identifier(name)}"


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**64:
        raise StatementFailed(None, "a count that is no UInt64")
    return value
