"""xxHash64 (seed 0) of many byte strings at once, by numpy: one step a word of the longest one, not one a string."""

from __future__ import annotations

from typing import Final

import numpy as np

Words = np.ndarray
"""An array of uint64."""

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
        self._words = np.zeros(len(data) // 8 + 2, np.uint64)
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
    order = np.argsort(-lengths, kind="stable") if (lengths != lengths[0]).any() else np.arange(len(lengths))
    stripes = lengths[order] >> 5
    active = int(np.count_nonzero(stripes))
    order = order[:active]
    at = places[order] + np.arange(0, 32, 8)[:, None]
    lanes = np.repeat(_STARTS, active, axis=1)
    for stripe in range(int(stripes[0])):
        still = int(np.searchsorted(-stripes[:active], -stripe, side="left"))
        lanes[:, :still] = _round(lanes[:, :still], load(at[:, :still] + 32 * stripe))
    mixed = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        mixed ^= _round(np.uint64(0), lane)
        mixed *= _P1
        mixed += _P4
    hashes[order] = mixed


def _rest(hashes: Words, load: _Loader, places: np.ndarray, left: np.ndarray) -> None:
    """Up to three words, then what is shorter."""
    for step in range(3):
        which = _which(left >= 8 * (step + 1))
        if which is not None:
            mixed = hashes[which] ^ _round(np.uint64(0), load(places[which] + 8 * step))
            hashes[which] = _turned(mixed, 27) * _P1 + _P4
    _tail(hashes, load(places + (left & 24)), left)


def _tail(hashes: Words, words: Words, left: np.ndarray) -> None:
    """Up to seven bytes: half a word, then up to three single ones."""
    which = _which((left & 4) != 0)
    if which is not None:
        mixed = hashes[which] ^ ((words[which] & np.uint64(0xFFFFFFFF)) * _P1)
        hashes[which] = _turned(mixed, 23) * _P2 + _P3
        words[which] >>= np.uint64(32)
    for step in range(3):
        which = _which((left & 3) > step)
        if which is not None:
            mixed = hashes[which] ^ ((words[which] >> np.uint64(8 * step) & np.uint64(0xFF)) * _P5)
            hashes[which] = _turned(mixed, 11) * _P1


def _which(mask: np.ndarray) -> np.ndarray | slice | None:
    """Where to work: everywhere without an index, None for nowhere."""
    chosen = int(np.count_nonzero(mask))
    if chosen == 0:
        return None
    return slice(None) if chosen == len(mask) else np.flatnonzero(mask)


def _round(lane: Words | np.uint64, words: Words) -> Words:
    mixed = words * _P2
    mixed += lane
    mixed = _turned(mixed, 31)
    mixed *= _P1
    return mixed


def _turned(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
