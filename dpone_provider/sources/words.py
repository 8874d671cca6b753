"""One 64 bit word for every value of an Arrow array, the same that ClickHouse makes of the stored value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dpone_provider.clickhouse.typed_hash import NAN, NoWord, Salt
from dpone_provider.clickhouse.types import ChType
from dpone_provider.sources import buffers
from dpone_provider.sources.values.rule import is_bytes, is_text
from dpone_provider.sources.xxhash import Words, xxhash64

Cells = Callable[[pa.Array], Words]
"""Makes one cell of every value, in an array of its own."""

_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_WIDE = {"Int128": 16, "UInt128": 16, "Int256": 32, "UInt256": 32, "IPv6": 16}
_WHOLE = {
    **{f"{sign}Int{bits}": getattr(pa, f"{sign}int{bits}".lower())() for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "Bool": pa.bool_(),
    "Enum8": pa.int8(),
    "Enum16": pa.int16(),
    "IPv4": pa.uint32(),
    "Time": pa.int32(),
    "Date": pa.date32(),
    "Date32": pa.date32(),
}


def mix(words: Words, salt: int = 0) -> Words:
    """ClickHouse's ``intHash64`` of ``words XOR salt``, in place."""
    words ^= np.uint64(0x4CF2D2BAAE6DA887 ^ salt)
    words ^= words >> np.uint64(33)
    words *= np.uint64(0xFF51AFD7ED558CCD)
    words ^= words >> np.uint64(33)
    words *= np.uint64(0xC4CEB9FE1A85EC53)
    words ^= words >> np.uint64(33)
    return words


def cells_of(wire: pa.DataType, kind: ChType, salt: Salt) -> Cells:
    """How values on the wire become cells of a column.

    Raises ``NoWord`` for a wire type that is not the one that a fit sends for the column's type: no value is widened,
    padded or rounded here, because the server would do it in its own way.
    """
    if pa.types.is_null(wire):
        return lambda array: np.full(len(array), salt.null, np.uint64)
    words, value, null = _words(wire, kind.base, salt), salt.value, np.uint64(salt.null)

    def cells(array: pa.Array) -> Words:
        found = mix(words(array), value)
        if array.null_count:
            found[~buffers.bits(array, 0)] = null
        return found

    return cells


def _words(wire: pa.DataType, kind: ChType, salt: Salt) -> Cells:
    """How non-null values become words; what stands for a NULL does not matter."""
    found: Cells | None = None
    if kind.name in _WHOLE:
        found = _whole(wire) if wire == _WHOLE[kind.name] else None
    elif kind.name in ("Float32", "Float64", "BFloat16"):
        found = _floats(wire, 64 if kind.name == "Float64" else 32)
    elif kind.name in ("String", "FixedString"):
        found = _strings(wire) if kind.name == "String" or wire == pa.binary(kind.numbers[0]) else None
    elif kind.name == "Decimal":
        found = _decimals(wire, kind)
    elif kind.name in _WIDE:
        found = _strings(wire) if wire == pa.binary(_WIDE[kind.name]) else None
    elif kind.name == "UUID":
        found = _uuids if wire in (pa.binary(16), pa.uuid()) else None
    elif kind.name in ("DateTime", "DateTime64", "Time64"):
        found = _moments(wire, kind)
    else:
        found = _nested(wire, kind, salt)
    if found is None:
        raise NoWord(str(kind))
    return found


def _whole(wire: pa.DataType) -> Cells:
    """Numbers of up to 64 bits, negative ones as two's complement."""
    if pa.types.is_boolean(wire):
        return lambda array: buffers.bits(array, 1).astype(np.uint64)
    code = f"{'u' if pa.types.is_unsigned_integer(wire) else 'i'}{wire.bit_width // 8}"
    return lambda array: buffers.values(array, code).astype(np.int64).view(np.uint64)


def _floats(wire: pa.DataType, bits: int) -> Cells | None:
    if not pa.types.is_floating(wire) or wire.bit_width != bits:
        return None

    def words(array: pa.Array) -> Words:
        values = buffers.values(array, f"f{bits // 8}")
        found: Words = values.view(f"u{bits // 8}").astype(np.uint64)
        strange = np.isnan(values)
        if strange.any():
            found[strange] = NAN
        return found

    return words


def _decimals(wire: pa.DataType, kind: ChType) -> Cells | None:
    """The raw number of the server's width: one word, or two or four of them hashed."""
    digits, scale = kind.numbers
    if wire != (pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)):
        return None
    words = wire.bit_width // 64
    if digits <= 18:
        return lambda array: buffers.rows(array, words)[:, 0].copy()
    return lambda array: _hashed(buffers.rows(array, words))


