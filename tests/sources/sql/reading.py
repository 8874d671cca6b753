"""What the tests of SQL sources share: read a query whole, by a driver of choice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.sources.sql.endpoint import SqlEndpoint
from dpone_provider.wire import DirectWire


def opened(query: str, endpoint: SqlEndpoint, *, after: CursorMark | None = None, **spec: Any) -> OpenSource:
    """A query that is open."""
    columns = spec.pop("columns", ())
    source = SqlSource(connection_ref="c", query=query, **spec)
    return open_source(source, endpoint, wire=DirectWire(), columns=columns, after=after)


def read(query: str, endpoint: SqlEndpoint, **options: Any) -> pa.Table:
    """All rows of a query."""
    with opened(query, endpoint, **options) as source:
        return pa.Table.from_batches(source.batches(), source.schema)


def failure(query: str, endpoint: SqlEndpoint, **options: Any) -> DponeError:
    """The error that reading ends with; it says nothing of the query, and carries no driver's error."""
    with pytest.raises(DponeError) as caught:
        read(query, endpoint, **options)
    assert query not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def fast(source: OpenSource) -> bool:
    """Whether the source is read through ADBC."""
    return source._stream._adbc is not None  # type: ignore[attr-defined]


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in the main thread after some seconds, as Airflow's task timeout does."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
