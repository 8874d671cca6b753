"""ClickHouse's Arrow stream says less than its types: this puts the meaning back.

DateTime comes as a bare UInt32, Enum as its numbers, BFloat16 as two bytes; they become timestamps, names and floats.
Every field gets the ClickHouse type that it came from as metadata.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.errors import DponeError
from dpone_provider.sources.derive import ORIGIN
from dpone_provider.sources.values.rule import Convert, from_words


@attrs.frozen(kw_only=True)
class _Meaning:
    type: pa.DataType
    convert: Convert


class Honest:
    """Turns the server's batches into ones whose Arrow types mean what the ClickHouse types mean."""

    def __init__(self, schema: pa.Schema, described: Sequence[tuple[str, str]]) -> None:
        if [name for name, _ in described] != schema.names:
            raise DponeError("DPONE_SOURCE_FAILED", "The source's columns changed while it was opened.")
        self._meanings: list[_Meaning | None] = []
        fields: list[pa.Field] = []
        for field, (name, text) in zip(schema, described, strict=True):
            kind = _known(text)
            meaning = _meaning(field.type, kind) if kind is not None else None
            self._meanings.append(meaning)
            found = meaning.type if meaning is not None else field.type
            fields.append(pa.field(name, found, field.nullable, metadata={ORIGIN: text.encode()}))
        self.schema = pa.schema(fields)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in ``schema``."""
        pairs = zip(batch.columns, self._meanings, strict=True)
        arrays = [array if meaning is None else meaning.convert(array) for array, meaning in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _known(text: str) -> ChType | None:
    try:
        return parse_type(text)
    except UnknownType:
        return None


def _meaning(carrier: pa.DataType, kind: ChType) -> _Meaning | None:
    base = kind.base
    if base.name == "DateTime" and pa.types.is_uint32(carrier):
        instant = pa.timestamp("s", "UTC")
        return _Meaning(type=instant, convert=lambda array: array.cast(pa.int64()).view(instant))
    if base.name in ("Enum8", "Enum16") and pa.types.is_integer(carrier):
        return _names(base)
    if base.name == "BFloat16":
        return _Meaning(type=pa.float32(), convert=_widened)
    return None


def _names(kind: ChType) -> _Meaning:
    numbers = pa.array(kind.numbers, pa.int16())
    labels = pa.array(kind.labels, pa.string())

    def convert(array: pa.Array) -> pa.Array:
        places = pc.index_in(array.cast(pa.int16()), value_set=numbers)
        return pa.DictionaryArray.from_arrays(places, labels)

    return _Meaning(type=pa.dictionary(pa.int32(), pa.string()), convert=convert)


def _widened(array: pa.Array) -> pa.Array:
    """BFloat16 is the upper half of a Float32."""
    plain = array.fill_null(b"\0\0") if array.null_count else array
    halves = np.frombuffer(plain.cast(pa.binary(2)).buffers()[1], np.uint16)
    start = plain.cast(pa.binary(2)).offset
    words = halves[start : start + len(array)].astype(np.uint32) << np.uint32(16)
    return from_words(pa.float32(), words, array)
