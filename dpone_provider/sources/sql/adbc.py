"""Record batches straight from an ADBC driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.sources.sql.watched import Watched

T = TypeVar("T")
Values = tuple[int | str, ...]


class AdbcBatches:
    """One query on a connection of its own. ``failed``: turns the driver's error into ours."""

    def __init__(
        self, connect: Callable[[], Any], failed: Callable[[BaseException], DponeError], *, batch_rows: int
    ) -> None:
        from adbc_driver_manager import Error

        self._errors = (Error, pa.ArrowException, OSError)
        self._connect = connect
        self._failed = failed
        self._rows = batch_rows
        self._watched = Watched(self._cancel)
        self._connection: Any = None
        self._cursor: Any = None
        self._reader: Any = None
        self._rest: pa.RecordBatch | None = None
        self._closed = False

    def start(
        self,
        query: str,
        values: Values = (),
        *,
        before: Sequence[tuple[str, Values]] = (),
        options: Mapping[str, str] | None = None,
    ) -> pa.Schema:
        """Run the statements ``before``, then start the query. Its Arrow schema as the driver says it."""
        return self._run(lambda: self._started([*before, (query, values)], options or {}))

    def read(self) -> pa.RecordBatch | None:
        """The next rows, ``batch_rows`` at most; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = self._run(self._next)
            if self._rest is None:
                return None
        batch, self._rest = self._rest.slice(0, self._rows), self._rest.slice(self._rows)
        return batch

    def close(self) -> None:
        """End the query if it still runs, roll back and let go; more than once does no harm."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not None:
            self._cancel()
        self._watched.end(self._let_go)

    def _started(self, statements: Sequence[tuple[str, Values]], options: Mapping[str, str]) -> pa.Schema:
        self._connection = self._connect()
        self._cursor = self._connection.cursor()
        self._cursor.adbc_statement.set_options(**options)
        for text, values in statements:
            self._cursor.execute(text, values or None)
        self._reader = self._cursor.fetch_record_batch()
        return self._reader.schema

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            self._reader = None
            return None

    def _let_go(self) -> None:
        for part in (self._cursor, self._connection):
            if part is not None:
                with suppress(*self._errors):
                    part.close()

    def _cancel(self) -> None:
        if self._cursor is not None:
            with suppress(*self._errors):
                self._cursor.adbc_cancel()

    def _run(self, call: Callable[[], T]) -> T:
        return self._watched.run(lambda: self._translated(call))

    def _translated(self, call: Callable[[], T]) -> T:
        """In the thread, where only the driver raises; what a signal raises while we wait stays as it is."""
        try:
            return call()
        except self._errors as error:
            raise self._failed(error) from None
