"""The ClickHouse type that holds every value of an Arrow field."""

from __future__ import annotations

import pyarrow as pa

from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.sources.values.moments import UTC_NAMES
from dpone_provider.sources.values.rule import NoFit, is_bytes, is_text

ORIGIN = b"clickhouse.type"
"""Field metadata: the ClickHouse type that a field was read from."""

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNLESS_NULLABLE = frozenset({"Array", "Map", "Tuple", "JSON"})


def derived_type(field: pa.Field, *, required: bool) -> ChType:
    """The type for a field; Nullable where the field is, unless ``required``. Raises ``NoFit``."""
    origin = (field.metadata or {}).get(ORIGIN)
    if origin is not None:
        return _original(origin.decode(), required)
    kind = _plain(field.type)
    if required or not field.nullable or kind.name in _UNLESS_NULLABLE:
        return kind
    if kind.name == "LowCardinality":
        return _wrap("LowCardinality", _wrap("Nullable", kind.types[0]))
    return _wrap("Nullable", kind)


def _original(text: str, required: bool) -> ChType:
    try:
        kind = parse_type(text)
    except UnknownType as problem:
        raise NoFit(f"its type in the source {problem}") from None
    if required and kind.nullable:
        return _wrap("LowCardinality", kind.base) if kind.name == "LowCardinality" else kind.base
    return kind


def _wrap(name: str, inner: ChType) -> ChType:
    return ChType(name=name, args=(inner,))


def _plain(kind: pa.DataType) -> ChType:
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return ChType(name="UUID")
        return _plain(kind.storage_type)
    if pa.types.is_integer(kind):
        return ChType(name=f"{'U' if pa.types.is_unsigned_integer(kind) else ''}Int{kind.bit_width}")
    if pa.types.is_floating(kind):
        return ChType(name="Float64" if kind.bit_width == 64 else "Float32")
    if pa.types.is_boolean(kind):
        return ChType(name="Bool")
    if pa.types.is_fixed_size_binary(kind):
        return ChType(name="FixedString", args=(kind.byte_width,))
    if is_text(kind) or is_bytes(kind) or pa.types.is_null(kind):
        return ChType(name="String")
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    return _temporal(kind) or _nested(kind)


def _decimal(kind: pa.DataType) -> ChType:
    digits, scale = kind.precision, kind.scale
    if not 0 <= scale <= digits:
        raise NoFit("a decimal whose scale is not between 0 and its precision")
    return ChType(name="Decimal", args=(digits, scale))


def _temporal(kind: pa.DataType) -> ChType | None:
    if pa.types.is_date(kind):
        return ChType(name="Date32")
    if pa.types.is_timestamp(kind):
        zone = kind.tz
        named = zone is not None and zone not in UTC_NAMES and zone[0].isalpha()
        return ChType(name="DateTime64", args=(_DIGITS[kind.unit], zone if named else "UTC"))
    if pa.types.is_time(kind):
        digits = _DIGITS[kind.unit]
        return ChType(name="Time64", args=(digits,)) if digits else ChType(name="Time")
    return None


def _nested(kind: pa.DataType) -> ChType:
    if pa.types.is_dictionary(kind):
        inner = _plain(kind.value_type)
        return _wrap("LowCardinality", inner) if inner.name == "String" else inner
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _wrap("Array", derived_type(kind.value_field, required=False))
    if pa.types.is_map(kind):
        return ChType(name="Map", args=(_plain(kind.key_type), derived_type(kind.item_field, required=False)))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return ChType(
            name="Tuple",
            args=tuple(derived_type(field, required=False) for field in fields),
            labels=tuple(field.name for field in fields),
        )
    raise NoFit(f"there is no ClickHouse type for Arrow {str(kind).partition('<')[0]}")
