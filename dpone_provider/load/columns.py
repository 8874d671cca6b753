"""Which columns the new generation gets: explicit types, else the live table's, else derived from the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpone_provider.errors import DponeError

Columns = tuple[tuple[str, str], ...]


def resolve_columns(*, derived: Columns, explicit: Columns, live: Columns | None) -> Columns:
    """``(name, ClickHouse type)`` in source order.

    An explicit type wins; then the live table's type of that name; then the derived one. A live table is a contract:
    source and table must have the same columns, unless ``explicit`` names the new one. Raises
    DPONE_SOURCE_COLUMN_UNKNOWN naming the columns.
    """
    declared = dict(explicit)
    names = [name for name, _ in derived]
    _require(set(declared) - set(names), "sink.columns names columns that the source lacks", "Correct sink.columns.")
    if live is None:
        return tuple((name, declared.get(name, kind)) for name, kind in derived)
    known = dict(live)
    _require(
        set(names) - set(known) - set(declared),
        "the source has columns that the target table lacks",
        "Add each to sink.columns with its type, or leave it out of the source.",
    )
    _require(
        set(known) - set(names),
        "the target table has columns that the source lacks",
        "Add each to the source, or drop it from the table.",
    )
    return tuple((name, declared.get(name) or known[name]) for name in names)


def require_key_columns(order_by: Iterable[str], columns: Columns) -> frozenset[str]:
    """The plain column names of a sorting key, which must exist. Expressions are left to the server."""
    names: Mapping[str, str] = dict(columns)
    plain = {item for item in order_by if item.isidentifier()}
    _require(plain - set(names), "order_by names columns that the source lacks", "Correct physical_design.order_by.")
    return frozenset(plain)


def _require(wrong: set[str], problem: str, remedy: str) -> None:
    if wrong:
        listed = ", ".join(sorted(wrong)[:10]) + (" …" if len(wrong) > 10 else "")
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", f"{problem[0].upper()}{problem[1:]}: {listed}.", remedy=remedy)