def _uuids(array: pa.Array) -> Words:
    """The server keeps the two halves of a UUID as little-endian numbers."""
    return _hashed(buffers.rows(array, 2).byteswap())  # an extension array has its storage's buffers


def _strings(wire: pa.DataType) -> Cells | None:
    if pa.types.is_fixed_size_binary(wire):
        width = wire.byte_width

        def words(array: pa.Array) -> Words:
            data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
            return xxhash64(data, np.arange(array.offset, array.offset + len(array) + 1) * width)

        return words
    return _Texts(wire) if is_text(wire) or is_bytes(wire) else None


class _Texts:
    """Strings of any length. While a column repeats itself, every string is hashed once."""

    def __init__(self, wire: pa.DataType) -> None:
        views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        self._plain = views.get(wire)
        self._repeats = True

    def __call__(self, array: pa.Array) -> Words:
        plain = array if self._plain is None else array.cast(self._plain)
        if not self._repeats or plain.null_count == len(plain):
            return self._hashes(plain)
        coded = plain.dictionary_encode()
        self._repeats = len(coded.dictionary) <= len(plain) // 8
        return _decoded(self._hashes(coded.dictionary), coded.indices)

    def _hashes(self, array: pa.Array) -> Words:
        return xxhash64(np.frombuffer(array.buffers()[2] or b"", np.uint8), buffers.offsets(array))


def _decoded(known: Words, codes: pa.Array) -> Words:
    """What each code stands for; anything for NULL."""
    places = _whole(codes.type)(codes).view(np.int64)
    if codes.null_count:
        places[~buffers.bits(codes, 0)] = 0
    found: Words = known.take(places)
    return found


def _moments(wire: pa.DataType, kind: ChType) -> Cells | None:
    """Seconds, or ticks of the column's digits. Inside of others the server has a bare number for a DateTime."""
    digits = kind.numbers[0] if kind.numbers else 0
    if kind.name == "DateTime" and wire == pa.uint32():
        return _whole(wire)
    timed = pa.types.is_time(wire) if kind.name == "Time64" else pa.types.is_timestamp(wire)
    if not timed or not 0 <= _UNIT_DIGITS[wire.unit] - digits < 3:
        return None
    words, coarse = _whole(wire), 10 ** (_UNIT_DIGITS[wire.unit] - digits)
    return words if coarse == 1 else lambda array: (words(array).view(np.int64) // coarse).view(np.uint64)


def _nested(wire: pa.DataType, kind: ChType, salt: Salt) -> Cells | None:
    if kind.name == "Tuple" and pa.types.is_struct(wire) and wire.num_fields == len(kind.types):
        parts = [cells_of(wire.field(place).type, inner, salt.inside(place)) for place, inner in enumerate(kind.types)]
        return lambda array: sum_of([part(array.field(place)) for place, part in enumerate(parts)])
    if kind.name == "Array" and (pa.types.is_list(wire) or pa.types.is_large_list(wire)):
        items = cells_of(wire.value_type, kind.types[0], salt.inside(0))
        return lambda array: _of_items(array, items)
    if kind.name == "Map" and pa.types.is_map(wire):
        keys = cells_of(wire.key_type, kind.types[0], salt.inside(0))
        values = cells_of(wire.item_type, kind.types[1], salt.inside(1))

        def entries(array: pa.MapArray) -> Words:
            offsets = buffers.offsets(array)
            start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
            found = keys(array.keys.slice(start, length))
            found += values(array.items.slice(start, length))
            return _sums(mix(found), offsets)

        return entries
    return None


def _of_items(array: pa.ListArray, items: Cells) -> Words:
    offsets = buffers.offsets(array)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    cells = items(array.values.slice(start, length))
    places = np.arange(1, length + 1) - np.repeat(offsets[:-1] - start, np.diff(offsets))
    cells ^= places.view(np.uint64)
    return _sums(mix(cells), offsets)


def sum_of(columns: list[Words]) -> Words:
    """The sum of some columns, in the first one's memory; it wraps at 2^64."""
    total = columns[0]
    for column in columns[1:]:
        total += column
    return total


def _sums(cells: Words, offsets: np.ndarray) -> Words:
    """The sum of every list's cells, by differences of the running sum: all of it wraps at 2^64."""
    running = np.zeros(len(cells) + 1, np.uint64)
    np.cumsum(cells, out=running[1:])
    ends = running[offsets - offsets[0]]
    sums: Words = ends[1:] - ends[:-1]
    return sums


def _hashed(rows: np.ndarray) -> Words:
    """xxHash64 of every row of words."""
    plain = np.ascontiguousarray(rows)
    return xxhash64(plain.reshape(-1).view(np.uint8), np.arange(len(plain) + 1) * (8 * plain.shape[1]))
