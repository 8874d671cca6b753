"""Rows kept on this machine until all of them were read, so that a source that fails has changed no target (P8, X4)."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from dpone_provider.errors import DponeError

IN_MEMORY: Final = 64 << 20
"""Bytes that stay in memory. More go to a file of the temporary folder that has no name: no crash leaves it behind."""


class Spool:
    """Record batches of one schema, written once, then read once; a context manager.

    Both raise ``DponeError`` DPONE_SOURCE_FAILED when the disk does not take or give them.
    """

    def __init__(self, schema: pa.Schema, in_memory: int = IN_MEMORY) -> None:
        self._file: Any = SpooledTemporaryFile(max_size=in_memory, prefix="dpone-")  # noqa: SIM115 - closed by __exit__
        self._writer = pa.ipc.new_stream(self._file, schema)
        self.rows = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep a batch."""
        try:
            self._writer.write_batch(batch)
        except OSError as failed:
            raise _full() from failed
        self.rows += batch.num_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything that was written, in order; nothing more can be written."""
        try:
            self._writer.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        except OSError as failed:
            raise _full() from failed


def _full() -> DponeError:
    remedy = "Free space in the temporary folder (TMPDIR) of the worker, or read less."
    return DponeError(
        "DPONE_SOURCE_FAILED", "The rows could not be kept on this machine until all were read.", remedy=remedy
    )
