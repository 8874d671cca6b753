"""PostgreSQL's types as Arrow types: which are read, through which SQL expression, and how the rest is refused.

Both drivers deliver the same carriers (``psycopg`` by its binary integer, text and bytes loaders, ADBC by Arrow), so
one table serves both. ``numeric`` without a precision is read as its exact text: no Arrow type holds all of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.sources.values.rule import exact, refuse_where

_EPOCH_DAYS: Final = 10_957
_EPOCH_MICROS: Final = 946_684_800_000_000
_MOST_DIGITS: Final = 76
_LEAST: Final = {pa.int32(): -3_000_000, pa.int64(): -300_000_000_000_000_000}
_INFINITE: Final = "infinity, or a moment too far away for Arrow"


def _same(array: pa.Array) -> pa.Array:
    return array


@attrs.frozen(kw_only=True)
class Kind:
    """How values of one type are read.

    ``type``: what they become. ``raw``: the Arrow type of what psycopg hands over. ``wire``: what ADBC does, None
    where it is not exact. ``cast``: the SQL type to cast to first. ``finish``: from psycopg's raw array to ``type``;
    ``check``: raises ``Misfit`` on an array of ``type``.
    """

    type: pa.DataType
    raw: pa.DataType
    wire: pa.DataType | None
    cast: str = ""
    finish: Callable[[pa.Array], pa.Array] = _same
    check: Callable[[pa.Array], None] = lambda array: None


def _plain(kind: pa.DataType, cast: str = "") -> Kind:
    return Kind(type=kind, raw=kind, wire=kind, cast=cast)


def _moment(kind: pa.DataType, word: pa.DataType, epoch: int) -> Kind:
    """Counted from 2000 by PostgreSQL, from 1970 by Arrow; the two infinities wrap around to before the first date."""

    def check(array: pa.Array) -> None:
        refuse_where(pc.less(array.view(word), pa.scalar(_LEAST[word], word)), _INFINITE)

    def finish(array: pa.Array) -> pa.Array:
        return pc.add(array, pa.scalar(epoch, word)).view(kind)

    return Kind(type=kind, raw=word, wire=kind, finish=finish, check=check)


def _stored(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda array: pa.ExtensionArray.from_storage(kind, array)


_TIME: Final = pa.time64("us")
_UTC: Final = pa.timestamp("us", "UTC")
_TEXT: Final = _plain(pa.string())
AS_TEXT: Final = _plain(pa.string(), "text")
_KINDS: Final[tuple[tuple[int, int, Kind], ...]] = (
    (16, 1000, _plain(pa.bool_())),
    (17, 1001, _plain(pa.binary())),
    (18, 1002, _TEXT),  # "char"
    (19, 1003, _TEXT),  # name
    (20, 1016, _plain(pa.int64())),
    (21, 1005, _plain(pa.int16())),
    (23, 1007, _plain(pa.int32())),
    (25, 1009, _TEXT),
    (26, 1028, _plain(pa.int64(), "int8")),  # oid
    (114, 199, AS_TEXT),  # json
    (700, 1021, _plain(pa.float32())),
    (701, 1022, _plain(pa.float64())),
    (1042, 1014, _TEXT),  # char(n)
    (1043, 1015, _TEXT),  # varchar
    (1082, 1182, _moment(pa.date32(), pa.int32(), _EPOCH_DAYS)),
    (1083, 1183, Kind(type=_TIME, raw=pa.int64(), wire=_TIME, finish=lambda array: array.view(_TIME))),
    (1114, 1115, _moment(pa.timestamp("us"), pa.int64(), _EPOCH_MICROS)),
    (1184, 1185, _moment(_UTC, pa.int64(), _EPOCH_MICROS)),
    (2950, 2951, Kind(type=pa.uuid(), raw=pa.binary(16), wire=pa.uuid(), finish=_stored(pa.uuid()))),
    (3802, 3807, AS_TEXT),  # jsonb
)
_NUMERIC, _NUMERICS = 1700, 1231
_SCALARS: Final[Mapping[int, Kind]] = {oid: kind for oid, _, kind in _KINDS}
_ARRAYS: Final[Mapping[int, Kind]] = {oid: kind for _, oid, kind in _KINDS}
DAYS: Final = (1082,)
MICROSECONDS: Final = (1083, 1114, 1184)
BYTES: Final = (2950,)
"""Types that psycopg is to load as the integers or bytes that they are on the wire."""


def known_kind(oid: int, modifier: int) -> Kind | None:
    """How a built-in type is read, None for another type. ``modifier``: the column's typmod."""
    if oid in (_NUMERIC, _NUMERICS):
        kind = _numeric(modifier)
        return kind if oid == _NUMERIC else list_of(kind)
    array = _ARRAYS.get(oid)
    return list_of(array) if array is not None else _SCALARS.get(oid)


def list_of(kind: Kind) -> Kind:
    """Arrays of one dimension. ADBC flattens those of several, so it does not read them."""

    def finish(array: pa.Array) -> pa.Array:
        values = kind.finish(array.values)
        kind.check(values)
        return pa.ListArray.from_arrays(array.offsets, values, mask=pc.is_null(array) if array.null_count else None)

    cast = f"{kind.cast}[]" if kind.cast else ""
    return Kind(type=pa.list_(kind.type), raw=pa.list_(kind.raw), wire=None, cast=cast, finish=finish)


def _numeric(modifier: int) -> Kind:
    """numeric(p, s) as a decimal; text where it has no precision, or one that no decimal has."""
    if modifier < 4:
        return AS_TEXT
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    digits = max(precision, scale) if scale >= 0 else precision - scale
    if digits > _MOST_DIGITS:
        return AS_TEXT
    kind = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, max(scale, 0))

    def finish(array: pa.Array) -> pa.Array:
        return exact(array, lambda part: part.cast(kind), "NaN, which no decimal has")

    return Kind(type=kind, raw=pa.string(), wire=pa.string(), cast="text", finish=finish)
