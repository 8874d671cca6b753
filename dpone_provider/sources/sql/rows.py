"""Rows of Python values as record batches: the first rows decide each column's type, later ones must keep to it.

Nothing is guessed or converted with a loss: a column with values of two kinds is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.sources.sql.refusals import ONE_TYPE, value_refused

Row = tuple[Any, ...]
Values = Sequence[Any]
EXACT: Final = 1 << 53
_WORDS: Final[Mapping[type, str]] = {
    bool: "booleans",
    int: "integers",
    float: "floats",
    Decimal: "decimals",
    str: "text",
    bytes: "bytes",
    date: "dates",
    datetime: "moments",
    time: "times of day",
    UUID: "UUIDs",
    memoryview: "bytes",
    bytearray: "bytes",
}
_UNHEARD: Final = "CAST the column to text or to a plain type in source.query."


class _Unfit(Exception):
    """``problem`` stands after the column's name."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@attrs.frozen(kw_only=True)
class Column:
    """``kinds``: the Python types of its values; ``make``: the array of values of these types."""

    name: str
    type: pa.DataType
    kinds: frozenset[type]
    make: Callable[[Values], pa.Array]


class Rows:
    """Batches of one schema.

    ``declared``: ClickHouse types by column; they decide where the values leave a choice. ``digits``: precision and
    scale by column, where the driver tells them. ``only``: the types that the database has at all, None for any.
    Raises ``DponeError`` DPONE_SOURCE_VALUE_REFUSED naming the column.
    """

    def __init__(
        self,
        names: Sequence[str],
        first: Sequence[Row],
        declared: Mapping[str, str],
        *,
        digits: Mapping[str, tuple[int, int]] | None = None,
        only: frozenset[type] | None = None,
    ) -> None:
        columns: Sequence[Values] = list(zip(*first, strict=True)) if first else [()] * len(names)
        self.columns = [
            _column(name, values, _parsed(declared.get(name)), (digits or {}).get(name), only)
            for name, values in zip(names, columns, strict=True)
        ]
        self.schema = pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Rows of the same columns, in ``schema``."""
        pairs = zip(self.columns, zip(*rows, strict=True), strict=True)
        arrays = [_array(column, values) for column, values in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(column: Column, values: Values) -> pa.Array:
    strangers = _kinds(values) - column.kinds
    try:
        if strangers:
            raise _Unfit(_strange(strangers, column))
        return column.make(values)
    except _Unfit as unfit:
        raise value_refused(column.name, unfit.problem, ONE_TYPE) from None
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError):
        raise value_refused(column.name, f"a value that does not fit {column.type}", ONE_TYPE) from None


def _strange(strangers: set[type], column: Column) -> str:
    found = _listed(strangers)
    return f"{found} after {_listed(column.kinds)}" if column.kinds else f"{found} where the first rows have only NULL"


def _kinds(values: Values) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _listed(kinds: set[type] | frozenset[type]) -> str:
    return " and ".join(sorted({_WORDS.get(kind, kind.__name__) for kind in kinds}))


def _parsed(text: str | None) -> ChType | None:
    try:
        return parse_type(text).base if text is not None else None
    except UnknownType:
        return None  # whoever plans the target says so


def _column(
    name: str, values: Values, declared: ChType | None, digits: tuple[int, int] | None, only: frozenset[type] | None
) -> Column:
    kinds = _kinds(values) or _expected(declared, only)
    strangers = kinds - _WORDS.keys()
    if strangers:
        raise value_refused(name, f"values of the driver's type {_listed(strangers)} are not read", _UNHEARD)
    if kinds <= {int, float} and declared is not None and declared.name in ("Float32", "Float64") and kinds:
        return Column(name=name, type=pa.float64(), kinds=frozenset({int, float}), make=_floats)
    if (kinds <= {int, Decimal} and Decimal in kinds) or (kinds == {int} and _is_decimal(declared)):
        return _decimals(name, values, declared, digits)
    if kinds <= {bytes, bytearray, memoryview} and kinds:
        wide = frozenset({bytes, bytearray, memoryview})
        return Column(name=name, type=pa.binary(), kinds=wide, make=_bytes)
    if len(kinds) > 1:
        raise value_refused(name, f"its values are of more than one type, {_listed(kinds)}", ONE_TYPE)
    return _of_one(name, next(iter(kinds), None), values, declared)


def _of_one(name: str, kind: type | None, values: Values, declared: ChType | None) -> Column:
    """The column of values of one type; None: of no values at all."""
    made: pa.DataType = pa.null()
    make: Callable[[Values], pa.Array] | None = None
    if kind is int:
        made = pa.uint64() if declared is not None and declared.name == "UInt64" else pa.int64()
    elif kind is datetime:
        aware = any(value is not None and value.tzinfo is not None for value in values)
        made = pa.timestamp("us", "UTC" if aware else None)
        make = _moments(made, aware)
    elif kind is time:
        made, make = pa.time64("us"), _times
    elif kind is UUID:
        made, make = pa.uuid(), _uuids
    elif kind is not None:
        made = {bool: pa.bool_(), float: pa.float64(), str: pa.string(), date: pa.date32()}[kind]
    kinds = frozenset({kind}) if kind is not None else frozenset()
    return Column(name=name, type=made, kinds=kinds, make=make or (lambda values: pa.array(values, made)))


def _expected(declared: ChType | None, only: frozenset[type] | None) -> set[type]:
    """The type of a column whose first rows are all NULL, as far as its declaration tells."""
    if declared is None:
        return set()
    name = declared.name
    kind: type = str
    if name == "Bool":
        kind = bool
    elif name.startswith(("Int", "UInt")):
        kind = int
    elif name.startswith("Float"):
        kind = float
    elif name == "Decimal":
        kind = Decimal
    elif name in ("Date", "Date32"):
        kind = date
    elif name.startswith("DateTime"):
        kind = datetime
    elif name != "String":
        return set() if only is None else {str}
    return {kind} if only is None or kind in only else {int} if kind is bool else {str}


def _is_decimal(declared: ChType | None) -> bool:
    return declared is not None and declared.name == "Decimal"


def _decimals(name: str, values: Values, declared: ChType | None, digits: tuple[int, int] | None) -> Column:
    """Decimals of the declared or told digits; without any, their exact text."""
    if declared is not None and declared.name == "Decimal":
        digits = (declared.numbers[0], declared.numbers[1])
    kinds = frozenset({Decimal, int})
    if digits is None:
        return Column(name=name, type=pa.string(), kinds=kinds, make=_decimal_texts)
    made = (pa.decimal128 if digits[0] <= 38 else pa.decimal256)(*digits)
    return Column(name=name, type=made, kinds=kinds, make=lambda values: pa.array(map(_decimal, values), made))


def _decimal(value: Decimal | int | None) -> Decimal | None:
    if isinstance(value, Decimal) and not value.is_finite():
        raise _Unfit("NaN or infinity, which no decimal has")
    return Decimal(value) if value is not None else None


def _decimal_texts(values: Values) -> pa.Array:
    return pa.array([None if value is None else f"{Decimal(value):f}" for value in values], pa.string())


def _floats(values: Values) -> pa.Array:
    """Floats, and integers as far as a float has every one of them."""
    if any(type(value) is int and abs(value) > EXACT for value in values):
        raise _Unfit("an integer that no float holds exactly")
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _bytes(values: Values) -> pa.Array:
    return pa.array([None if value is None else bytes(value) for value in values], pa.binary())


def _moments(made: pa.DataType, aware: bool) -> Callable[[Values], pa.Array]:
    def make(values: Values) -> pa.Array:
        if any(value is not None and (value.tzinfo is not None) is not aware for value in values):
            raise _Unfit("some of its moments have a time zone and some have none")
        return pa.array(values, made)

    return make


def _times(values: Values) -> pa.Array:
    if any(value is not None and value.tzinfo is not None for value in values):
        raise _Unfit("a time of day with a time zone")
    return pa.array(values, pa.time64("us"))


def _uuids(values: Values) -> pa.Array:
    storage = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)
