"""A cursor's mark, or a partition, as a condition of a ClickHouse query: the server reads only what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from dpone_provider.clickhouse import quote
from dpone_provider.clickhouse.types import ChType, UnknownType, integer_bounds, parse_type
from dpone_provider.native.partition import OneOf
from dpone_provider.sources.mark import CursorMark, mark_scalar, unordered
from dpone_provider.sources.part import Narrow, column_unknown, invalid

SOURCE: Final = "dpone_s"
"""The name under which the condition speaks of what is read."""

_UNITS: Final = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")


def condition(after: CursorMark | Narrow, described: Sequence[tuple[str, str]]) -> str:
    """What stands after WHERE; "" to read everything.

    ``described``: names and ClickHouse types of what is read. NULLs pass, to be refused by ``CursorReader``, as is a
    missing column. Raises ``DponeError`` as ``CursorReader`` does for a type without an order or a mark of another one.
    """
    if not isinstance(after, CursorMark):
        return _within(after, described)
    types = [text for name, text in described if name == after.column]
    if len(types) != 1:
        return ""
    try:
        kind = parse_type(types[0])
        carrier = _carrier(kind.base)
    except (UnknownType, LookupError):
        raise unordered(after.column) from None
    mark_scalar(after, carrier)  # a value of the column, or refused
    parts = after.parts
    if parts is None:
        return ""
    column = f"{SOURCE}.{quote.identifier(after.column)}"
    above = f"{column} > {_literal(kind.base, parts[1])}"
    return f"({above} OR isNull({column}))" if kind.nullable else above


def _carrier(base: ChType) -> pa.DataType:
    """The Arrow type in which values of a ClickHouse type are compared. Raises ``LookupError`` when there is none."""
    if integer_bounds(base.name) is not None and not base.name.endswith(("128", "256")):
        return getattr(pa, base.name.lower())()
    if base.name == "Decimal":
        return pa.decimal256(*base.numbers)
    if base.name == "DateTime64":
        return pa.timestamp(_UNITS[base.numbers[0]], "UTC")
    plain = {
        "DateTime": pa.timestamp("s", "UTC"),
        "Date": pa.date32(),
        "Date32": pa.date32(),
        "String": pa.large_string(),
    }
    return plain[base.name]


def _literal(base: ChType, text: str) -> str:
    """A mark of the type's family, typed: the server guesses nothing."""
    moment = quote.string(text.replace("T", " "))
    match base.name:
        case "String":
            return quote.string(text)
        case "DateTime":
            return f"toDateTime({moment}, 'UTC')"
        case "DateTime64":
            return f"toDateTime64({moment}, {len(text.partition('.')[2])}, 'UTC')"
        case _:
            return f"CAST({quote.string(text)} AS {base})"


def _within(part: Narrow, described: Sequence[tuple[str, str]]) -> str:
    """The rows of one partition; a NULL is in none."""
    types = [text for name, text in described if name == part.column]
    if len(types) != 1:
        raise column_unknown(part.column)
    column = f"{SOURCE}.{quote.identifier(part.column)}"
    try:
        name = parse_type(types[0]).base.name
        if isinstance(part, OneOf):
            text = f"CAST({column} AS String)" if name.startswith("Enum") else column
            return f"{text} = {_bound(name, part.kind, part.value)}"
        ends = ((">=", part.low), ("<", part.high))
        return " AND ".join(f"{column} {sign} {_bound(name, part.kind, end)}" for sign, end in ends if end is not None)
    except (UnknownType, LookupError):
        raise invalid(
            part.column, f"is of type {types[0]}, not of kind {part.kind}", "Choose another column."
        ) from None


def _bound(name: str, kind: str, text: str) -> str:
    """A bound for a type of this name. Raises ``LookupError`` where they do not fit."""
    bounds = integer_bounds(name)
    if kind == "integer" and bounds is not None and bounds[1] < 2**64:
        return text
    if kind == "date" and name in ("Date", "Date32"):
        return f"CAST({quote.string(text)} AS {'Date' if '1970' <= text[:4] <= '2148' else 'Date32'})"
    if kind == "date" and name in ("DateTime", "DateTime64"):
        return f"toDateTime64({quote.string(text + ' 00:00:00')}, 0, 'UTC')"
    if kind == "text" and (name == "String" or name.startswith("Enum")):
        return quote.string(text)
    raise LookupError(name)
