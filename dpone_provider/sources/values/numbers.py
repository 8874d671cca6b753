"""Integers, floats, decimals and booleans."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType, integer_bounds
from dpone_provider.sources.values.rule import (
    Convert,
    Misfit,
    Rule,
    cast,
    caster,
    exact,
    from_words,
    is_text,
    plain_text,
    refuse_where,
)

_WHOLE = re.compile(r"-?[0-9]+")
_FLOATS = {"Float32": pa.float32(), "Float64": pa.float64(), "BFloat16": pa.float32()}


def integer(source: pa.DataType, kind: ChType) -> Rule | None:
    """Int8 … UInt256 from integers, whole floats and decimals, booleans (0, 1) and decimal text."""
    bounds = integer_bounds(kind.name)
    if bounds is None:
        return None
    bits = int(kind.name.rpartition("Int")[2])
    if bits > 64:
        return _wide(source, kind, bounds, bits // 8)
    wire = getattr(pa, kind.name.lower())()
    if source == wire:
        return Rule(wire=wire)
    if pa.types.is_integer(source) or pa.types.is_boolean(source):
        return Rule(wire=wire, convert=caster(wire, f"a number outside the range of {kind.name}"))
    if pa.types.is_floating(source) or pa.types.is_decimal(source):
        return Rule(wire=wire, convert=caster(wire, f"a number that is not whole or outside the range of {kind.name}"))
    return _from_text(source, wire, f"text that is not a number of {kind.name}")


def floating(source: pa.DataType, kind: ChType) -> Rule | None:
    """Float32, Float64 and BFloat16 (sent as float32) from floats and integers that stay exact, and from text."""
    wire = _FLOATS.get(kind.name)
    if wire is None:
        return None
    rule = _float(source, wire, kind.name)
    if kind.name == "BFloat16" and rule is not None:
        before = rule.convert
        return Rule(wire=wire, convert=lambda array: _brain(array if before is None else before(array)))
    return rule


def boolean(source: pa.DataType, kind: ChType) -> Rule | None:
    """Bool from booleans, integers 0 and 1, and the text true or false."""
    if kind.name != "Bool":
        return None
    if pa.types.is_boolean(source):
        return Rule(wire=source)
    if pa.types.is_integer(source):
        return Rule(wire=pa.bool_(), convert=_bit)
    return _from_text(source, pa.bool_(), "text that is neither true nor false")


def decimal(source: pa.DataType, kind: ChType) -> Rule | None:
    """Decimal(P, S) from decimals, integers and text that fit without rounding. Floats never: they would be rounded."""
    if kind.name != "Decimal":
        return None
    digits, scale = kind.numbers
    wire = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    problem = f"a number that {kind} cannot hold without loss"
    if source == wire:
        return Rule(wire=wire)
    if pa.types.is_integer(source):
        whole = pa.decimal128(20, 0)  # holds every 64 bit integer
        return Rule(wire=wire, convert=lambda array: cast(array.cast(_widest(source)).cast(whole), wire, problem))
    if pa.types.is_decimal(source):
        return Rule(wire=wire, convert=caster(wire, problem))
    return _from_text(source, wire, f"text that is not a number of {kind}, or has more digits")


def _from_text(source: pa.DataType, wire: pa.DataType, problem: str) -> Rule | None:
    if not is_text(source):
        return None
    return Rule(wire=wire, convert=lambda array: cast(plain_text(array), wire, problem))


def _widest(source: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_signed_integer(source) else pa.uint64()


def _float(source: pa.DataType, wire: pa.DataType, name: str) -> Rule | None:
    if source == wire:
        return Rule(wire=wire)
    if pa.types.is_floating(source):
        widens = source.bit_width < wire.bit_width
        return Rule(wire=wire, convert=(lambda array: array.cast(wire)) if widens else _narrow(wire, name))
    if pa.types.is_integer(source):
        return Rule(wire=wire, convert=caster(wire, f"an integer that {name} cannot hold exactly"))
    rule = _from_text(source, wire, f"text that is not a number of {name}")
    return rule.after(_finite) if rule is not None else None


def _narrow(wire: pa.DataType, name: str) -> Convert:
    """float64 → float32 where it is exact; NaN stays NaN."""

    def convert(array: pa.Array) -> pa.Array:
        narrow = array.cast(wire, safe=False)
        changed = pc.and_(pc.not_equal(narrow.cast(array.type), array), pc.invert(pc.is_nan(array)))
        refuse_where(changed, f"a number that {name} cannot hold exactly")
        return narrow

    return convert


def _finite(array: pa.Array) -> pa.Array:
    """Text that spells a finite number beyond float64 would become an infinity."""
    text = plain_text(array)
    values = exact(text, lambda part: part.cast(pa.float64()), "text that is not a number")
    overflow = pc.and_(pc.is_inf(values), pc.match_substring_regex(text, "[0-9]"))
    refuse_where(overflow, "a number beyond Float64")
    return text


def _brain(array: pa.Array) -> pa.Array:
    """float32 whose lower 16 bits are zero is exact in BFloat16; NaN stays NaN."""
    bits = array.view(pa.uint32())
    low = pc.not_equal(pc.bit_wise_and(bits, pa.scalar(0xFFFF, pa.uint32())), pa.scalar(0, pa.uint32()))
    refuse_where(pc.and_(low, pc.invert(pc.is_nan(array))), "a number that BFloat16 cannot hold exactly")
    return array


def _bit(array: pa.Array) -> pa.Array:
    zero, one = pa.scalar(0, array.type), pa.scalar(1, array.type)
    refuse_where(
        pc.invert(pc.or_(pc.equal(array, zero), pc.equal(array, one))), "a number that is neither 0 nor 1 for Bool"
    )
    return pc.equal(array, one)


def _wide(source: pa.DataType, kind: ChType, bounds: tuple[int, int], width: int) -> Rule | None:
    """128 and 256 bit integers travel as little-endian bytes."""
    wire, signed = pa.binary(width), not kind.name.startswith("U")
    whole: Callable[[Any], int | None]
    if pa.types.is_integer(source):
        if signed or pa.types.is_unsigned_integer(source):
            return Rule(wire=wire, convert=lambda array: _extended(array, wire))
        whole = int
    elif pa.types.is_decimal(source):
        whole = _whole_decimal
    elif is_text(source):
        whole = _whole_text
    else:
        return None

    def convert(array: pa.Array) -> pa.Array:
        words: list[bytes | None] = []
        for index, value in enumerate(array.to_pylist()):
            number = whole(value) if value is not None else 0
            if number is None or not bounds[0] <= number <= bounds[1]:
                raise Misfit(f"a value that is not a number of {kind.name}", index)
            words.append(number.to_bytes(width, "little", signed=signed) if value is not None else None)
        return pa.array(words, wire)

    return Rule(wire=wire, convert=convert)


def _extended(array: pa.Array, wire: pa.DataType) -> pa.Array:
    """64 bit integers, sign-extended."""
    filled = array.fill_null(0) if array.null_count else array
    values = filled.cast(_widest(array.type)).to_numpy()
    words = np.empty((len(values), wire.byte_width // 8), np.uint64)
    words[:, 0] = values.view(np.uint64)
    words[:, 1:] = np.where(values < 0, np.uint64(2**64 - 1), np.uint64(0))[:, None]
    return from_words(wire, words, array)


def _whole_decimal(value: Any) -> int | None:
    return int(value) if value == value.to_integral_value() else None


def _whole_text(value: str) -> int | None:
    return int(value) if len(value) <= 100 and _WHOLE.fullmatch(value) else None
