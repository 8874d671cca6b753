"""Plain YAML scalars by the YAML 1.2 core schema, made stricter: a number with a leading zero stays text (M12, B24)."""

from __future__ import annotations

import math
import re

from dpone_provider.canonical import MAX_INTEGER

Value = None | bool | int | float | str

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCT = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_DIGITS = 400
_PREFIX = "tag:yaml.org,2002:"
TEXT_TAGS = frozenset({"!", _PREFIX + "str"})
SCALAR_TAGS = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float"))


class BadNumber(ValueError):
    """A number that cannot be held exactly: not finite, or larger than 2^64-1."""


class BadTag(ValueError):
    """A tag that we do not read, or a value that is not what its tag says."""


def resolve(text: str) -> Value:
    """The value of an untagged plain scalar. Raises ``BadNumber``."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "-+.0123456789":
        return text
    if _NON_FINITE.fullmatch(text):
        raise BadNumber("a number must be finite")
    if _INT.fullmatch(text):
        return _integer(text, 10)
    if _OCT.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEX.fullmatch(text):
        return _integer(text[2:], 16)
    return _float(text) if _FLOAT.fullmatch(text) else text


def tagged(text: str, tag: str) -> Value:
    """The value of a scalar with an explicit tag: ``!``, ``!!str``, ``!!null``, ``!!bool``, ``!!int``, ``!!float``.

    Raises ``BadTag`` (binary, set, timestamp and every unknown one too) and ``BadNumber``.
    """
    if tag in TEXT_TAGS:
        return text
    if tag not in SCALAR_TAGS:
        raise BadTag("this tag is not read")
    value = resolve(text)
    kinds: dict[str, tuple[type, ...]] = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (float, int)}
    if type(value) not in kinds[tag.removeprefix(_PREFIX)]:
        raise BadTag("the value is not what its tag says")
    return float(value) if tag.endswith("float") and isinstance(value, int) else value


def _integer(text: str, base: int) -> int:
    if len(text) > _DIGITS:
        raise BadNumber("an integer must be at most 2^64-1")
    value = int(text, base)
    if abs(value) > MAX_INTEGER:
        raise BadNumber("an integer must be at most 2^64-1")
    return value


def _float(text: str) -> float:
    if len(text) > _DIGITS:
        raise BadNumber("a number must be short enough to be exact")
    value = float(text)
    if not math.isfinite(value):
        raise BadNumber("a number must be finite")
    return value
