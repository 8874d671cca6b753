"""The Airflow connection of a SQL source as an endpoint; what is not PostgreSQL or SQLite is opened by its own hook."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, BaseHook, mask_secret

from dpone_provider.errors import DponeError
from dpone_provider.sources.sql.endpoint import SqlEndpoint, invalid, sql_endpoint_of

_FIELDS = ("conn_type", "host", "port", "login", "password", "schema", "extra")


def sql_endpoint(ref: str) -> SqlEndpoint:
    """Look the connection up. Its password is masked in task logs from here on; no hook is made, no driver imported.

    Raises ``DponeError`` DPONE_CONNECTION_UNKNOWN, DPONE_CONNECTION_INVALID.
    """
    try:
        found = BaseHook.get_connection(ref)
    except AirflowNotFoundException:
        raise DponeError("DPONE_CONNECTION_UNKNOWN", f"Connection {ref!r} is not defined.") from None
    if found.password:
        mask_secret(found.password)
    fields = {name: getattr(found, name) for name in _FIELDS}
    return sql_endpoint_of(ref, fields, hook=lambda: _hook(ref, found))


def _hook(ref: str, found: Any) -> Any:
    """The connection's hook. Raises ``DponeError`` when its provider is missing or brings no DB-API hook."""
    try:
        from airflow.providers.common.sql.hooks.sql import DbApiHook

        hook = found.get_hook()
    except (AirflowException, ImportError):
        problem = f"Connection {ref!r} is of type {found.conn_type!r}, whose hook cannot be imported."
        remedy = "Install the Airflow provider of that type, and apache-airflow-providers-common-sql."
        raise DponeError("DPONE_SOURCE_DRIVER_MISSING", problem, remedy=remedy) from None
    if not isinstance(hook, DbApiHook):
        raise invalid(ref, f"is of type {found.conn_type!r}, which is no SQL database", "Use another connection.")
    return hook
