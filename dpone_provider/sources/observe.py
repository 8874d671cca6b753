"""Observations of the source, made on the batches as they are sent: rows, NULLs and exact distinct values (X5).

Distinct values are counted as ClickHouse's ``uniqExact`` counts the stored column: NULL is none, -0.0 and 0.0 are two,
NaNs with different bits are different. Memory is bounded; a column whose distinct values do not fit any more is
``Unavailable``, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
import pyarrow as pa

from dpone_provider.sources.distinct import Budget, DistinctSet, distinct_set

MAX_BYTES: Final = 128 << 20


@attrs.frozen(kw_only=True)
class Unavailable:
    """A count that was not made, and why."""

    reason: str


class SourceObserver:
    """Counts over batches of one schema.

    ``max_bytes``: bound of what all distinct counts together keep. Null counts are free; a distinct count of a column
    of up to 8 bytes costs about 0.1 CPU-seconds a million rows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        null_columns: Iterable[str] = (),
        distinct_columns: Iterable[str] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.row_count = 0
        wanted = tuple(distinct_columns)
        self._nulls = dict.fromkeys(null_columns, 0)
        self._places = {name: schema.get_field_index(name) for name in (*self._nulls, *wanted)}
        budget = Budget(max_bytes)
        self._distinct: dict[str, DistinctSet | None] = {
            name: distinct_set(schema.field(name).type, budget) for name in wanted
        }
        self._reasons = dict.fromkeys(wanted, "distinct values of this type are not counted")

    def observe(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        self.row_count += batch.num_rows
        for name in self._nulls:
            self._nulls[name] += batch.column(self._places[name]).null_count
        for name, values in self._distinct.items():
            if values is not None and not values.add(batch.column(self._places[name])):
                self._distinct[name] = None
                self._reasons[name] = "more distinct values than the memory bound allows"

    @property
    def unavailable(self) -> tuple[tuple[str, str], ...]:
        """``(column, reason)`` of every distinct count that cannot be made any more."""
        return tuple((name, self._reasons[name]) for name, values in self._distinct.items() if values is None)

    @property
    def null_counts(self) -> tuple[tuple[str, int], ...]:
        """``(column, NULLs)`` in the order asked for."""
        return tuple(self._nulls.items())

    @property
    def distinct_counts(self) -> tuple[tuple[str, int | Unavailable], ...]:
        """``(column, distinct values)`` in the order asked for."""
        return tuple(
            (name, values.count() if values is not None else Unavailable(reason=self._reasons[name]))
            for name, values in self._distinct.items()
        )
