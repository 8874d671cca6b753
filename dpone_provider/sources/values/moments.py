"""Dates and times.

A timestamp without a zone is a clock reading in UTC; for a column with another zone it is refused, because it could be
meant as that zone's clock. A timestamp with a zone is an instant and is stored as that instant.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from dpone_provider.clickhouse.types import ChType
from dpone_provider.sources.values.rule import (
    Convert,
    Misfit,
    NoFit,
    Rule,
    bounded,
    cast,
    exact,
    is_text,
    plain_text,
    refuse_where,
)

UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal", "UCT"})
_FIRST_SECOND, _LAST_SECOND = -2_208_988_800, 10_413_791_999  # 1900-01-01 00:00:00, 2299-12-31 23:59:59
_DAYS = {"Date": (0, 65_535, "1970-01-01 to 2149-06-06"), "Date32": (-25_567, 120_529, "1900-01-01 to 2299-12-31")}
_UNITS = ("s", "ms", "ms", "ms", "us", "us", "us", "ns", "ns", "ns")
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def date(source: pa.DataType, kind: ChType) -> Rule | None:
    """Date and Date32 from dates, timestamps at midnight without a zone (or in UTC) and ISO text."""
    if kind.name not in _DAYS:
        return None
    least, most, words = _DAYS[kind.name]
    problem = f"a date outside {words} ({kind.name})"
    days = _days(source)
    if days is None:
        return None

    def convert(array: pa.Array) -> pa.Array:
        found = days(array)
        bounded(found.view(pa.int32()), least, most, problem)
        return found

    return Rule(wire=pa.date32(), convert=convert)


def moment(source: pa.DataType, kind: ChType) -> Rule | None:
    """DateTime and DateTime64 from timestamps, dates (midnight UTC) and ISO text."""
    if kind.name == "DateTime":
        unit, digits, ends = "s", 0, (0, 2**32 - 1)
        words = "1970-01-01 to 2106-02-07 06:28:15"
    elif kind.name == "DateTime64":
        digits = kind.numbers[0]
        unit = _UNITS[digits]
        tick = 10 ** _DIGITS[unit]
        ends = (_FIRST_SECOND * tick, min(_LAST_SECOND * tick + tick - 1, 2**63 - 1))
        words = "1900-01-01 to 2299-12-31" if unit != "ns" else "1900-01-01 to 2262-04-11"
    else:
        return None
    wire = pa.timestamp(unit, "UTC")
    instants = _instants(source, kind, wire, f"a moment outside {words}, or with more digits than {kind} keeps")
    if instants is None:
        return None
    coarse = 10 ** (_DIGITS[unit] - digits)

    def convert(array: pa.Array) -> pa.Array:
        found = instants(array)
        ticks = bounded(found.view(pa.int64()), *ends, f"a moment outside {words} ({kind.name})")
        if coarse > 1:
            step = pa.scalar(coarse, pa.int64())
            rest = pc.subtract(ticks, pc.multiply(pc.divide(ticks, step), step))
            refuse_where(pc.not_equal(rest, pa.scalar(0, pa.int64())), f"a moment with more digits than {kind} keeps")
        return found

    return Rule(wire=wire, convert=convert)


def time_of_day(source: pa.DataType, kind: ChType) -> Rule | None:
    """Time and Time64 from Arrow times."""
    if kind.name not in ("Time", "Time64") or not pa.types.is_time(source):
        return None
    problem = f"a time with more digits than {kind} keeps"
    if kind.name == "Time":
        return Rule(wire=pa.int32(), convert=lambda array: cast(_time(array, "s", problem), pa.int32(), problem))
    digits = kind.numbers[0]
    unit = _UNITS[digits]
    coarse = 10 ** (_DIGITS[unit] - digits)

    def convert(array: pa.Array) -> pa.Array:
        found = _time(array, unit, problem)
        ticks = found.view(pa.int32() if found.type.bit_width == 32 else pa.int64()).cast(pa.int64())
        step = pa.scalar(coarse, pa.int64())
        rest = pc.subtract(ticks, pc.multiply(pc.divide(ticks, step), step))
        refuse_where(pc.not_equal(rest, pa.scalar(0, pa.int64())), problem)
        return found

    return Rule(wire=pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit), convert=convert)


def _days(source: pa.DataType) -> Convert | None:
    """A step from the source to date32."""
    if pa.types.is_date32(source):
        return lambda array: array
    if pa.types.is_date64(source):
        return lambda array: cast(array, pa.date32(), "a date with a time of day")
    if pa.types.is_timestamp(source):
        if source.tz is not None and source.tz not in UTC_NAMES:
            raise NoFit("a timestamp with a time zone has no date of its own")
        return _midnight
    if is_text(source):
        return lambda array: cast(plain_text(array), pa.date32(), "text that is not a date like 2024-12-31")
    return None


def _midnight(array: pa.Array) -> pa.Array:
    days = array.cast(pa.date32())  # drops the time of day without a word
    back = days.cast(pa.timestamp("s"))
    naive = array.cast(pa.timestamp(array.type.unit))
    same = exact(naive, lambda part: part.cast(pa.timestamp("s")), "a date with a time of day")
    refuse_where(pc.not_equal(back, same), "a date with a time of day")
    return days


def _instants(source: pa.DataType, kind: ChType, wire: pa.DataType, problem: str) -> Convert | None:
    """A step from the source to timestamps in UTC of the wire's unit."""
    zoned = kind.zone is not None and kind.zone not in UTC_NAMES
    if pa.types.is_timestamp(source):
        if source.tz is None and zoned:
            raise NoFit(
                f"timestamps without a zone are ambiguous in {kind}; use DateTime('UTC') or give them an offset"
            )
        return (lambda array: array) if source == wire else (lambda array: cast(array, wire, problem))
    if pa.types.is_date(source):
        if zoned:
            raise NoFit(f"dates have no clear instant in {kind}")
        return lambda array: cast(array.cast(pa.date32()).cast(pa.timestamp("s")), wire, problem)
    if is_text(source):
        return _spelled(kind, wire, zoned)
    return None


def _spelled(kind: ChType, wire: pa.DataType, zoned: bool) -> Convert:
    """ISO text, in one array either all with a zone offset or all without."""
    naive = pa.timestamp(wire.unit)
    problem = f"text that is not a date and time of {kind} (ISO, all with or all without an offset)"

    def attempt(array: pa.Array) -> pa.Array:
        try:
            return array.cast(wire)
        except pa.ArrowInvalid:
            return array.cast(naive)

    def convert(array: pa.Array) -> pa.Array:
        found = exact(plain_text(array), attempt, problem)
        if found.type.tz is None and zoned and found.null_count < len(found):
            raise Misfit(f"a time without a zone offset, ambiguous in {kind}", _first_valid(found))
        return found.cast(wire)

    return convert


def _first_valid(array: pa.Array) -> int:
    return int(pc.index(pc.is_valid(array), pa.scalar(True)).as_py())


def _time(array: pa.Array, unit: str, problem: str) -> pa.Array:
    make: Callable[[str], pa.DataType] = pa.time32 if unit in ("s", "ms") else pa.time64
    return array if array.type == make(unit) else cast(array, make(unit), problem)
