"""The parts that every conversion is made of: a rule, a misfit, and how a misfit's place is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

Convert = Callable[[pa.Array], pa.Array]


class NoFit(Exception):
    """No value of the source's type can be stored in the column. ``problem`` goes on after "cannot be stored:"."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class Misfit(Exception):
    """A value that the column cannot hold exactly. ``index``: its place in the array that was converted."""

    def __init__(self, problem: str, index: int) -> None:
        self.problem = problem
        self.index = index
        super().__init__(problem)


@attrs.frozen(kw_only=True)
class Rule:
    """``wire``: the Arrow type that goes to the server. ``convert``: makes it, None when the source's array is it.

    ``convert`` raises ``Misfit``; what it returns is as long as what it was given, with the same nulls.
    """

    wire: pa.DataType
    convert: Convert | None = None

    def after(self, first: Convert) -> Rule:
        """This rule behind another step."""
        then = self.convert
        return Rule(wire=self.wire, convert=first if then is None else lambda array: then(first(array)))


def first_true(mask: pa.Array) -> int | None:
    """The index of the first True, None when there is none; nulls count as False."""
    found = pc.index(mask, pa.scalar(True)).as_py()
    return None if found < 0 else int(found)


def refuse_where(mask: pa.Array, problem: str) -> None:
    """Raise ``Misfit`` at the first True."""
    index = first_true(mask)
    if index is not None:
        raise Misfit(problem, index)


def refuse_nulls(array: pa.Array) -> None:
    """Raise ``Misfit`` at the first null."""
    if array.null_count:
        refuse_where(pc.is_null(array), "NULL in a column that is not Nullable")


def bounded(array: pa.Array, least: int, most: int, problem: str) -> pa.Array:
    """The integer array, when every value is within the bounds."""
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and (low < least or high > most):
        kind = array.type
        below = pc.less(array, pa.scalar(least, kind)) if low < least else None
        above = pc.greater(array, pa.scalar(most, kind)) if high > most else None
        refuse_where(below if above is None else above if below is None else pc.or_(below, above), problem)
    return array


def exact(array: pa.Array, attempt: Convert, problem: str) -> pa.Array:
    """``attempt(array)``, whose ``ArrowInvalid`` becomes a ``Misfit`` at the first value that fails."""
    try:
        return attempt(array)
    except pa.ArrowInvalid:
        raise Misfit(problem, _first_failure(array, attempt)) from None


def cast(array: pa.Array, kind: pa.DataType, problem: str) -> pa.Array:
    """Arrow's safe cast, which refuses what it knows to lose."""
    return exact(array, lambda part: part.cast(kind), problem)


def caster(kind: pa.DataType, problem: str) -> Convert:
    """``cast`` as a step."""
    return lambda array: cast(array, kind, problem)


def is_text(kind: pa.DataType) -> bool:
    """Arrow's kinds of UTF-8 text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Arrow's kinds of byte strings, fixed width included."""
    variable = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(variable or pa.types.is_fixed_size_binary(kind))


def plain_text(array: pa.Array) -> pa.Array:
    """Text of any kind as Arrow's plain string."""
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def from_words(kind: pa.DataType, words: Any, nulls_of: pa.Array) -> pa.Array:
    """A fixed-width array over a numpy buffer of ``len(nulls_of)`` values, with the nulls of another array."""
    valid = None
    if nulls_of.null_count:
        valid = pa.array(pc.is_valid(nulls_of).to_numpy(zero_copy_only=False)).buffers()[1]
    return pa.Array.from_buffers(kind, len(nulls_of), [valid, pa.py_buffer(words)])


def _first_failure(array: pa.Array, attempt: Convert) -> int:
    """The index of the value that makes ``attempt`` fail, by halving."""
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        try:
            attempt(array.slice(start, half))
        except pa.ArrowInvalid:
            length = half
        else:
            start, length = start + half, length - half
    return start
