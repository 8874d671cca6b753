"""ClickHouse type text as a small tree, and back: pure, no driver, no Arrow.

Names are ClickHouse's own canonical ones (``Int32``, not ``INT``). ``JSON`` is opaque: its parameters are kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from dpone_provider.clickhouse import quote

_INTEGERS = {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256)}
_PLAIN = frozenset(
    _INTEGERS | {"Float32", "Float64", "BFloat16", "Bool", "String", "Date", "Date32", "UUID", "IPv4", "IPv6", "Time"}
)
_DECIMAL_DIGITS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_ENUM_BITS = {"Enum8": 8, "Enum16": 16}
_NOT_NULLABLE = frozenset({"Nullable", "LowCardinality", "Array", "Map", "Tuple"})
_DEPTH = 32

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.|'')*')|(?P<quoted>`(?:[^`\\]|\\.)*`)
      |(?P<number>-?\d+)|(?P<word>[A-Za-z_][\w.]*)|(?P<mark>[(),=]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class UnknownType(ValueError):
    """The text is not a type that this version knows. The message is safe to show after the column's name."""


@attrs.frozen(kw_only=True)
class ChType:
    """One type: ``name`` and ``args``.

    ``args`` are types (Nullable, LowCardinality, Array, Map, Tuple), numbers (FixedString length; Decimal precision
    and scale; DateTime64 and Time64 precision; Enum values) or texts (time zone; the raw parameters of JSON).
    ``labels``: names of an Enum's values or of a Tuple's elements (empty for an unnamed Tuple), as ``args``.
    """

    name: str
    args: tuple[ChType | int | str, ...] = ()
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The canonical text, as the server writes it."""
        if not self.args:
            return self.name
        parts = [quote.string(arg) if isinstance(arg, str) else str(arg) for arg in self.args]
        if self.name in _ENUM_BITS:
            parts = [f"{quote.string(label)} = {part}" for label, part in zip(self.labels, parts, strict=True)]
        elif self.labels:
            parts = [f"{_label(label)} {part}" for label, part in zip(self.labels, parts, strict=True)]
        elif self.name == "JSON":
            parts = [str(arg) for arg in self.args]
        return f"{self.name}({', '.join(parts)})"

    @property
    def types(self) -> tuple[ChType, ...]:
        """The arguments that are types."""
        return tuple(arg for arg in self.args if isinstance(arg, ChType))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that are numbers."""
        return tuple(arg for arg in self.args if isinstance(arg, int))

    @property
    def zone(self) -> str | None:
        """The time zone of a DateTime or DateTime64, None when it has none."""
        return next((arg for arg in self.args if isinstance(arg, str)), None)

    @property
    def nullable(self) -> bool:
        """Whether a value can be NULL: Nullable(T), LowCardinality(Nullable(T))."""
        return self.name == "Nullable" or (self.name == "LowCardinality" and self.types[0].nullable)

    @property
    def base(self) -> ChType:
        """The type without Nullable and LowCardinality around it."""
        return self.types[0].base if self.name in ("Nullable", "LowCardinality") else self


def parse_type(text: str) -> ChType:
    """The tree of a type's text. Raises ``UnknownType`` for a malformed text or a type that is not supported."""
    reader = _Reader(text)
    found = reader.type(0)
    if reader.kind != "end":
        raise UnknownType("has text after its type")
    return found


def integer_bounds(name: str) -> tuple[int, int] | None:
    """Least and greatest value of an integer type, None for another type."""
    if name not in _INTEGERS:
        return None
    bits = int(name.rpartition("Int")[2])
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


