"""The typed multiset hash of a table: its form, and the one SELECT that computes it where the rows are stored.

A value is one 64 bit word (``word``), a cell is the word mixed with its column's salt, or the column's constant for
NULL; a row is the mixed sum of its cells, the hash two sums over the rows. Sums wrap at 2^64: the order of rows does
not matter, every duplicate counts. ``sources.words`` makes the same words of Arrow values.

-0.0 and 0.0 are two values, as they are stored; all NaNs are one. The entries of a Map have no order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from dpone_provider import canonical
from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.catalog import only_row
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.types import ChType, UnknownType, parse_type
from dpone_provider.wire import Effect, StatementFailed

Mode = Literal["full", "sample"]
Columns = Sequence[tuple[str, str]]

NAN: Final = 0x7FF8_0000_0000_0001
"""The word of every NaN."""
BUCKETS: Final = 16
"""One row in so many is in a sample."""
LANE: Final = 0x9E37_79B9_7F4A_7C15
SAMPLE: Final = 0xC2B2_AE3D_27D4_EB4F

_WHOLE = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Bool", "Date", "DateTime", "Time", "Enum8", "Enum16", "IPv4"}
)
_WIDE = frozenset({"Int128", "Int256", "UInt128", "UInt256", "UUID", "IPv6"})
_BITS = {"Float32": "reinterpretAsUInt32({0})", "Float64": "reinterpretAsUInt64({0})"}


class NoWord(ValueError):
    """A type whose values have no word."""


@attrs.frozen(kw_only=True)
class Salt:
    """What tells one column, or one part inside a column, from another. ``null``: its cell for NULL."""

    path: tuple[int | str, ...]

    @property
    def value(self) -> int:
        """XORed into the word."""
        return self._constant("value")

    @property
    def null(self) -> int:
        """The cell of NULL."""
        return self._constant("null")

    def inside(self, place: int) -> Salt:
        """The salt of a part: a Tuple's element, an Array's items (0), a Map's keys (0) and values (1)."""
        return Salt(path=(*self.path, place))

    def _constant(self, of: str) -> int:
        text = canonical.encode([of, *self.path])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def salts(columns: Columns) -> tuple[Salt, ...]:
    """One salt a column, of its position and name."""
    return tuple(Salt(path=(position, name)) for position, (name, _) in enumerate(columns))


def hashed_types(columns: Columns) -> tuple[ChType | None, ...]:
    """The columns' types, None where values have no word."""
    return tuple(_hashed_type(text) for _, text in columns)


def key_places(columns: Columns, key: Sequence[str]) -> tuple[int, ...]:
    """Positions of the key's columns, of all columns when it is empty. Raises ``ValueError`` for a stranger."""
    names = [name for name, _ in columns]
    return tuple(map(names.index, key)) if key else tuple(range(len(names)))


def typed_digest(columns: Columns, mode: Mode, key: Sequence[str], counts: Sequence[int]) -> str:
    """64 hex characters. ``counts``: all rows, hashed rows, and the two sums."""
    rows, hashed, *lanes = counts
    return canonical.digest(
        {
            "kind": "typed_multiset_hash",
            "version": 1,
            "columns": [[name, str(parse_type(text))] for name, text in columns],
            "mode": mode,
            "key": list(key) if mode == "sample" else [],
            "rows": rows,
            "hashed": hashed,
            "lanes": lanes,
        }
    )


def staged_hash(
    client: ControlClient,
    database: str,
    name: str,
    columns: Columns,
    *,
    mode: Mode = "full",
    key: Sequence[str] = (),
    replica: str = "",
) -> str | None:
    """The hash of the stored rows, from one SELECT; None when a column's type has no word.

    ``columns``: ``(name, ClickHouse type)`` of all columns to be hashed; ``mode`` and ``key`` as for
    ``sources.typed_hash.MultisetHasher``. Raises ``StatementFailed``.
    """
    kinds = hashed_types(columns)
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    effect = Effect(kind="query", what="hash the generation", replica=replica)
    places = key_places(columns, key) if mode == "sample" else None
    rows = client.query(effect, _select(quote.table(database, name), columns, known, places), settings=pins.READ)
    counts = only_row(rows)
    if len(counts) != 4 or any(type(count) is not int or not 0 <= count < 2**64 for count in counts):
        raise StatementFailed(None, "a hash that is not of UInt64")
    return typed_digest(columns, mode, key, counts)


