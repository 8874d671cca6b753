"""Strings and what is spelled as one: FixedString, Enum, UUID, IPv4, IPv6, JSON."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType
from dpone_provider.sources.values.rule import Rule, from_words, is_bytes, is_text, plain_text, refuse_where

T = TypeVar("T")
_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_NIBBLE = np.zeros(256, np.uint8)
for _digits in ("0123456789abcdef", "0123456789ABCDEF"):
    _NIBBLE[np.frombuffer(_digits.encode(), np.uint8)] = np.arange(16, dtype=np.uint8)


def string(source: pa.DataType, kind: ChType) -> Rule | None:
    """String from text and bytes, as they are. Never from numbers or dates: their original spelling is lost by then."""
    if kind.name != "String":
        return None
    return Rule(wire=source) if is_text(source) or is_bytes(source) else None


def json(source: pa.DataType, kind: ChType) -> Rule | None:
    """JSON from text; the server parses it."""
    return Rule(wire=source) if kind.name == "JSON" and is_text(source) else None


def fixed_string(source: pa.DataType, kind: ChType) -> Rule | None:
    """FixedString(N) from at most N bytes; shorter values are filled with zero bytes, as the server does."""
    if kind.name != "FixedString" or not (is_text(source) or is_bytes(source)):
        return None
    width = kind.numbers[0]
    wire = pa.binary(width)
    if source == wire:
        return Rule(wire=wire)

    def convert(array: pa.Array) -> pa.Array:
        plain = array.cast(pa.binary())
        lengths = pc.binary_length(plain).cast(pa.int64())
        refuse_where(pc.greater(lengths, pa.scalar(width, pa.int64())), f"a value longer than FixedString({width})")
        filling = pc.binary_repeat(pa.scalar(b"\0"), pc.subtract(pa.scalar(width, pa.int64()), lengths))
        return pc.binary_join_element_wise(plain, filling, pa.scalar(b"")).cast(wire)

    return Rule(wire=wire, convert=convert)


def enum(source: pa.DataType, kind: ChType) -> Rule | None:
    """Enum8 and Enum16 from names, or from their numbers."""
    if kind.name not in ("Enum8", "Enum16"):
        return None
    wire = pa.int8() if kind.name == "Enum8" else pa.int16()
    numbers = pa.array(kind.numbers, pa.int16())
    if pa.types.is_integer(source):
        known = pa.array([number for number in kind.numbers if _holds(source, number)], source)

        def from_number(array: pa.Array) -> pa.Array:
            stranger = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, value_set=known)))
            refuse_where(stranger, f"a number that {kind.name} does not have")
            return array.cast(wire)

        return Rule(wire=wire, convert=from_number)
    if not is_text(source):
        return None
    names = pa.array(kind.labels, pa.string())

    def from_name(array: pa.Array) -> pa.Array:
        places = pc.index_in(plain_text(array), value_set=names)
        refuse_where(pc.and_(pc.is_null(places), pc.is_valid(array)), f"a name that {kind.name} does not have")
        return numbers.take(places).cast(wire)

    return Rule(wire=wire, convert=from_name)


def uuid(source: pa.DataType, kind: ChType) -> Rule | None:
    """UUID from 16 bytes in their usual order, or from text with hyphens."""
    wire = pa.binary(16)
    if kind.name != "UUID":
        return None
    if source == wire:
        return Rule(wire=wire)
    return Rule(wire=wire, convert=_uuid_bytes) if is_text(source) else None


def address(source: pa.DataType, kind: ChType) -> Rule | None:
    """IPv4 from its number, IPv6 from its 16 bytes, both from text."""
    if kind.name not in ("IPv4", "IPv6"):
        return None
    wire = pa.uint32() if kind.name == "IPv4" else pa.binary(16)
    if source == wire:
        return Rule(wire=wire)
    if not is_text(source):
        return None
    parse = _ipv4 if kind.name == "IPv4" else _ipv6

    def convert(array: pa.Array) -> pa.Array:
        coded = plain_text(array).dictionary_encode()
        parsed = [parse(text) for text in coded.dictionary.to_pylist()]
        found = pa.array(parsed, wire).take(coded.indices)
        refuse_where(pc.and_(pc.is_null(found), pc.is_valid(array)), f"text that is not an {kind.name} address")
        return found

    return Rule(wire=wire, convert=convert)


def _holds(source: pa.DataType, number: int) -> bool:
    """Whether an integer type has this number."""
    bits = source.bit_width
    least, most = (0, 2**bits) if pa.types.is_unsigned_integer(source) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return bool(least <= number < most)


def _uuid_bytes(array: pa.Array) -> pa.Array:
    text = plain_text(array)
    refuse_where(pc.invert(pc.match_substring_regex(text, _UUID)), "text that is not a UUID")
    digits = pc.replace_substring(text, "-", "")
    filled = digits.fill_null("0" * 32) if digits.null_count else digits
    fixed = filled.cast(pa.binary(32))
    codes = np.frombuffer(fixed.buffers()[1], np.uint8)[fixed.offset * 32 : (fixed.offset + len(fixed)) * 32]
    nibbles = _NIBBLE[codes]
    return from_words(pa.binary(16), (nibbles[0::2] << 4) | nibbles[1::2], array)


def _ipv4(text: str) -> int | None:
    return _parsed(lambda: int(ipaddress.IPv4Address(text)))


def _ipv6(text: str) -> bytes | None:
    return _parsed(lambda: ipaddress.IPv6Address(text).packed) if "%" not in text else None


def _parsed(parse: Callable[[], T]) -> T | None:
    try:
        return parse()
    except ValueError:
        return None
