"""Airflow-style connections of SQL sources as endpoints: what is read, what is refused, and that no secret shows."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.runtime.connections import StaticConnections
from dpone_provider.sources.sql.endpoint import HookEndpoint, PostgresEndpoint, SqliteEndpoint, sql_endpoint_of

PASSWORD = "p@ss'w/rd"
FIELDS = {
    "conn_type": "postgres",
    "host": "db",
    "port": 5433,
    "login": "reader",
    "password": PASSWORD,
    "schema": "shop",
}


def resolved(value: str) -> Any:
    return StaticConnections(environ={"AIRFLOW_CONN_ERP": value}).sql_endpoint("erp")


@pytest.mark.parametrize("form", ["uri", "json"])
def test_a_postgres_connection_is_read_in_both_forms(form: str) -> None:
    uri = f"postgresql://reader:{quote(PASSWORD, safe='')}@db:5433/shop?sslmode=require&connect_timeout=3"
    extra = {"extra": {"sslmode": "require", "connect_timeout": 3, "cursor": "dictcursor"}}
    endpoint = resolved(uri if form == "uri" else json.dumps(FIELDS | extra))
    assert isinstance(endpoint, PostgresEndpoint)
    assert dict(endpoint.parameters) == {
        "host": "db",
        "port": "5433",
        "user": "reader",
        "password": PASSWORD,
        "dbname": "shop",
        "sslmode": "require",
        "connect_timeout": "3",
    }
    assert endpoint.adbc
    assert PASSWORD not in repr(endpoint)


def test_what_is_not_set_is_left_to_libpq() -> None:
    endpoint = resolved("postgres://db")
    assert dict(endpoint.parameters) == {"host": "db"}
    assert not resolved("postgres://db?adbc=false").adbc


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("sqlite:////data/x.db", "/data/x.db"),
        ("sqlite://%2Fdata%2FX%20y.db", "/data/X y.db"),
        (json.dumps({"conn_type": "sqlite", "host": "/data/x.db"}), "/data/x.db"),
    ],
)
def test_a_sqlite_connection_is_a_path(value: str, path: str) -> None:
    endpoint = resolved(value)
    assert isinstance(endpoint, SqliteEndpoint)
    assert endpoint.path == path
    assert "data" not in repr(endpoint)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("sqlite:///x.db", "absolute path"),
        ("sqlite://:memory:", "."),
        ("postgres://db?iam=true", "extra.iam"),
        ("postgres://db?adbc=perhaps", "extra.adbc"),
        ("mysql://db", "inside Airflow only"),
        ("{}", "inside Airflow only"),
        (json.dumps(FIELDS | {"host": "canary\0"}), "NUL"),
        (json.dumps(FIELDS | {"extra": "canary"}), "extra"),
    ],
)
def test_a_connection_that_is_no_source_is_refused_and_named(value: str, problem: str) -> None:
    with pytest.raises(DponeError, match="'erp'") as caught:
        resolved(value)
    assert caught.value.code == "DPONE_CONNECTION_INVALID"
    assert problem in caught.value.message
    assert "canary" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(("kind", "mark"), [("mysql", "`"), ("mssql", '"'), ("trino", '"')])
def test_another_type_is_opened_by_its_hook_which_is_not_made_yet(kind: str, mark: str) -> None:
    def hook() -> None:
        raise AssertionError("made too early")

    endpoint = sql_endpoint_of("erp", {"conn_type": kind, "password": PASSWORD}, hook=hook)
    assert isinstance(endpoint, HookEndpoint)
    assert endpoint.quote == mark
    assert PASSWORD not in repr(endpoint)
