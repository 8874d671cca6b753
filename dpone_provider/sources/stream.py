"""What ``OpenSource`` reads from: files one after another, or one query."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class BatchStream(Protocol):
    """A source that is read in parts.

    ``dataset``: its name without secrets. ``schema`` holds after the first ``advance``. ``total_rows``: None when only
    reading would tell.
    """

    dataset: str
    schema: pa.Schema
    total_rows: int | None

    @property
    def more(self) -> bool:
        """Whether there is a part that was not opened yet."""

    def advance(self) -> None:
        """Open the next part. Raises ``DponeError``."""

    def read(self) -> pa.RecordBatch | None:
        """The next batch of the open part, None at its clean end. Raises ``DponeError``."""

    def close(self) -> None:
        """Let go of everything; more than once does no harm."""
