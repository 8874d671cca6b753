"""The Arrow type that text of a declared column is parsed as.

What Arrow's text parsers cannot give without loss stays text, and the fit converts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType, integer_bounds
from dpone_provider.sources.formats.reader import refused
from dpone_provider.sources.locate import FileRef

_TEXTS = frozenset({"String", "FixedString", "JSON"})
_PLAIN = {
    "Float32": pa.float32(),
    "BFloat16": pa.float32(),
    "Float64": pa.float64(),
    "Bool": pa.bool_(),
    "Date": pa.date32(),
    "Date32": pa.date32(),
    "Time": pa.time32("s"),
}
_EXACT = 2.0**53


def text_type(kind: ChType, formats: tuple[str, ...] = ()) -> pa.DataType:
    """How values of this ClickHouse type are parsed. ``formats``: authored timestamp formats of a CSV."""
    base = kind.base
    if integer_bounds(base.name) is not None and not base.name.endswith(("128", "256")):
        return getattr(pa, base.name.lower())()
    if base.name == "Decimal" and base.numbers[0] <= 38:
        return pa.decimal128(*base.numbers)
    if base.name in ("DateTime", "DateTime64") and formats:
        digits = base.numbers[0] if base.numbers else 0
        unit = ("s", "ms", "us", "ns")[(digits + 2) // 3]
        return pa.timestamp(unit, "UTC" if any("%z" in item for item in formats) else None)
    return _PLAIN.get(base.name, pa.string())


def carried(kind: ChType, formats: tuple[str, ...] = ()) -> bool:
    """Whether text stands for a value that is no text: there an empty CSV field is NULL as for numbers."""
    return text_type(kind, formats) == pa.string() and kind.base.name not in _TEXTS


def json_type(kind: ChType) -> pa.DataType | None:
    """How JSON values of this type are parsed; None = as they are found."""
    base = kind.base
    if base.name == "Array":
        inner = json_type(base.types[0])
        return pa.list_(inner) if inner is not None else None
    if base.name == "Tuple" and base.labels:
        inners = [json_type(part) for part in base.types]
        if None not in inners:
            return pa.struct([pa.field(label, inner) for label, inner in zip(base.labels, inners, strict=True)])
        return None
    if base.name in ("Map", "Tuple", "JSON", "Time", "Time64"):
        return None
    return text_type(kind)


def guessed_floats(schema: pa.Schema, declared: Mapping[str, ChType]) -> tuple[str, ...]:
    """The undeclared columns that were taken for floats."""
    return tuple(field.name for field in schema if pa.types.is_floating(field.type) and field.name not in declared)


def refuse_rounded(file: FileRef, batch: pa.RecordBatch, guessed: Iterable[str]) -> None:
    """Refuse an undeclared column whose numbers were taken for floats and are too large to be exact.

    An integer beyond Int64 looks like a float to the text parsers and would lose its last digits.
    """
    for name in guessed:
        ends = pc.min_max(batch.column(name))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is not None and max(-low, high) >= _EXACT:
            raise refused(file, f", column {name}: a number too large to be read exactly without its type", column=name)
