"""Canonical JSON and digests (protocol, first section): the one byte form of every stored value.

Sorted keys, separators ``,`` and ``:``, ASCII escapes, no NaN or Infinity, duplicate keys refused, integers exact up to
2**64-1 in size, ``bool`` never an integer. A stored string must equal its own canonical form.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAX_INTEGER = 2**64 - 1


class NotCanonical(ValueError):
    """The text is not JSON, or not the canonical form of the value it holds."""


def encode(value: Any) -> str:
    """The canonical text of a JSON value. Raises ``NotCanonical`` for anything JSON cannot say exactly."""
    _check(value)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise NotCanonical("value cannot be written as canonical JSON") from error


def digest(value: Any) -> str:
    """SHA-256 over the canonical text: 64 lowercase hex characters."""
    return text_digest(encode(value))


def text_digest(text: str) -> str:
    """SHA-256 over a text's UTF-8 bytes: 64 lowercase hex characters."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def decode(text: str, *, max_bytes: int) -> Any:
    """The value of a canonical text. Raises ``NotCanonical`` when it is too large, malformed or not canonical."""
    if not isinstance(text, str) or len(text) > max_bytes:
        raise NotCanonical("text is over its size limit")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotCanonical("text is not strict JSON") from error
    if encode(value) != text:
        raise NotCanonical("text is not in canonical form")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise NotCanonical("duplicate key")
    return result


def _refuse(name: str) -> Any:
    raise NotCanonical(f"{name} is not JSON")


def _check(value: Any) -> None:
    if type(value) is int:
        if abs(value) > MAX_INTEGER:
            raise NotCanonical("integer over 2^64-1")
    elif isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise NotCanonical("keys must be strings")
            _check(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check(item)
    elif value is not None and type(value) not in (str, bool, float):
        raise NotCanonical("not a JSON value")
