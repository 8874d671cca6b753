"""A mark: how far a source was read, as text that says what kind of value it is.

``number:42``, ``number:12.50``, ``date:2024-12-31``, ``datetime:2024-12-31T23:59:59.999`` (always UTC, with the digits
of the column's unit), ``local:2024-12-31T23:59:59.999`` (of a column without a time zone, as it stands there),
``text:abc`` (compared byte by byte). The kind is there so that a column that changed its type is noticed: one that gets
a time zone shifts its clock, and rows would stay behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from dpone_provider.errors import DponeError

Family = Literal["number", "date", "datetime", "local", "text"]
MAX_MARK: Final = 1024
"""Most UTF-8 bytes of a mark."""

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TYPES: Final = "Choose an integer, decimal, date, timestamp or text column."
_RETYPED: Final = "Undo the change, or let the platform owner remove the mark: then everything is read again."
_MOMENT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6}|\.[0-9]{9})?"
_SHAPES: Final[dict[Family, re.Pattern[str]]] = {
    "number": re.compile(r"-?[0-9]{1,80}(\.[0-9]{1,80})?"),
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "datetime": re.compile(_MOMENT),
    "local": re.compile(_MOMENT),
    "text": re.compile(r".*", re.DOTALL),
}


@attrs.frozen(kw_only=True)
class CursorMark:
    """The cursor column of a source, and the mark to read after; ``value`` None reads everything."""

    column: str
    value: str | None = None

    @property
    def parts(self) -> tuple[Family, str] | None:
        """Family and text of the value, None without one.

        Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN for a text that is no mark.
        """
        if self.value is None:
            return None
        family, _, text = self.value.partition(":")
        shape = _SHAPES.get(family)  # type: ignore[call-overload]
        if shape is None or not shape.fullmatch(text) or len(self.value.encode("utf-8", "replace")) > MAX_MARK:
            raise no_mark(self.column, "has a mark that is not well-formed")
        return family, text  # type: ignore[return-value]

    @property
    def bound(self) -> int | Decimal | date | datetime | str | None:
        """The value as Python has it, to be bound to a query; a moment is naive, its nanoseconds cut off.

        Whatever a query lets through is compared again, exactly, by ``CursorReader``. Raises as ``parts`` does.
        """
        match self.parts:
            case None:
                return None
            case "number", text:
                return Decimal(text) if "." in text else int(text)
            case "date", text:
                return self._real(date.fromisoformat, text)
            case "datetime" | "local", text:
                return self._real(datetime.fromisoformat, text[:26])
            case _, text:
                return text

    def _real(self, read: Callable[[str], date], text: str) -> date:
        try:
            return read(text)
        except ValueError:
            raise no_mark(self.column, "has a mark that is no moment of the calendar") from None


def refused(column: str, problem: str, remedy: str = "", code: str = "DPONE_SOURCE_INVALID") -> DponeError:
    """The error of a cursor column. ``problem`` goes on after its name."""
    return DponeError(code, f"Cursor column {column} {problem}.", remedy=remedy, context={"column": column})


def no_mark(column: str, problem: str) -> DponeError:
    """The error of a stored mark that is none of the column; nothing was read by it."""
    error = refused(column, problem, _RETYPED, "DPONE_SOURCE_STATE_UNCERTAIN")
    error.boundary = "pre_commit"
    return error


def unordered(column: str) -> DponeError:
    """The error of a cursor column whose type cannot be one."""
    return refused(column, "is of a type without an exact order", _TYPES)


def mark_scalar(after: CursorMark, kind: pa.DataType) -> pa.Scalar | None:
    """The mark as a value of an Arrow type in which the column is compared; None to read everything.

    Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN when it is not exactly one.
    """
    match after.parts:
        case None:
            return None
        case "number", text if pa.types.is_integer(kind):
            made = _attempt(lambda: pa.scalar(int(text), kind))
        case "number", text if pa.types.is_decimal(kind):
            made = _attempt(lambda: pa.scalar(Decimal(text), kind))
        case "date", text if pa.types.is_date32(kind):
            made = _attempt(lambda: pa.scalar(date.fromisoformat(text), kind))
        case "datetime" | "local" as family, text if pa.types.is_timestamp(kind) and family == _clock(kind):
            made = _attempt(lambda: pa.scalar(_ticks(text, _DIGITS[kind.unit]), pa.int64()).cast(kind))
        case "text", text if pa.types.is_large_string(kind):
            made = pa.scalar(text, kind)
        case _:
            made = None
    if made is None:
        raise no_mark(after.column, "changed its type: the mark that the last load left is no value of it")
    return made


def _clock(kind: pa.TimestampType) -> Family:
    return "local" if kind.tz is None else "datetime"


def _attempt(make: Callable[[], pa.Scalar]) -> pa.Scalar | None:
    try:
        return make()
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _ticks(text: str, digits: int) -> int:
    """A datetime mark as the number of ticks since 1970 of a unit with so many digits."""
    whole, _, rest = text.partition(".")
    if rest[digits:].strip("0"):
        raise ValueError
    seconds = (datetime.fromisoformat(whole) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return int(seconds * 10**digits + int(rest[:digits].ljust(digits, "0") or "0"))


def written(column: str, top: pa.Scalar) -> str:
    """The mark of a value."""
    kind = top.type
    try:
        if pa.types.is_timestamp(kind):
            text = f"{_clock(kind)}:{np.datetime64(top.value, kind.unit)}"
        elif pa.types.is_date32(kind):
            text = f"date:{top.as_py().isoformat()}"
        elif pa.types.is_large_string(kind):
            text = f"text:{top.as_py()}"
        else:
            text = f"number:{top.as_py():f}" if pa.types.is_decimal(kind) else f"number:{top.as_py()}"
        mark_scalar(CursorMark(column=column, value=text), kind)  # what cannot be read back is not written
    except (ValueError, OverflowError, DponeError):
        problem = f"holds a value that no mark can keep: over {MAX_MARK} bytes, not UTF-8, or out of the calendar"
        raise refused(column, problem, code="DPONE_SOURCE_VALUE_REFUSED") from None
    return text
