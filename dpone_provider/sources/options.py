"""Authored options of file sources, checked: an unknown one or one of the wrong kind is refused."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Any

from dpone_provider.errors import DponeError

BLOCK_SIZE = 1 << 20
"""Bytes of CSV or JSON text parsed at once. Arrow reads up to 32 blocks ahead, so memory is about 40 of them."""
BATCH_ROWS = 65_536

Check = Callable[[Any], bool]


def _character(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n"


def _flag(value: Any) -> bool:
    return type(value) is bool


def _whole(least: int, most: int) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _names(value: Any) -> bool:
    return _texts(value) and len(value) > 0 and all(value) and len(set(value)) == len(value)


def _encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value))
    except LookupError:
        return False


_BLOCK = (_whole(1 << 10, 1 << 30), "bytes from 1024 to 1073741824")
_CHARACTER = (_character, "one ASCII character")
_FLAG = (_flag, "true or false")
_TEXTS = (_texts, "a list of strings")
_NAMES = (_names, "a list of different column names")
_ROWS = (_whole(1, 1 << 20), "rows from 1 to 1048576")
_KNOWN: dict[str, dict[str, tuple[Check, str]]] = {
    "csv": {
        "delimiter": _CHARACTER,
        "quote_char": _CHARACTER,
        "escape_char": _CHARACTER,
        "decimal_point": _CHARACTER,
        "double_quote": _FLAG,
        "newlines_in_values": _FLAG,
        "strings_can_be_null": _FLAG,
        "header": _FLAG,
        "skip_rows": (_whole(0, 1_000_000), "an integer from 0 to 1000000"),
        "encoding": (_encoding, "the name of an encoding"),
        "column_names": _NAMES,
        "null_values": _TEXTS,
        "true_values": _TEXTS,
        "false_values": _TEXTS,
        "timestamp_formats": _TEXTS,
        "block_size": _BLOCK,
    },
    "jsonl": {"newlines_in_values": _FLAG, "block_size": _BLOCK},
    "parquet": {"columns": _NAMES, "batch_rows": _ROWS},
    "arrow": {"columns": _NAMES, "batch_rows": _ROWS},
    "clickhouse": {},
}


def checked_options(form: str, options: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    """The options by name. Raises ``DponeError`` DPONE_SOURCE_INVALID naming the option and what it may be."""
    known = _KNOWN[form]
    for name, value in options:
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            raise DponeError(
                "DPONE_SOURCE_INVALID",
                f"source.options has the unknown option {name!r} for {form}.",
                remedy=f"Known options: {allowed}.",
            )
        check, words = known[name]
        if not check(value):
            raise DponeError(
                "DPONE_SOURCE_INVALID",
                f"source.options.{name} must be {words}.",
                remedy=f"Correct source.options.{name}.",
            )
    found = dict(options)
    if found.get("header") is False and "column_names" not in found:
        raise DponeError(
            "DPONE_SOURCE_INVALID",
            "A CSV without a header needs source.options.column_names.",
            remedy="List the columns in source.options.column_names.",
        )
    return found
