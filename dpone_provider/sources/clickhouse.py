"""A ClickHouse table or query as one Arrow stream over HTTP.

The query runs with ``readonly=1``, so whatever its text says it changes nothing; that setting and the format's settings
are accepted in one request. A user whose profile already fixes ``readonly=1`` cannot be given settings and is refused;
``readonly=2`` is as good as ours and is left as it is. Names without a database are in the connection's database.
No request is sent twice, and closing early cancels the query on the server.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa
import urllib3
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httpclient import HttpClient

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.endpoint import AUTHENTICATION_CODES, Endpoint
from dpone_provider.clickhouse.http import Pool, close_pool, code_of, open_client, open_pool
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import ClickHouseSource
from dpone_provider.quality.metric_request import query_dataset
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.honest import Honest
from dpone_provider.sources.options import checked_options
from dpone_provider.sources.part import Narrow
from dpone_provider.sources.pushdown import SOURCE, condition
from dpone_provider.sources.tail import END_OF_STREAM, TailedStream
from dpone_provider.wire import StatementFailed

FORMAT: Final[pins.Settings] = {
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
    "output_format_arrow_fixed_string_as_fixed_byte_array": 1,
    "output_format_arrow_date_as_uint16": 0,
    "output_format_arrow_compression_method": "none",
    "cancel_http_readonly_queries_on_client_close": 1,
    "http_write_exception_in_output_format": 0,
    "send_progress_in_http_headers": 0,
    "wait_end_of_query": 0,
}
_NOT_FOUND = {60: "table", 81: "database", 47: "column", 46: "function", 497: "grant"}
_LAST = 1 << 17
_WRITABLE: Final = "Give its profile readonly=2, or 0 with SELECT grants only: a query must carry its own settings."
_BROKEN = (urllib3.exceptions.HTTPError, OSError, pa.ArrowException)


class QueryStream:
    """The rows of one query. Its columns remember their ClickHouse types."""

    schema: pa.Schema
    total_rows: int | None = None

    def __init__(self, spec: ClickHouseSource, endpoint: Endpoint, after: CursorMark | Narrow | None = None) -> None:
        checked_options("clickhouse", spec.options)
        if spec.table is not None:
            self.dataset = f"{spec.table.database}.{spec.table.name}"
            self._from = quote.table(spec.table.database, spec.table.name)
            self._query = f"SELECT * FROM {self._from}"
        else:
            self.dataset = query_dataset(spec.query or "")
            self._query = spec.query or ""
            self._from = f"({self._query}\n)"
        self._after = after
        self._endpoint = endpoint
        self._pool: Pool | None = None
        self._response: Any = None
        self._opened = False

    @property
    def more(self) -> bool:
        return not self._opened

    def advance(self) -> None:
        """Ask for the columns, then start the query."""
        self._opened = True
        self._pool = open_pool(self._endpoint, Pool)
        client = self._client(self._pool)
        described = self._described(client)
        above = condition(self._after, described) if self._after is not None else ""
        query = f"SELECT * FROM {self._from} AS {SOURCE} WHERE {above}" if above else self._query
        self._response = self._asked(client, query, "ArrowStream")
        self._tailed = TailedStream(self._response)
        try:
            self._reader = pa.ipc.open_stream(self._tailed)
        except _BROKEN as error:
            raise self._failed(error) from None
        self._honest = Honest(self._reader.schema, described)
        self.schema = self._honest.schema

    def read(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            batch = None
        except _BROKEN as error:
            raise self._failed(error) from None
        if batch is None:
            self._require_end()
            return None
        return self._honest.batch(batch)

    def close(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            close_pool(pool)

    def _client(self, pool: Pool) -> HttpClient:
        try:
            client = open_client(self._endpoint, pool)
        except StatementFailed as failed:
            raise _refused(failed.code) from None
        settings = {name: str(value) for name, value in {**pins.READ, **FORMAT}.items()}
        for name in pins.READ_WHERE_KNOWN:  # over HTTP an empty ``filter`` is a filter: what is right stays unsaid
            if name not in client.server_settings or client.server_settings[name].value == settings[name]:
                del settings[name]
        client.params.update(settings)
        fixed = client.server_settings["readonly"].value if "readonly" in client.server_settings else "0"
        if fixed == "2":
            del client.params["readonly"]
        elif fixed != "0":
            problem = "The source's user has readonly=1 in its profile."
            raise DponeError("DPONE_SERVER_REFUSED", problem, remedy=_WRITABLE)
        if self._endpoint.database:
            client.params["database"] = self._endpoint.database
        return client

    def _require_end(self) -> None:
        """The stream ended with its end mark, and the HTTP body ended cleanly right after it (B7)."""
        try:
            clean, error = self._tailed.ended_with(END_OF_STREAM), None
        except _BROKEN as broken:
            clean, error = False, broken
        if not clean:
            raise self._failed(error)

    def _described(self, client: HttpClient) -> list[tuple[str, str]]:
        """Names and types of the query's columns."""
        answer = self._asked(client, f"DESCRIBE TABLE ({self._query}\n)", "JSONCompact")
        try:
            rows = json.loads(answer.read())["data"]
            return [(str(row[0]), str(row[1])) for row in rows]
        except (*_BROKEN, ValueError, KeyError, IndexError, TypeError):
            raise DponeError("DPONE_SOURCE_FAILED", "The source's columns could not be read.") from None
        finally:
            answer.close()

    def _asked(self, client: HttpClient, query: str, form: str) -> Any:
        try:
            return _once(client, f"{query}\n", form)
        except ClickHouseError as error:
            raise _refused(code_of(error)) from None

    def _failed(self, error: BaseException | None) -> DponeError:
        """The stream broke off; the server's error number stands at its end when the server was the one to stop."""
        last = self._tailed.tail + _partial(error)
        try:
            while len(last) < _LAST and (more := self._tailed.read(1024)):
                last += more
        except _BROKEN as broken:
            last += _partial(broken)
        found = re.search(rb"Code: (\d+)\. DB::", last)
        cause = f"server error {int(found[1])}" if found else "the connection ended too early"
        return DponeError("DPONE_SOURCE_FAILED", f"The query of the source broke off ({cause}).")


def _partial(error: BaseException | None) -> bytes:
    """What a broken HTTP body still gave, as ``http.client`` keeps it in its error."""
    for item in getattr(error, "args", ()):
        partial = getattr(item, "partial", None)
        if isinstance(partial, bytes):
            return partial[-_LAST:]
    return b""


def _once(client: HttpClient, query: str, form: str) -> Any:
    """One request, sent once; the response is not read yet."""
    pool: Any = client.http
    pool.guard()
    return client.raw_stream(query, fmt=form)


def _refused(code: int | None) -> DponeError:
    if code is None:
        return DponeError("DPONE_SOURCE_FAILED", "The server did not answer the source's query.")
    if code in AUTHENTICATION_CODES:
        return DponeError("DPONE_SERVER_AUTHENTICATION")
    if code in _NOT_FOUND:
        problem = f"The source's query needs a {_NOT_FOUND[code]} that is missing (server error {code})."
        return DponeError("DPONE_SOURCE_NOT_FOUND", problem)
    if code in (62, 164):
        problem = f"The source's query is not one SELECT that only reads (server error {code})."
        return DponeError("DPONE_SOURCE_INVALID", problem)
    return DponeError("DPONE_SOURCE_FAILED", f"The server refused the source's query (server error {code}).")
