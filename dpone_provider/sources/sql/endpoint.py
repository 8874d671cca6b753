"""Where a SQL database is and how to log in: values, read out of Airflow-style connections. No driver, no socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from dpone_provider.clickhouse.endpoint import Endpoint, connection_extras
from dpone_provider.errors import DponeError

POSTGRES_TYPES: Final = ("postgres", "postgresql")
SQLITE_TYPE: Final = "sqlite"
_LIBPQ: Final = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslnegotiation", "channel_binding", "gssencmode"}
    | {"connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval"}
    | {"keepalives_count", "options", "target_session_attrs", "load_balance_hosts"}
)
_IGNORED: Final = frozenset({"cursor", "client_encoding", "application_name"})
"""Extras of Airflow's own hook that say nothing about where the server is."""

_BACKTICKS: Final = frozenset({"mysql", "hive_cli", "hiveserver2", "databricks", "gcpbigquery"})


@attrs.frozen(kw_only=True)
class PostgresEndpoint:
    """One PostgreSQL server. ``parameters``: for libpq, the password among them. ``adbc``: the fast path may be used.

    ``ref``: the connection's id, for messages.
    """

    ref: str
    parameters: Mapping[str, str] = attrs.field(repr=False)
    adbc: bool = True


@attrs.frozen(kw_only=True)
class SqliteEndpoint:
    """One SQLite file, read-only. ``path`` is absolute."""

    ref: str
    path: str = attrs.field(repr=False)
    adbc: bool = True


@attrs.frozen(kw_only=True)
class HookEndpoint:
    """Any other database. ``hook``: makes the connection's DB-API hook. ``quote`` stands around names."""

    ref: str
    quote: str = '"'
    hook: Callable[[], Any] = attrs.field(repr=False)


SqlEndpoint = PostgresEndpoint | SqliteEndpoint | HookEndpoint
SourceEndpoint = Endpoint | SqlEndpoint


def sql_endpoint_of(ref: str, fields: Mapping[str, Any], hook: Callable[[], Any] | None = None) -> SqlEndpoint:
    """The endpoint of Airflow's connection fields.

    ``hook``: for types that only an Airflow hook can open, None outside of Airflow. Raises ``DponeError``
    DPONE_CONNECTION_INVALID naming the connection and the field.
    """
    kind = str(fields.get("conn_type") or "")
    if kind in POSTGRES_TYPES:
        return _postgres(ref, fields)
    if kind == SQLITE_TYPE:
        return _sqlite(ref, fields)
    if hook is None or not kind:
        raise invalid(ref, f"has the type {kind!r}, which is read inside Airflow only", "Run it as an Airflow task.")
    return HookEndpoint(ref=ref, hook=hook, quote="`" if kind in _BACKTICKS else '"')


def invalid(ref: str, problem: str, remedy: str) -> DponeError:
    """A connection that cannot be used as a SQL source."""
    return DponeError("DPONE_CONNECTION_INVALID", f"Connection {ref!r} {problem}.", remedy=remedy)


def _postgres(ref: str, fields: Mapping[str, Any]) -> PostgresEndpoint:
    extras = _extras(ref, fields)
    adbc = _adbc(ref, extras)
    unknown = sorted(extras.keys() - _LIBPQ - _IGNORED)
    if unknown:
        raise invalid(ref, f"has the field extra.{unknown[0]}, which is not known", f"Remove extra.{unknown[0]}.")
    given = {
        "host": fields.get("host"),
        "port": fields.get("port"),
        "user": fields.get("login"),
        "password": fields.get("password"),
        "dbname": fields.get("schema"),
        **{name: value for name, value in extras.items() if name in _LIBPQ},
    }
    parameters = {name: str(value) for name, value in given.items() if value not in (None, "")}
    if any("\0" in value for value in parameters.values()):
        raise invalid(ref, "has a field with a NUL character", "Correct the connection.")
    return PostgresEndpoint(ref=ref, parameters=parameters, adbc=adbc)


def _sqlite(ref: str, fields: Mapping[str, Any]) -> SqliteEndpoint:
    extras = _extras(ref, fields)
    path = str(fields.get("host") or fields.get("schema") or "")
    if not path.startswith("/") or "\0" in path:
        raise invalid(ref, "must name its SQLite file by an absolute path", "Write the path into the field host.")
    return SqliteEndpoint(ref=ref, path=path, adbc=_adbc(ref, extras))


def _extras(ref: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return connection_extras(fields.get("extra"))
    except DponeError as error:
        raise DponeError(error.code, f"Connection {ref!r}: {error.message}", remedy=error.next_step) from None


def _adbc(ref: str, extras: dict[str, Any]) -> bool:
    """Take ``extra.adbc`` out: whether the fast path may be used, by default yes."""
    text = str(extras.pop("adbc", True)).lower()
    if text not in ("true", "false"):
        raise invalid(ref, "has the field extra.adbc, which must be true or false", "Correct extra.adbc.")
    return text == "true"
