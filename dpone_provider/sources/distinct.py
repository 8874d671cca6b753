"""Exact sets of distinct values in bounded memory.

Values of up to 8 bytes are kept as sorted, unique words in one buffer, whose pages are only touched as it fills; others
as unique Arrow arrays that are merged when the new ones outweigh the old.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from dpone_provider.sources.values.rule import is_bytes, is_text

_STEP: Final = 1 << 20
_FEW: Final = 65_536
_WORDS = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


class Budget:
    """Bytes that all sets of an observer may hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, amount: int) -> bool:
        """Reserve bytes; False when there are not enough."""
        if self.used + amount > self.limit:
            return False
        self.used += amount
        return True

    def give_back(self, amount: int) -> None:
        """Return reserved bytes."""
        self.used -= amount


class DistinctSet(Protocol):
    """A growing set."""

    def add(self, array: pa.Array) -> bool:
        """Add the values; NULLs are none. False when they do not fit: the set is empty and useless then."""

    def count(self) -> int:
        """How many different values were added."""


def distinct_set(kind: pa.DataType, budget: Budget) -> DistinctSet | None:
    """A set for values of this Arrow type, None when they cannot be compared exactly."""
    if pa.types.is_null(kind):
        return _Nothing()
    if pa.types.is_boolean(kind):
        return _Words(pa.uint8(), budget)
    if pa.types.is_primitive(kind) and kind.bit_width in _WORDS:
        return _Words(_WORDS[kind.bit_width], budget)
    if is_text(kind) or is_bytes(kind) or pa.types.is_decimal(kind):
        return _Values(budget)
    return None


class _Nothing:
    def add(self, array: pa.Array) -> bool:
        return True

    def count(self) -> int:
        return 0


class _Words:
    """Bit patterns of fixed-width values; floats are compared by their bits, as ``uniqExact`` does."""

    def __init__(self, word: pa.DataType, budget: Budget) -> None:
        self._word = word
        self._budget = budget
        self._buffer = np.empty(budget.limit // (word.bit_width // 8), word.to_pandas_dtype())
        self._filled = 0
        self._sorted = 0
        self._reserved = 0

    def add(self, array: pa.Array) -> bool:
        values = array.drop_null() if array.null_count else array
        plain = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values.view(self._word)
        words = np.from_dlpack(plain)  # to_numpy would import pandas where it is installed: 0.15 CPU-seconds
        while len(words):
            free = self._places - self._filled
            if free > 0:
                part = words[:free]
                rising = self._rises(part)
                self._buffer[self._filled : self._filled + len(part)] = part
                self._filled += len(part)
                self._sorted = self._filled if rising else self._sorted
                words = words[free:]
            elif not self._make_room():
                self._release()
                return False
        return True

    def count(self) -> int:
        self._compact()
        return self._filled

    @property
    def _places(self) -> int:
        return min(self._reserved // self._buffer.itemsize, len(self._buffer))

    def _rises(self, part: np.ndarray) -> bool:
        """Whether the buffer stays sorted and unique with this part, as for ids that were counted up."""
        if self._filled != self._sorted or (self._filled and part[0] <= self._buffer[self._filled - 1]):
            return False
        return bool((part[1:] > part[:-1]).all())

    def _make_room(self) -> bool:
        """Drop double values when that may pay off, else grow, else drop them all the same."""
        if self._filled - self._sorted >= max(self._sorted, 1):
            self._compact()
            if self._filled <= self._places // 2:
                return True
        if self._budget.take(_STEP):
            self._reserved += _STEP
            return True
        self._compact()
        return self._places - self._filled > self._places // 16

    def _compact(self) -> None:
        """Sort in place and drop double values, piece by piece so that no second buffer is needed."""
        if self._filled == self._sorted:
            return
        words = self._buffer[: self._filled]
        words.sort()
        kept, piece = 1, _STEP // words.itemsize
        for start in range(1, len(words), piece):
            part = words[start : start + piece]
            fresh = part[part != words[start - 1 : start - 1 + len(part)]]
            words[kept : kept + len(fresh)] = fresh
            kept += len(fresh)
        self._filled = self._sorted = kept

    def _release(self) -> None:
        self._budget.give_back(self._reserved)
        self._buffer = self._buffer[:0].copy()
        self._filled = self._sorted = self._reserved = 0


class _Values:
    """Text, bytes and decimals. Merging needs about three times what is kept, so that much is reserved."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: pa.Array | None = None
        self._fresh: list[pa.Array] = []
        self._waiting = 0
        self._reserved = 0

    def add(self, array: pa.Array) -> bool:
        fresh = _comparable(array).drop_null().unique()
        if self._waiting + len(fresh) > max(len(self._known or ()), _FEW) and not self._merge():
            return False
        if not self._reserve(3 * fresh.nbytes) and not (self._merge() and self._reserve(3 * fresh.nbytes)):
            self._release()
            return False
        self._fresh.append(fresh)
        self._waiting += len(fresh)
        return True

    def count(self) -> int:
        self._merge()
        return len(self._known) if self._known is not None else 0

    def _reserve(self, amount: int) -> bool:
        taken = self._budget.take(amount)
        self._reserved += amount if taken else 0
        return taken

    def _merge(self) -> bool:
        if self._fresh:
            known = [self._known] if self._known is not None else []
            self._known = pa.concat_arrays([*known, *self._fresh]).unique()
            self._fresh, self._waiting = [], 0
            self._budget.give_back(self._reserved)
            self._reserved = 0
            return self._reserve(3 * self._known.nbytes)
        return True

    def _release(self) -> None:
        self._budget.give_back(self._reserved)
        self._known, self._fresh, self._waiting, self._reserved = None, [], 0, 0


def _comparable(array: pa.Array) -> pa.Array:
    """Views as plain arrays, which Arrow can compare."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array
