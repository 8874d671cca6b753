"""Which columns the new generation gets: explicit types, else the live table's, else derived from the source."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_provider.clickhouse.catalog import ColumnState
from dpone_provider.clickhouse.types import UnknownType, parse_type
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import PhysicalDesign

Columns = tuple[tuple[str, str], ...]


def key_columns(design: PhysicalDesign, names: Sequence[str]) -> frozenset[str]:
    """The columns that the sorting or the partition key names as they are: the server refuses Nullable ones.

    Expressions are left to the server. Raises DPONE_SOURCE_COLUMN_UNKNOWN for a plain name that is no column.
    """
    missing = {item for item in design.order_by if item.isidentifier()} - set(names)
    _require(missing, "The key order_by names columns that the source lacks", "Correct physical_design.order_by.")
    keys = design.order_by if design.partition_by is None else (*design.order_by, design.partition_by)
    return frozenset(keys).intersection(names)


def resolve_columns(*, derived: Columns, explicit: Columns, live: Columns | None) -> Columns:
    """``(name, ClickHouse type)`` in source order.

    An explicit type wins; then the live table's type of that name; then the derived one. A live table is a contract:
    source and table must have the same columns, unless ``explicit`` names the new one. Raises
    DPONE_SOURCE_COLUMN_UNKNOWN naming the columns.
    """
    declared = dict(explicit)
    names = [name for name, _ in derived]
    if not names:
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", "The source has no columns.", remedy="Correct the source.")
    _require(set(declared) - set(names), "sink.columns names columns that the source lacks", "Correct sink.columns.")
    if live is None:
        return tuple((name, declared.get(name, kind)) for name, kind in derived)
    known = dict(live)
    _require(
        set(names) - set(known) - set(declared),
        "The source has columns that the target table lacks",
        "Add each to sink.columns with its type, or leave it out of the source.",
    )
    _require(
        set(known) - set(names),
        "The target table has columns that the source lacks",
        "Add each to the source, or drop it from the table.",
    )
    return tuple((name, declared.get(name) or known[name]) for name in names)


def append_columns(names: Sequence[str], explicit: Columns, live: Sequence[ColumnState]) -> Columns:
    """``(name, ClickHouse type)`` in source order, the types as the live table has them.

    Every column of the source must be one of the table that rows can be written to; every column of the table that the
    source lacks must have an expression of its own: none is filled up with a type's default. ``explicit`` may say the
    table's types, no others. Raises DPONE_SOURCE_COLUMN_UNKNOWN or DPONE_COLUMN_TYPE_UNSUPPORTED naming the columns.
    """
    if not names:
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", "The source has no columns.", remedy="Correct the source.")
    kinds = {column.name: column.type for column in live if column.default_kind in ("", "DEFAULT")}
    lacking = {column.name for column in live if not column.default_kind} - set(names)
    _require(
        set(names) - set(kinds),
        "The source has columns that cannot be written to in the target table",
        "Add each to the table, or leave it out of the source.",
    )
    _require(
        lacking,
        "The target table has columns that the source lacks",
        "Add each to the source, or give it a DEFAULT in the table.",
    )
    declared = dict(explicit)
    _require(set(declared) - set(names), "sink.columns names columns that the source lacks", "Correct sink.columns.")
    other = {name for name, kind in declared.items() if _printed(name, kind) != _printed(name, kinds[name])}
    _require(other, "sink.columns says other types than the target table has", "Leave them out: the table decides.")
    return tuple((name, kinds[name]) for name in names)


def _printed(name: str, kind: str) -> str:
    try:
        return str(parse_type(kind))
    except UnknownType as problem:
        raise DponeError("DPONE_COLUMN_TYPE_UNSUPPORTED", f"Column {name}: its type {problem}.") from None


def _require(wrong: set[str], problem: str, remedy: str) -> None:
    if wrong:
        listed = ", ".join(sorted(wrong)[:10]) + (" …" if len(wrong) > 10 else "")
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", f"{problem}: {listed}.", remedy=remedy)
