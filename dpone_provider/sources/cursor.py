"""Reading only what is new: the rows of a source whose cursor column is above a mark (``sources.mark``).

Rows equal to the mark were read before and are not read again. Floats have no exact next value and NULL has no order:
both are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType, parse_type
from dpone_provider.sources.mark import CursorMark, mark_scalar, refused, unordered, written
from dpone_provider.sources.values.convert import rule_of
from dpone_provider.sources.values.rule import Convert, Misfit, NoFit, caster, is_text

__all__ = ["CursorMark", "CursorReader"]

_TEXTS: Final = frozenset({"String", "FixedString"})
_COLUMN: Final = "Correct source.cursor.column; it needs to be among the columns that are read."
_NULLS: Final = "Leave those rows out in the source, or choose a column that always has a value."


class CursorReader:
    """Drops the rows that are not above the mark, and remembers the highest value that it let through.

    ``declared``: ClickHouse types by column, for files: text that is declared to be more than text is compared as that.
    Raises ``DponeError`` DPONE_SOURCE_COLUMN_UNKNOWN or DPONE_SOURCE_INVALID, which name the column, and
    DPONE_SOURCE_STATE_UNCERTAIN when the mark is no value of the column. ``filters``: there is a mark to read after.
    """

    def __init__(self, after: CursorMark, schema: pa.Schema, declared: Mapping[str, str]) -> None:
        self._column, self._value = after.column, after.value
        self.filters = after.value is not None
        self._index = schema.get_field_index(after.column)
        if self._index < 0:
            raise refused(after.column, "is not exactly once in the source", _COLUMN, "DPONE_SOURCE_COLUMN_UNKNOWN")
        self._comparable, kind = _plan(after.column, schema.field(self._index), declared.get(after.column))
        self._mark = mark_scalar(after, kind) if not pa.types.is_null(kind) else None
        self._top = self._mark
        self._rows = 0

    @property
    def value(self) -> str | None:
        """The highest value so far, as a mark; the one to read after until something was let through."""
        return self._value

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows above the mark. Raises ``DponeError`` for a NULL, or a value that no mark can hold."""
        column = batch.column(self._index)
        if column.null_count:
            raise refused(self._column, "holds NULL, which has no place in its order", _NULLS)
        values = self._converted(column)
        self._rows += batch.num_rows
        ends = pc.min_max(values)
        if self._mark is not None and not _above(ends["min"], self._mark):
            batch = batch.filter(pc.greater(values, self._mark))
        if batch.num_rows and (self._top is None or _above(ends["max"], self._top)):
            self._top, self._value = ends["max"], written(self._column, ends["max"])
        return batch

    def _converted(self, column: pa.Array) -> pa.Array:
        try:
            return self._comparable(column)
        except Misfit as misfit:
            problem = f"has {misfit.problem} in row {self._rows + misfit.index + 1}"
            raise refused(self._column, problem, code="DPONE_SOURCE_VALUE_REFUSED") from None


def _plan(name: str, field: pa.Field, declared: str | None) -> tuple[Convert, pa.DataType]:
    """How the column becomes what is compared, and the Arrow type of that."""
    kind = field.type
    if pa.types.is_null(kind):  # no value at all; what is not empty is refused as NULL
        return (lambda array: array), kind
    if pa.types.is_dictionary(kind):
        inner, found = _plan(name, pa.field(name, kind.value_type), declared)
        return (lambda array: inner(array.dictionary_decode())), found
    if is_text(kind) and declared is not None and parse_type(declared).base.name not in _TEXTS:
        return _parsed(name, kind, parse_type(declared))
    if is_text(kind):
        return (lambda array: array.cast(pa.large_string())), pa.large_string()
    if pa.types.is_date64(kind):
        return caster(pa.date32(), "a date with a time of day"), pa.date32()
    plain = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_date32(kind)
    if plain or pa.types.is_timestamp(kind):
        return (lambda array: array), kind
    raise unordered(name)


def _parsed(name: str, kind: pa.DataType, declared: ChType) -> tuple[Convert, pa.DataType]:
    """Text as what it is declared to be."""
    try:
        rule = rule_of(kind, declared)
    except NoFit as problem:
        raise refused(name, f"cannot be compared: {problem.problem}") from None
    inner, found = _plan(name, pa.field(name, rule.wire), None)
    convert = rule.convert
    return (inner if convert is None else lambda array: inner(convert(array))), found


def _above(value: pa.Scalar, mark: pa.Scalar) -> bool:
    return pc.greater(value, mark).as_py() is True
