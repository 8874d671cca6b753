"""Arrow buffers as numpy arrays, slices and absent buffers included. Nothing is copied but offsets and bitmaps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def rows(array: pa.Array, words: int) -> np.ndarray:
    """The values of ``words`` words each, as a table."""
    buffer, count = array.buffers()[1], len(array) * words
    found = np.frombuffer(buffer or b"", np.uint64, count if buffer else 0, array.offset * words * 8 if buffer else 0)
    return found.reshape(-1, words)


def values(array: pa.Array, dtype: str) -> np.ndarray:
    """The values of a fixed width, as numbers."""
    buffer, kind = array.buffers()[1], np.dtype(dtype)
    if buffer is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def offsets(array: pa.Array) -> np.ndarray:
    """Where the values of a variable length begin and end, as int64."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, np.int64)
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    wide = large or pa.types.is_large_list(array.type)
    kind = np.dtype("i8" if wide else "i4")
    return np.frombuffer(buffer, kind, len(array) + 1, array.offset * kind.itemsize).astype(np.int64)


def bits(array: pa.Array, buffer: int) -> np.ndarray:
    """A bitmap of the array as booleans: 0 is validity, 1 are a Bool's values."""
    start, length = array.offset, len(array)
    packed = np.frombuffer(array.buffers()[buffer] or b"", np.uint8)[start // 8 : (start + length + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[start % 8 : start % 8 + length].view(np.bool_)
