"""xxHash64 (seed 0) of many byte strings at once, by numpy: one step a word of the longest one, not one a string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

Words = np.ndarray
"""An array of uint64."""

Step = Callable[[Words, Words], Words]

_PRIMES = (
    *(11400714785074694791, 14029467366897019727, 1609587929392839161),
    *(9650029242287828579, 2870177450012600261),
)
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, _PRIMES)
_STARTS = np.array([(_PRIMES[0] + _PRIMES[1]) % 2**64, _PRIMES[1], 0, 2**64 - _PRIMES[0]], np.uint64)[:, None]
_BYTES: Final = 1 << 22


def xxhash64(data: np.ndarray, offsets: np.ndarray) -> Words:
    """The hash of ``data[offsets[i]:offsets[i + 1]]`` for every ``i``.

    ``data``: bytes; ``offsets``: int64, rising. A few MiB are worked on at a time.
    """
    count = len(offsets) - 1
    if count > 1 and offsets[-1] - offsets[0] > _BYTES:
        half = count // 2
        return np.concatenate([xxhash64(data, offsets[: half + 1]), xxhash64(data, offsets[half:])])
    places, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    load = _Loader(data[offsets[0] : offsets[-1]], bool((places & 7).any()))
    hashes = np.full(count, _P5)
    if count and lengths.max() >= 32:
        _stripes(hashes, load, places, lengths)
    hashes += lengths.view(np.uint64)
    _rest(hashes, load, places + (lengths & ~31), lengths & 31)
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


class _Loader:
    """Little-endian words at any places of a byte string, by two aligned reads where they are not aligned."""

    def __init__(self, data: np.ndarray, shifted: bool) -> None:
        self._words = np.zeros(len(data) // 8 + 5, np.uint64)
        self._words.view(np.uint8)[: len(data)] = data
        self._shifted = shifted

    def __call__(self, places: np.ndarray) -> Words:
        at = places >> 3
        low = self._words.take(at)
        if self._shifted:
            at += 1
            high = self._words.take(at)
            shift = ((places & 7) << 3).view(np.uint64)
            low >>= shift
            high <<= np.uint64(64) - shift  # by 64 bits: numpy gives 0
            low |= high
        return low


def _stripes(hashes: Words, load: _Loader, places: np.ndarray, lengths: np.ndarray) -> None:
    """The part of 32 bytes at a time; the longest strings first, so that those still at work are a prefix."""
    order = np.flatnonzero(lengths >= 32)
    stripes = -(lengths[order] >> 5)
    if stripes.min() != stripes.max():
        sorted_ = np.argsort(stripes.astype(np.min_scalar_type(stripes.min())), kind="stable")
        order, stripes = order[sorted_], stripes[sorted_]
    at = places[order] + np.arange(0, 32, 8)[:, None]
    lanes = np.repeat(_STARTS, len(order), axis=1)
    for stripe in range(-int(stripes[0])):
        still = int(np.searchsorted(stripes, -stripe, side="left"))
        lanes[:, :still] = _round(lanes[:, :still], load(at[:, :still] + 32 * stripe))
    mixed = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        lane *= _P2
        mixed ^= _turned(lane, 31) * _P1
        mixed *= _P1
        mixed += _P4
    hashes[order] = mixed


def _rest(hashes: Words, load: _Loader, places: np.ndarray, left: np.ndarray) -> None:
    """Up to three words, half a word, up to three bytes."""
    for start in range(0, 24, 8):
        _mix_where(left >= start + 8, hashes, _word, places + start, load)
    last = load(places + (left & 24))
    _mix_where((left & 4) != 0, hashes, _half, last & np.uint64(0xFFFFFFFF))
    last >>= ((left & 4) << 3).view(np.uint64)
    for count in range(3):
        _mix_where((left & 3) > count, hashes, _byte, last & np.uint64(0xFF))
        last >>= np.uint64(8)


def _mix_where(mask: np.ndarray, hashes: Words, step: Step, words: np.ndarray, load: _Loader | None = None) -> None:
    """Mix words (or what stands at these places) into some hashes.

    A few are picked out; when there are many, all are computed, which is cheaper than to pick them.
    """
    chosen = int(np.count_nonzero(mask))
    if chosen > len(mask) // 4:
        np.copyto(hashes, step(hashes, words if load is None else load(words)), where=mask)
    elif chosen:
        which = np.flatnonzero(mask)
        words = words[which]
        hashes[which] = step(hashes[which], words if load is None else load(words))


def _word(hashes: Words, words: Words) -> Words:
    words *= _P2
    words = _turned(words, 31)
    words *= _P1
    words ^= hashes
    words = _turned(words, 27)
    words *= _P1
    words += _P4
    return words


def _half(hashes: Words, words: Words) -> Words:
    words *= _P1
    words ^= hashes
    words = _turned(words, 23)
    words *= _P2
    words += _P3
    return words


def _byte(hashes: Words, words: Words) -> Words:
    words *= _P5
    words ^= hashes
    words = _turned(words, 11)
    words *= _P1
    return words


def _round(lanes: Words, words: Words) -> Words:
    words *= _P2
    words += lanes
    words = _turned(words, 31)
    words *= _P1
    return words


def _turned(words: Words, bits: int) -> Words:
    turned = words >> np.uint64(64 - bits)
    turned |= words << np.uint64(bits)
    return turned
