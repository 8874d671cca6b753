"""Which stream reads a SQL source."""

from __future__ import annotations

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.part import Narrow
from dpone_provider.sources.sql.endpoint import HookEndpoint, PostgresEndpoint, SourceEndpoint, SqliteEndpoint
from dpone_provider.sources.stream import BatchStream


def sql_stream(
    spec: SqlSource,
    endpoint: SourceEndpoint | None,
    columns: tuple[tuple[str, str], ...],
    after: CursorMark | Narrow | None,
) -> BatchStream:
    """The stream of the endpoint's kind. ``columns`` give a type to what does not say its own."""
    if isinstance(endpoint, PostgresEndpoint):
        from dpone_provider.sources.sql.postgres import PostgresStream

        return PostgresStream(spec, endpoint, after)
    if isinstance(endpoint, SqliteEndpoint):
        from dpone_provider.sources.sql.sqlite import SqliteStream

        return SqliteStream(spec, endpoint, columns, after)
    if isinstance(endpoint, HookEndpoint):
        from dpone_provider.sources.sql.hooked import HookStream

        return HookStream(spec, endpoint, columns, after)
    raise DponeError("DPONE_CONNECTION_INVALID", "A SQL source needs a connection to a SQL database.")
