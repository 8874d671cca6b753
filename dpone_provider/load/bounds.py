"""Where the source's partitions lie in the target: their bounds as conditions, and the key that must respect them."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_provider.clickhouse import partitions
from dpone_provider.clickhouse.catalog import TableState, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.partitions import Within
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.load.refusals import unreadable
from dpone_provider.manifest.spec import TableRef
from dpone_provider.native.partition import FilePart, OneOf, Part, Span
from dpone_provider.wire import StatementFailed


def within_of(part: Part) -> Within | None:
    """The rows of a part in the target's terms; None for a file, of which only its rows know."""
    match part:
        case Span(column=column, low=low, high=high):
            return Within(column=column, low=low, high=high)
        case OneOf(column=column, value=value):
            return Within(column=column, values=(value,))
        case FilePart():
            return None


def merged(parts: Sequence[Part]) -> tuple[Within, ...]:
    """The same rows with as few conditions as there are gaps; () for files."""
    values = [part for part in parts if isinstance(part, OneOf)]
    if values:
        return (Within(column=values[0].column, values=tuple(part.value for part in values)),)
    found: list[Within] = []
    for part in parts:
        if not isinstance(part, Span):
            continue
        last = found[-1] if found else None
        if last is not None and last.high is not None and last.high == part.low:
            found[-1] = Within(column=part.column, low=last.low, high=part.high)
        else:
            found.append(Within(column=part.column, low=part.low, high=part.high))
    return tuple(found)


def column_of(parts: Sequence[Part]) -> str:
    """The column that the parts are made by, "" for files."""
    return next((part.column for part in parts if not isinstance(part, FilePart)), "")


def kind_of(live: TableState, column: str) -> str:
    """The column's type in the target. Raises ``DponeError`` DPONE_PARTITION_KEY when it has no such column."""
    if not column:
        return "String"
    found = next((each.type for each in live.columns if each.name == column), None)
    if found is None:
        raise partitions.refused(f"The target has no column {column}, by which the source is partitioned.")
    return found


def admit_bounds(control: ControlClient, table: TableRef, live: TableState, parts: Sequence[Part]) -> None:
    """Every partition of the target lies in one part as a whole. Raises ``DponeError`` DPONE_PARTITION_KEY."""
    column = column_of(parts)
    borders = [bound for part in parts if isinstance(part, Span) for bound in (part.low, part.high)]
    try:
        partitions.admit_key(
            control,
            table.database,
            table.name,
            column=column,
            kind=kind_of(live, column),
            borders=list(dict.fromkeys(bound for bound in borders if bound is not None)),
            listed=any(isinstance(part, OneOf) for part in parts),
        )
    except StatementFailed as failed:
        raise unreadable(failed, "the target's partition key") from None


def count_parts(
    control: ControlClient, table: TableRef, parts: Sequence[Part], ids: Sequence[str], null_columns: Sequence[str]
) -> StagedMetrics:
    """Rows and NULLs of the parts in the live table; ``ids``: its partitions that files went to.

    Raises ``StatementFailed``, also when there is no such table or column any more.
    """
    database, name, column = table.database, table.name, column_of(parts)
    if not column:
        return partitions.metrics_of(control, database, name, null_columns, ids)
    live = table_state(control, database, name)
    kinds = {each.name: each.type for each in live.columns} if live is not None else {}
    if column not in kinds:
        raise StatementFailed(None, "the live table has no such column")
    found = [
        partitions.metrics_within(control, database, name, null_columns, within, kinds[column])
        for within in merged(parts)
    ]
    nulls = [sum(counts) for counts in zip(*(dict(each.null_counts).values() for each in found), strict=True)]
    return StagedMetrics(
        row_count=sum(each.row_count for each in found), null_counts=tuple(zip(null_columns, nulls, strict=True))
    )
