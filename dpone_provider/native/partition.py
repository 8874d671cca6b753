"""Transfer partitions: what each one reads, the identity that its checkpoints are found by, and their planning (N1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Literal, TypeVar

import attrs

from dpone_provider import canonical
from dpone_provider.errors import DponeError

Kind = Literal["integer", "date", "text"]
Value = int | date | str
MOST = 1_000
_EPOCH = date(1970, 1, 1)
_Part = TypeVar("_Part", bound="Part")


def read_value(text: str, kind: Kind) -> Value:
    """The value of a bound: an int, a date (``YYYY-MM-DD``) or the text. Raises ``ValueError`` for any other form."""
    if kind == "text":
        return text
    value: Value = int(text) if kind == "integer" else date.fromisoformat(text)
    if str(value) != text:
        raise ValueError(f"not the plain form of a value of kind {kind}")
    return value


@attrs.frozen(kw_only=True)
class Span:
    """The rows whose ``column`` is in the half-open ``[low, high)``; None = open on that side. No NULL is in it.

    The bounds are texts: a whole number or ``YYYY-MM-DD``. Raises ``ValueError`` for another form or an empty span.
    """

    column: str
    low: str | None
    high: str | None
    kind: Literal["integer", "date"]

    def __attrs_post_init__(self) -> None:
        low, high = self.values
        if low is not None and high is not None and not low < high:  # type: ignore[operator]
            raise ValueError("a span must end after it starts")

    @property
    def values(self) -> tuple[Value | None, Value | None]:
        """The bounds as numbers or dates."""
        return (
            None if self.low is None else read_value(self.low, self.kind),
            None if self.high is None else read_value(self.high, self.kind),
        )


@attrs.frozen(kw_only=True)
class OneOf:
    """The rows whose ``column`` is ``value``, a text as in ``Span``. Raises ``ValueError`` for another form."""

    column: str
    value: str
    kind: Kind

    def __attrs_post_init__(self) -> None:
        read_value(self.value, self.kind)

    @property
    def typed(self) -> Value:
        """The value as a number, date or text."""
        return read_value(self.value, self.kind)


@attrs.frozen(kw_only=True)
class FilePart:
    """The rows of one file."""

    path: str


Part = Span | OneOf | FilePart


@attrs.frozen(kw_only=True)
class TransferPartition:
    """A part and the identity of its checkpoints: 64 hex, equal only where the same rows mean the same load."""

    part: Part
    partition_id: str


@attrs.frozen(kw_only=True)
class PartitionContext:
    """What a partition's identity stands for beside its bounds: digests or names, never secrets."""

    query_hash: str
    schema_hash: str
    source: str
    strategy: str
    target: str

    def partitions(self, parts: Iterable[Part]) -> tuple[TransferPartition, ...]:
        """The parts with their identities, in order. Raises DPONE_PARTITIONS for too many or a double."""
        made = tuple(TransferPartition(part=part, partition_id=self.identity(part)) for part in parts)
        _bounded(len(made))
        if len({each.partition_id for each in made}) != len(made):
            raise DponeError("DPONE_PARTITIONS", "Two partitions are the same.")
        return made

    def identity(self, part: Part) -> str:
        """The partition's id."""
        return canonical.digest({**attrs.asdict(self), "bounds": {"by": type(part).__name__, **attrs.asdict(part)}})


def plan_range(column: str, size: int, lowest: int | date | None, highest: int | date | None) -> tuple[Span, ...]:
    """Spans of ``size`` numbers or days that cover ``lowest`` to ``highest``; none where there is no row (None).

    They lie on a grid of multiples of ``size`` (of days since 1970-01-01), so that a row is in the same span whatever
    else the source holds. Raises ``DponeError`` DPONE_PARTITIONS for more than 1,000, or dates beyond the calendar.
    """
    if size < 1:
        raise DponeError("DPONE_PARTITIONS", "The size of a partition is less than one.")
    if lowest is None or highest is None:
        return ()
    kind: Literal["integer", "date"] = "date" if isinstance(lowest, date) else "integer"
    first, last = _step(lowest) // size, _step(highest) // size
    _bounded(last - first + 1)
    try:
        cuts = [_text(number * size, kind) for number in range(first, last + 2)]
    except OverflowError:
        raise DponeError("DPONE_PARTITIONS", "A partition would end outside the calendar: choose bounds.") from None
    return tuple(Span(column=column, low=low, high=high, kind=kind) for low, high in pairwise(cuts))


def plan_bounds(column: str, bounds: Sequence[int | date]) -> tuple[Span, ...]:
    """``n`` growing cuts make ``n + 1`` spans, the outer ones open. Raises ``DponeError`` DPONE_PARTITIONS."""
    if not bounds or any(low >= high for low, high in pairwise(bounds)):  # type: ignore[operator]
        raise DponeError("DPONE_PARTITIONS", "The bounds must grow, and there must be one.")
    kind: Literal["integer", "date"] = "date" if isinstance(bounds[0], date) else "integer"
    _bounded(len(bounds) + 1)
    cuts = [None, *(str(bound) for bound in bounds), None]
    return tuple(Span(column=column, low=low, high=high, kind=kind) for low, high in pairwise(cuts))


def plan_list(column: str, values: Iterable[Value]) -> tuple[OneOf, ...]:
    """A partition for each value, in order. Raises ``DponeError`` DPONE_PARTITIONS for none, too many or a double."""
    return _distinct(values, lambda value: OneOf(column=column, value=str(value), kind=_kind(value)))


def plan_files(paths: Iterable[str]) -> tuple[FilePart, ...]:
    """A partition for each file, sorted. Raises ``DponeError`` DPONE_PARTITIONS for none, too many or a double."""
    return _distinct(sorted(paths), lambda path: FilePart(path=path))


def _distinct(values: Iterable[Any], make: Callable[[Any], _Part]) -> tuple[_Part, ...]:
    parts = tuple(make(value) for value in values)
    _bounded(len(parts))
    if not parts or len(set(parts)) != len(parts):
        raise DponeError("DPONE_PARTITIONS", "Two partitions are the same." if parts else "There is no partition.")
    return parts


def _bounded(count: int) -> None:
    if count > MOST:
        raise DponeError("DPONE_PARTITIONS", f"There would be {count} partitions; at most {MOST} are made.")


def _kind(value: Value) -> Kind:
    return "text" if isinstance(value, str) else "date" if isinstance(value, date) else "integer"


def _step(value: int | date) -> int:
    return (value - _EPOCH).days if isinstance(value, date) else value


def _text(step: int, kind: str) -> str:
    return str(_EPOCH + timedelta(days=step)) if kind == "date" else str(step)
