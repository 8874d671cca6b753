"""The typed multiset hash over Arrow batches as they go on the wire; ``clickhouse.typed_hash`` says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from dpone_provider.clickhouse.typed_hash import (
    BUCKETS,
    LANE,
    SAMPLE,
    Columns,
    Mode,
    NoWord,
    hashed_types,
    key_places,
    salts,
    typed_digest,
)
from dpone_provider.sources.words import Cells, cells_of, mix, sum_of
from dpone_provider.sources.xxhash import Words

_ROWS: Final = 32_768
"""Rows at a time: what is worked on stays in the processor's cache."""

_SCRATCH: Final = 1 << 23


class MultisetHasher:
    """A running hash over batches of one wire schema.

    ``columns``: ``(name, ClickHouse type)`` in the schema's order. ``mode`` "sample" hashes about one row in 16: those
    whose ``key`` falls in one bucket, so that the stored side takes the same ones; no key = the whole row. Raises
    ``ValueError`` when the names differ or the key has another column.
    """

    def __init__(self, schema: pa.Schema, columns: Columns, *, mode: Mode = "full", key: Sequence[str] = ()) -> None:
        if schema.names != [name for name, _ in columns]:
            raise ValueError("the schema's columns are not the hashed columns")
        self._columns, self._mode, self._key = tuple(columns), mode, tuple(key)
        self._sampled = key_places(columns, key) if mode == "sample" else None
        self._cells: list[Cells] = []
        unsupported: list[str] = []
        for field, kind, salt in zip(schema, hashed_types(columns), salts(columns), strict=True):
            try:
                if kind is None:
                    raise NoWord(field.name)
                self._cells.append(cells_of(field.type, kind, salt))
            except NoWord:
                unsupported.append(field.name)
        self.unsupported: tuple[str, ...] = tuple(unsupported)
        """Names of the columns that cannot be hashed; with any of them there is no digest."""
        self._counts = [0, 0, 0, 0]
        # glibc gives the top of the heap back after every step, and half of the time would go into getting it again;
        # freeing one large block makes it keep twice as much.
        np.empty(_SCRATCH, np.uint8)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the batch's rows."""
        if not self.unsupported:
            for start in range(0, batch.num_rows, _ROWS):
                self._add(batch.slice(start, _ROWS))

    def digest(self) -> str | None:
        """64 hex characters for the rows added so far; None when a column cannot be hashed."""
        return None if self.unsupported else typed_digest(self._columns, self._mode, self._key, self._counts)

    @property
    def hashed_rows(self) -> int:
        """Rows that are in the hash: all, or those of the sample."""
        return self._counts[1]

    def _add(self, batch: pa.RecordBatch) -> None:
        self._counts[0] += batch.num_rows
        every = range(len(self._cells))
        if self._sampled is None:
            totals = self._total(batch, every)
        elif self._key:
            chosen = np.flatnonzero(_chosen(self._total(batch, self._sampled)))
            totals = sum_of([self._picked(batch, place, chosen) for place in every])
        else:
            totals = self._total(batch, every)
            totals = totals[_chosen(totals)]
        rows = mix(totals)
        self._counts[1] += len(rows)
        self._counts[2] = (self._counts[2] + int(rows.sum())) % 2**64
        self._counts[3] = (self._counts[3] + int(mix(rows, LANE).sum())) % 2**64

    def _total(self, batch: pa.RecordBatch, places: Sequence[int]) -> Words:
        return sum_of([self._cells[place](batch.column(place)) for place in places])

    def _picked(self, batch: pa.RecordBatch, place: int, chosen: np.ndarray) -> Words:
        """The cells of the chosen rows only; of all rows where Arrow cannot pick, as it cannot from text views."""
        rows = pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)])
        try:
            return self._cells[place](batch.column(place).take(rows))
        except pa.ArrowNotImplementedError:
            cells: Words = self._cells[place](batch.column(place))[chosen]
            return cells


def _chosen(keys: Words) -> np.ndarray:
    """Whether a row is in the sample."""
    chosen: np.ndarray = (mix(keys.copy(), SAMPLE) & np.uint64(BUCKETS - 1)) == 0
    return chosen
