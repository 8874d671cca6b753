"""The bulk plane.

Arrow record batches as ONE chunked ``INSERT … FORMAT ArrowStream`` request, whose body can start only once (A4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import urllib3
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httpclient import HttpClient

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.http import Pool, code_of, open_client, pooled
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed, Wire

CHUNK = 1 << 18
"""Largest piece handed to the socket at once; smaller pieces are gathered up to it.

The HTTP stack copies each piece: copies of a MiB are mapped and unmapped every time, a quarter of the client's CPU.
"""


def insert_stream(
    endpoint: Endpoint,
    *,
    database: str,
    table: str,
    columns: Sequence[str],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    wire: Wire,
    settings: pins.Settings | None = None,
    query_id: str | None = None,
    replica: str = "",
    effect: Effect | None = None,
    started: Callable[[], None] | None = None,
) -> int | None:
    """Send all batches in one request and return when the server has acknowledged them.

    The answer is the number of rows that the server says it wrote, those of the table's views included; None when it
    does not say. ``columns``: the INSERT's column list; the schema's names must be the same, in the same order.
    ``settings``: on top of ``pins.INSERT``. ``effect``: what this is, unless an insert into a generation. ``started``
    is called when the server has been reached, before the first byte of the request goes out.

    Raises what ``batches`` raises, as it was, after the connection is torn so that the server cannot take the stream
    for complete. Raises ``StatementFailed`` for a server error or no clean acknowledgement, ``DponeError``
    DPONE_SERVER_UNREACHABLE, DPONE_SERVER_AUTHENTICATION or DPONE_SOURCE_COLUMN_UNKNOWN before anything was sent. Never
    sends the body twice.
    """
    if list(columns) != schema.names:  # the server ignores further columns of a stream, whatever its settings say
        raise DponeError("DPONE_SOURCE_COLUMN_UNKNOWN", "The stream's columns are not the columns of the insert.")
    body = _Body(schema, batches)
    names = ", ".join(map(quote.identifier, columns))
    target = f"{quote.table(database, table)} ({names})"
    request = {**pins.INSERT, **(settings or {}), **({"query_id": query_id} if query_id else {})}

    def call() -> int | None:
        with pooled(endpoint, _Answered) as pool:
            client = open_client(endpoint, pool)
            _pin(client, request)
            pool.guard()
            if started is not None:
                started()
            _insert(client, target, body)
            return _written(_acknowledged(pool.answer, query_id))

    staged = Effect(kind="insert", what="insert into the generation", replica=replica)
    return wire.send(effect or staged, call)


class _Stopped(BaseException):
    """Ends a request from inside its body.

    No ``Exception``: the HTTP stack would take an ``OSError`` for the socket's.
    """


class _Body:
    """The request's body: IPC bytes of the batches. Starting it a second time ends the request."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches
        self._started = False
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[bytes | memoryview]:
        if self._started:
            raise _Stopped
        self._started = True
        return self._guarded()

    def _guarded(self) -> Iterator[bytes | memoryview]:
        try:
            yield from self._pieces()
        except GeneratorExit:
            raise
        except BaseException as failure:  # noqa: BLE001 - kept as it is; _insert raises it again
            self.failure = failure
            raise _Stopped from None

    def _pieces(self) -> Iterator[bytes | memoryview]:
        sink = _Sink()
        writer = pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), self._schema, options=pa.ipc.IpcWriteOptions())
        for batch in self._batches:
            writer.write_batch(batch)
            yield from sink.full()
        writer.close()
        yield from sink.full()
        yield sink.rest()


class _Sink:
    """A file that the IPC writer writes into: large buffers stay views, small ones are gathered."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._small = bytearray()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if len(view) < CHUNK // 4:
            self._small += view
            if len(self._small) >= CHUNK:
                self._flush()
        else:
            self._flush()
            self._parts.extend(view[start : start + CHUNK] for start in range(0, len(view), CHUNK))
        return len(view)

    def flush(self) -> None:
        """Part of the file interface; nothing is kept back that ``rest`` would not give."""

    def full(self) -> Iterator[bytes | memoryview]:
        parts, self._parts = self._parts, []
        parts.reverse()
        while parts:
            yield parts.pop()

    def rest(self) -> bytes:
        rest, self._small = bytes(self._small), bytearray()
        return rest

    def _flush(self) -> None:
        if self._small:
            self._parts.append(self.rest())


class _Answered(Pool):
    """Keeps the answer to the guarded request, to be looked at."""

    answer: urllib3.BaseHTTPResponse | None = None

    def request(self, method: str, url: str, *args: Any, **options: Any) -> urllib3.BaseHTTPResponse:
        self.answer = super().request(method, url, *args, **options)
        return self.answer


def _pin(client: HttpClient, settings: pins.Settings) -> None:
    """Put the settings on the request as they are: the driver would leave out what it takes for unchanged."""
    known = {name: value for name, value in pins.INSERT_WHERE_KNOWN.items() if name in client.server_settings}
    client.params.update({name: _parameter(value) for name, value in {**known, **settings}.items()})


def _insert(client: HttpClient, target: str, body: _Body) -> None:
    try:
        client.raw_insert(target, insert_block=body, fmt="ArrowStream")
        return
    except _Stopped:
        pass
    except ClickHouseError as error:
        raise StatementFailed(code_of(error), "no clean answer") from None
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError):  # the driver's, over a garbled answer
        raise StatementFailed(None, "an answer that cannot be read") from None
    if body.failure is None:
        raise StatementFailed(None, "the body was about to be sent again")
    raise body.failure


def _acknowledged(answer: urllib3.BaseHTTPResponse | None, query_id: str | None) -> urllib3.BaseHTTPResponse:
    """A clean acknowledgement: our query's answer with an empty body.

    An error after status 200 stands in the body (B7).
    """
    if answer is None or answer.data:
        found = re.search(rb"Code: (\d+)", answer.data) if answer is not None else None
        raise StatementFailed(int(found[1]) if found else None, "text after status 200")
    named = answer.headers.get("X-ClickHouse-Query-Id")
    if not named or (query_id and named != query_id):
        raise StatementFailed(None, "an answer that is not the server's")
    return answer


def _written(answer: urllib3.BaseHTTPResponse) -> int | None:
    """The rows that the server reports, None when it does not."""
    try:
        found = json.loads(answer.headers.get("X-ClickHouse-Summary", ""))["written_rows"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return int(found) if isinstance(found, str) and re.fullmatch(r"[0-9]{1,20}", found) else None


def _parameter(value: bool | int | float | str) -> str:
    return str(int(value)) if type(value) is bool else str(value)
