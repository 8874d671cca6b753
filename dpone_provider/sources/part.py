"""What a partition of a source may hold: its values as Python has them, and a reader that lets nothing else through.

The database applies the condition. Here every batch is looked at again, so that a collation, a time zone or a driver
that understands a value in another way ends the load, and never moves a row twice or not at all.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.errors import DponeError
from dpone_provider.native.partition import OneOf, Span, Value

Narrow = Span | OneOf
_EPOCH: Final = date(1970, 1, 1)
_A_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_COLUMN: Final = "Correct the column of source.partitions; it needs to be among the columns that are read."
_TYPES: Final = "Choose a column of whole numbers, dates or, for a list, text."


class PartReader:
    """Passes the batches of one partition on. Raises ``DponeError`` DPONE_SOURCE_INVALID for a row of another one."""

    filters = True
    value: str | None = None

    def __init__(self, part: Narrow, schema: pa.Schema) -> None:
        self._part = part
        self._index = schema.get_field_index(part.column)
        if self._index < 0:
            raise column_unknown(part.column)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch itself."""
        column = batch.column(self._index)
        strange = bool(column.null_count) or not all(
            _holds(self._part, end) for end in ends_of(self._part.column, column)
        )
        if strange:
            problem = "has a value that the database takes for one of another partition"
            raise invalid(self._part.column, problem, "CAST it in source.query to a type that compares exactly.")
        return batch


def ends_of(column: str, values: pa.Array) -> tuple[Value, ...]:
    """The lowest and the highest value; nothing for no value at all. Moments become their day, in UTC.

    Raises ``DponeError`` DPONE_PARTITIONS for a type that has no partitions.
    """
    if pa.types.is_null(values.type):
        return ()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _has_parts(values.type):
        raise DponeError("DPONE_PARTITIONS", f"Column {column} is of a type without partitions.", remedy=_TYPES)
    if pa.types.is_string(values.type):
        values = values.cast(pa.large_string())
    ends = pc.min_max(values)
    found = (_plain(column, ends["min"]), _plain(column, ends["max"]))
    return tuple(end for end in found if end is not None)


def column_unknown(column: str) -> DponeError:
    """The column of the partitions is missing, or twice there."""
    return invalid(column, "is not exactly once in the source", _COLUMN, "DPONE_SOURCE_COLUMN_UNKNOWN")


def invalid(column: str, problem: str, remedy: str, code: str = "DPONE_SOURCE_INVALID") -> DponeError:
    """The error of a partition column. ``problem`` goes on after its name."""
    return DponeError(code, f"Partition column {column} {problem}.", remedy=remedy, context={"column": column})


def _has_parts(kind: pa.DataType) -> bool:
    types = pa.types
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(texts or types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _plain(column: str, value: pa.Scalar) -> Value | None:
    if not value.is_valid:
        return None
    try:
        if pa.types.is_timestamp(value.type):
            return _EPOCH + timedelta(days=value.value // _A_DAY[value.type.unit])
        found: Value = value.as_py()
    except (OverflowError, ValueError):
        raise invalid(column, "has a date out of the calendar", "Leave those rows out in the source.") from None
    return found


def _holds(part: Narrow, value: Value) -> bool:
    """Texts compare as texts, byte by byte: that is what a file database does that has no dates."""
    if isinstance(part, OneOf):
        return bool(value == (part.value if isinstance(value, str) else part.typed))
    low, high = (part.low, part.high) if isinstance(value, str) else part.values
    if any(type(end) is not type(value) for end in (low, high) if end is not None):
        return False
    within = (low is None or low <= value) and (high is None or value < high)  # type: ignore[operator]
    return bool(within)
