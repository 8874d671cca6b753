"""Reading after a mark in PostgreSQL: a condition that leaves out rows only when they surely were read before (X3).

Reading one partition: exactly its rows.

The value travels as a bound parameter into a setting of the transaction, which the condition reads: so the same query
text runs through a cursor and through COPY, which takes no parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.native.partition import OneOf
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow, column_unknown, invalid
from dpone_provider.sources.sql.postgres_rows import Column

MARK: Final = "dpone.after"
_NUMERIC, _TEXT, _VARCHAR = 1700, 25, 1043
_MICROSECONDS: Final = len("2024-12-31T23:59:59.999999")


def after_mark(columns: Sequence[Column], after: CursorMark | Narrow | None, *, utf8: bool) -> tuple[str, str | None]:
    """The condition, with a space before it, and the text of its value; ``("", None)`` reads everything.

    NULLs are let through, so that they are seen and refused. Raises ``DponeError`` DPONE_SOURCE_INVALID for a column
    that is read as text but is not ordered like text.
    """
    if after is None:
        return "", None
    if not isinstance(after, CursorMark):
        return _within(columns, after)
    place = next((place for place, column in enumerate(columns) if column.name == after.column), None)
    if place is None:
        return "", None  # whoever asked for the column says so
    column = columns[place]
    if column.kind.cast == "text" and pa.types.is_string(column.kind.type):
        problem = f"Column {column.name} is read as text, which is not its own order, so it cannot be a cursor."
        raise DponeError("DPONE_SOURCE_INVALID", problem, remedy="CAST it in source.query, to numeric(38, 9) say.")
    parts = after.parts
    found = _comparison(column, *parts, utf8=utf8) if parts is not None else None
    if found is None:
        return "", None
    cast, value, collation = found
    name = f"q.c{place}"
    return f" WHERE ({name}{collation} > current_setting('{MARK}'){cast} OR {name} IS NULL)", value


def _comparison(column: Column, family: str, text: str, *, utf8: bool) -> tuple[str, str, str] | None:
    """Cast, value and collation to compare with; None where this column has no such order."""
    kind = column.kind.type
    if family == "number" and column.oid == _NUMERIC:
        return "::numeric", text, ""
    if family == "number" and pa.types.is_integer(kind) and "." not in text and abs(int(text)) < 2**63:
        return "::int8", text, ""
    if family == "date" and pa.types.is_date(kind):
        return "::date", text, ""
    moment = text[:_MICROSECONDS]  # more digits would be rounded, up perhaps
    if family == "datetime" and pa.types.is_timestamp(kind) and kind.tz:
        return "::timestamptz", f"{moment}Z", ""
    if family == "local" and pa.types.is_timestamp(kind) and not kind.tz:
        return "::timestamp", moment, ""
    if family == "text" and column.oid in (_TEXT, _VARCHAR) and utf8 and "\0" not in text:
        return "", text, ' COLLATE "C"'
    return None


def _within(columns: Sequence[Column], part: Narrow) -> tuple[str, str | None]:
    """Numbers and dates are plain in any query; a text travels as a mark does."""
    places = [place for place, column in enumerate(columns) if column.name == part.column]
    if len(places) != 1:
        raise column_unknown(part.column)
    name, kind = f"q.c{places[0]}", columns[places[0]].kind.type
    if isinstance(part, OneOf) and part.kind == "text" and pa.types.is_string(kind):
        return f" WHERE {name}::text COLLATE \"C\" = current_setting('{MARK}')", part.value
    cast = {"integer": "", "date": "::date"}.get(part.kind)
    if part.kind == "date" and pa.types.is_timestamp(kind):
        cast = "::timestamptz" if kind.tz else "::timestamp"
    fits = (
        pa.types.is_integer(kind) if part.kind == "integer" else pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    )
    if cast is None or not fits:
        raise invalid(part.column, f"is not of kind {part.kind}", "Choose another column.")
    zone = " 00:00:00Z" if cast == "::timestamptz" else ""
    ends = (("=", part.value),) if isinstance(part, OneOf) else ((">=", part.low), ("<", part.high))
    found = [f"{name} {sign} '{end}{zone}'{cast}" if cast else f"{name} {sign} {end}" for sign, end in ends if end]
    return f" WHERE {' AND '.join(found)}", None