class _Reader:
    """A cursor over the tokens; ``kind`` and ``value`` are the token at the cursor."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self.kind, self.value, self._start, self._end = next(self._tokens)

    def _scan(self) -> Iterator[tuple[str, str, int, int]]:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                yield "other", self._text[position], position, position + 1
                position += 1
                continue
            kind = str(match.lastgroup)
            yield kind, match[kind], match.start(kind), match.end()
            position = match.end()
        while True:
            yield "end", "", end, end

    def take(self, kind: str, value: str | None = None) -> str:
        """The token at the cursor, which must be of this kind (and value); moves on."""
        taken = self.value
        if self.kind != kind or (value is not None and taken != value):
            raise UnknownType("is not one well-formed ClickHouse type")
        self.kind, self.value, self._start, self._end = next(self._tokens)
        return taken

    def skip(self, mark: str) -> bool:
        """Move over this mark if it is at the cursor."""
        if self.kind == "mark" and self.value == mark:
            self.take("mark")
            return True
        return False

    def type(self, depth: int) -> ChType:
        name = self.take("word")
        if depth > _DEPTH:
            raise UnknownType("is nested too deeply")
        if name in _PLAIN:
            found = ChType(name=name)
        elif name in ("Nullable", "LowCardinality", "Array", "Map"):
            found = self._wrapper(name, depth)
        elif name == "Tuple":
            found = self._tuple(depth)
        elif name in ("Enum", *_ENUM_BITS):
            found = self._enum(name)
        elif name == "JSON":
            found = self._json()
        else:
            found = self._parameters(name)
        return found

    def _wrapper(self, name: str, depth: int) -> ChType:
        self.take("mark", "(")
        inner = [self.type(depth + 1)]
        if name == "Map":
            self.take("mark", ",")
            inner.append(self.type(depth + 1))
        self.take("mark", ")")
        if name == "Nullable" and inner[0].name in _NOT_NULLABLE:
            raise UnknownType(f"has Nullable around {inner[0].name}, which is not supported")
        return ChType(name=name, args=tuple(inner))

    def _tuple(self, depth: int) -> ChType:
        labels: list[str] = []
        elements: list[ChType] = []
        self.take("mark", "(")
        while not elements or self.skip(","):
            labels += self._element_label()
            elements.append(self.type(depth + 1))
        self.take("mark", ")")
        if labels and len(labels) != len(elements):
            raise UnknownType("has a Tuple with some elements named and some not")
        return ChType(name="Tuple", args=tuple(elements), labels=tuple(labels))

    def _element_label(self) -> list[str]:
        """The name before an element's type, if there is one: ``a Int8``, `` `a b` Int8``."""
        if self.kind == "quoted":
            return [_unquote(self.take("quoted"))]
        following = self._text[self._end :].lstrip()
        if self.kind == "word" and following and (following[0].isalpha() or following[0] == "_"):
            return [self.take("word")]
        return []

    def _enum(self, name: str) -> ChType:
        labels: list[str] = []
        values: list[int] = []
        self.take("mark", "(")
        while not values or self.skip(","):
            labels.append(_unquote(self.take("string")))
            values.append(int(self.take("number")) if self.skip("=") else (values[-1] + 1 if values else 1))
        self.take("mark", ")")
        least, most = min(values), max(values)
        if name == "Enum":
            name = "Enum8" if least >= -128 and most <= 127 else "Enum16"
        edge = 2 ** (_ENUM_BITS[name] - 1)
        if least < -edge or most >= edge or len(set(labels)) != len(labels) or len(set(values)) != len(values):
            raise UnknownType(f"has {name} values that are out of range or stand twice")
        ordered = sorted(zip(values, labels, strict=True))
        return ChType(name=name, args=tuple(value for value, _ in ordered), labels=tuple(label for _, label in ordered))

    def _json(self) -> ChType:
        if not self.skip("("):
            return ChType(name="JSON")
        start, depth = self._start, 1
        while depth:
            if self.kind == "end":
                raise UnknownType("is not one well-formed ClickHouse type")
            depth += {"(": 1, ")": -1}.get(self.value, 0) if self.kind == "mark" else 0
            stop = self._start
            self.take(self.kind)
        return ChType(name="JSON", args=(self._text[start:stop].strip(),))

    def _parameters(self, name: str) -> ChType:
        """A type whose parameters are numbers and a time zone."""
        args: list[int | str] = []
        if self.skip("("):
            while not args or self.skip(","):
                args.append(_unquote(self.take("string")) if self.kind == "string" else int(self.take("number")))
            self.take("mark", ")")
        return _checked(name, tuple(args))


def _checked(name: str, args: tuple[int | str, ...]) -> ChType:
    match name, args:
        case "FixedString", (int(length),) if 0 < length <= 0xFFFFFF:
            return ChType(name=name, args=args)
        case "DateTime", () | (str(),):
            return ChType(name=name, args=args)
        case "DateTime64", (int(digits),) | (int(digits), str()) if 0 <= digits <= 9:
            return ChType(name=name, args=args)
        case "DateTime64" | "Time64", ():
            return ChType(name=name, args=(3,))
        case "Time64", (int(digits),) if 0 <= digits <= 9:
            return ChType(name=name, args=args)
        case "Decimal", (int(digits),) if 0 < digits <= 76:
            return ChType(name=name, args=(digits, 0))
        case "Decimal", (int(digits), int(scale)) if 0 < digits <= 76 and 0 <= scale <= digits:
            return ChType(name=name, args=args)
        case _, (int(scale),) if 0 <= scale <= _DECIMAL_DIGITS.get(name, -1):
            return ChType(name="Decimal", args=(_DECIMAL_DIGITS[name], scale))
    known = name in ("FixedString", "DateTime", "DateTime64", "Time64", "Decimal", *_DECIMAL_DIGITS)
    raise UnknownType(f"has wrong parameters for {name}" if known else f"is of type {name}, which is not supported")


def _label(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else quote.identifier(name)


def _unquote(text: str) -> str:
    """The text between quotes, escapes resolved as ClickHouse does."""
    body = text[1:-1]
    if text[0] == "'":
        body = body.replace("''", "\\'")
    return re.sub(r"\\(.)", lambda match: _ESCAPE.get(match[1], match[1]), body, flags=re.DOTALL)