def _select(table: str, columns: Columns, kinds: Sequence[ChType], sampled: Sequence[int] | None) -> str:
    cells = [
        _cell(kind, f"dpone_g.{quote.identifier(name)}", salt, 0)
        for (name, _), kind, salt in zip(columns, kinds, salts(columns), strict=True)
    ]
    rows, where = "count()", ""
    if sampled is not None:
        rows = f"(SELECT count() FROM {table} AS dpone_g)"
        bucket = f"intHash64(bitXor({_total([cells[place] for place in sampled])}, {SAMPLE}))"
        where = f" WHERE bitAnd({bucket}, {BUCKETS - 1}) = 0"
    hashed = f"SELECT intHash64({_total(cells)}) AS dpone_r FROM {table} AS dpone_g{where}"
    lanes = f"sum(dpone_h.dpone_r), sum(intHash64(bitXor(dpone_h.dpone_r, {LANE})))"
    return f"SELECT {rows}, count(), {lanes} FROM ({hashed}) AS dpone_h"


def _total(cells: Sequence[str]) -> str:
    """Their sum, as a balanced tree: a chain of a thousand would be too deep for the server."""
    if len(cells) == 1:
        return cells[0]
    half = len(cells) // 2
    return f"({_total(cells[:half])} + {_total(cells[half:])})"


def _cell(kind: ChType, x: str, salt: Salt, depth: int) -> str:
    cell = f"intHash64(bitXor({_word(kind.base, x, salt, depth)}, {salt.value}))"
    return f"ifNull({cell}, {salt.null})" if kind.nullable else cell


def _word(kind: ChType, x: str, salt: Salt, depth: int) -> str:
    """The word of ``x``; NULL for NULL."""
    if kind.name in _WHOLE:
        return f"toUInt64({x})"
    if kind.name == "BFloat16":
        return _word(ChType(name="Float32"), f"toFloat32({x})", salt, depth)
    if kind.name in _BITS:
        return f"if(isNaN({x}), {NAN}, toUInt64({_BITS[kind.name].format(x)}))"
    if kind.name in ("String", "FixedString"):
        return f"xxHash64({x})"
    if kind.name in _WIDE or (kind.name == "Decimal" and kind.numbers[0] > 18):
        return f"xxHash64(reinterpretAsFixedString({x}))"
    match kind.name:
        case "Date32":
            return f"toUInt64(toInt32({x}))"
        case "Decimal":
            return f"toUInt64(reinterpretAsInt{32 if kind.numbers[0] <= 9 else 64}({x}))"
        case "DateTime64":
            return f"reinterpretAsUInt64({x})"
        case "Time64":
            return f"reinterpretAsUInt64(reinterpretAsFixedString({x}))"
    return _parts(kind, x, salt, depth)


def _parts(kind: ChType, x: str, salt: Salt, depth: int) -> str:
    item, other = f"dpone_x{depth}", f"dpone_y{depth}"
    if kind.name == "Tuple":
        return _total(
            [
                _cell(inner, f"tupleElement({x}, {place + 1})", salt.inside(place), depth)
                for place, inner in enumerate(kind.types)
            ]
        )
    cells = [
        _cell(inner, name, salt.inside(place), depth + 1)
        for place, (inner, name) in enumerate(zip(kind.types, (item, other), strict=False))
    ]
    if kind.name == "Array":
        return f"arraySum(({item}, {other}) -> intHash64(bitXor({cells[0]}, {other})), {x}, arrayEnumerate({x}))"
    if kind.name == "Map":
        return f"arraySum(({item}, {other}) -> intHash64({cells[0]} + {cells[1]}), mapKeys({x}), mapValues({x}))"
    raise NoWord(str(kind))


def _hashed_type(text: str) -> ChType | None:
    try:
        kind = parse_type(text)
        _cell(kind, "x", Salt(path=()), 0)
    except (UnknownType, NoWord):
        return None
    return kind
