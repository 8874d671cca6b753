"""The connection: looked up, tried on both ports, never shown (F6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.home import Home

SCRIPT = """
import json
from dpone_provider.hooks.clickhouse import DponeClickHouseHook
refs = ("good", "no_http", "wrong", "official", "missing", "typo")
out([list(DponeClickHouseHook(ref).test_connection()) for ref in refs])
"""


@pytest.mark.contract("F6")
def test_a_connection_test_signs_in_on_both_ports(sandbox: RunningSandbox, airflow_home: Home, tmp_path: Path) -> None:
    good: dict[str, Any] = json.loads(connection_json(sandbox))
    official = {"port": sandbox.http_port, "extra": {"native_port": sandbox.tcp_port}}
    connections = {
        "GOOD": good,
        "NO_HTTP": {**good, "extra": {"http_port": 9}},
        "WRONG": {**good, "password": "p@ss'w/rd"},
        "OFFICIAL": {**good, "conn_type": "clickhouse", **official},
        "TYPO": {**good, "extra": {"htpp_port": 1}},
    }
    environ = {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}
    found, said = airflow_home.run(SCRIPT, folder=tmp_path, prelude="", **environ)
    verdicts = [verdict for verdict, _ in found]
    assert verdicts == [True, False, False, True, False, False]
    codes = [message.rsplit("(", 1)[-1].rstrip(")") for _, message in found]
    assert codes[1:3] == ["DPONE_SERVER_UNREACHABLE", "DPONE_SERVER_AUTHENTICATION"]
    assert codes[4:] == ["DPONE_CONNECTION_UNKNOWN", "DPONE_CONNECTION_INVALID"]
    assert "p@ss" not in said + json.dumps(found)
    assert sandbox.password not in said + json.dumps(found)
