"""Connection ids → endpoints for the CLI, without importing Airflow.

Environment and exported files (architecture, Connections).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from dpone_provider.clickhouse.endpoint import Endpoint, endpoint_of
from dpone_provider.errors import DponeError
from dpone_provider.sources.sql.endpoint import SqlEndpoint, sql_endpoint_of


class Connections(Protocol):
    """Turns a connection id into an endpoint. Raises ``DponeError`` DPONE_CONNECTION_UNKNOWN or _INVALID."""

    def endpoint(self, ref: str) -> Endpoint:
        """A ClickHouse server."""

    def sql_endpoint(self, ref: str) -> SqlEndpoint:
        """Another SQL database; no driver is imported yet."""


class StaticConnections:
    """Connections out of a file of ``airflow connections export`` (JSON, YAML or env) first, then.

    ``AIRFLOW_CONN_<ID>``.
    """

    def __init__(self, file: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._known = read_export(file) if file else {}
        self._environ = os.environ if environ is None else environ

    def endpoint(self, ref: str) -> Endpoint:
        """Resolve one id."""
        return endpoint_of(ref, self._fields(ref))

    def sql_endpoint(self, ref: str) -> SqlEndpoint:
        """Resolve the id of a SQL source: PostgreSQL or SQLite, other databases need Airflow's hooks."""
        return sql_endpoint_of(ref, self._fields(ref))

    def _fields(self, ref: str) -> Mapping[str, Any]:
        found = self._known.get(ref)
        if found is None:
            text = self._environ.get(f"AIRFLOW_CONN_{ref.upper()}")
            if text is None:
                raise DponeError("DPONE_CONNECTION_UNKNOWN", f"Connection {ref!r} is not defined.")
            found = parse_connection(ref, text)
        return found


def read_export(file: str) -> dict[str, Mapping[str, Any]]:
    """The connections of an export file, by id. Raises DPONE_CONNECTION_INVALID; never repeats the file's text."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DponeError("DPONE_CONNECTION_INVALID", "The file of --connections cannot be read.") from None
    if Path(file).suffix == ".env":
        pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        return {ref.strip(): parse_connection(ref.strip(), value.strip()) for ref, value in pairs}
    try:
        document = json.loads(text) if Path(file).suffix == ".json" else _yaml(text)
    except ValueError:
        raise DponeError("DPONE_CONNECTION_INVALID", "The file of --connections is not well-formed.") from None
    if not isinstance(document, dict):
        raise DponeError("DPONE_CONNECTION_INVALID", "The file of --connections must map ids to connections.")
    return {
        ref: parse_connection(ref, value) if isinstance(value, str) else _mapping(ref, value)
        for ref, value in document.items()
    }


def parse_connection(ref: str, text: str) -> Mapping[str, Any]:
    """Airflow's URI or JSON form of a connection as a mapping of its fields."""
    if text.lstrip().startswith("{"):
        try:
            return _mapping(ref, json.loads(text))
        except ValueError:
            raise DponeError("DPONE_CONNECTION_INVALID", f"Connection {ref!r} is not well-formed JSON.") from None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise DponeError("DPONE_CONNECTION_INVALID", f"Connection {ref!r} is not a well-formed URI.") from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra: Any = query.pop("__extra__", None) or query
    return {
        "conn_type": parts.scheme.replace("-", "_"),
        "host": unquote(parts.hostname) if parts.hostname else None,
        "port": port,
        "login": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "schema": unquote(parts.path[1:]) or None,
        "extra": extra,
    }


def _mapping(ref: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DponeError("DPONE_CONNECTION_INVALID", f"Connection {ref!r} must be a mapping or a URI.")
    return value


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ValueError("not YAML") from error
