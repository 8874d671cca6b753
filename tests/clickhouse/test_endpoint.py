"""A connection becomes an endpoint, or an error that names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpone_provider.clickhouse.endpoint import Endpoint, endpoint_from_connection
from dpone_provider.errors import DponeError


def own(extra: Any = None, *, host: str | None = "ch", port: Any = None, password: str | None = "p") -> Endpoint:
    return endpoint_from_connection("dpone_clickhouse", host, port, "loader", password, extra, None)


def official(extra: Any = None, *, port: Any = None) -> Endpoint:
    return endpoint_from_connection("clickhouse", "ch", port, None, None, extra, "analytics")


def problem(call: Any) -> str:
    with pytest.raises(DponeError) as caught:
        call()
    assert caught.value.code == "DPONE_CONNECTION_INVALID"
    return caught.value.message


def test_own_type_takes_the_port_as_the_native_one() -> None:
    found = own({"http_port": 18123}, port=19000)
    assert (found.native_port, found.http_port, found.user) == (19000, 18123, "loader")


def test_official_type_takes_the_port_as_the_http_one() -> None:
    found = official({"native_port": "19000", "send_receive_timeout": 60}, port=18123)
    assert (found.native_port, found.http_port, found.user) == (19000, 18123, "default")
    assert (found.database, found.receive_timeout, found.password) == ("analytics", 60.0, "")


@pytest.mark.parametrize(("secure", "ports"), [(False, (9000, 8123)), (True, (9440, 8443))])
def test_default_ports_follow_tls(secure: bool, ports: tuple[int, int]) -> None:
    for found in (own({"secure": secure}), official({"secure": secure})):
        assert (found.native_port, found.http_port) == ports


def test_extras_of_a_uri_are_strings_and_read_as_what_they_say() -> None:
    found = own(
        json.dumps({"secure": "true", "verify": "0", "http_port": "8444", "connect_timeout": "2.5", "ca": "/ca"})
    )
    assert (found.secure, found.verify, found.http_port, found.connect_timeout, found.ca) == (
        True,
        False,
        8444,
        2.5,
        "/ca",
    )


def test_replica_addresses_are_sorted_and_dialled_by_name() -> None:
    found = own({"replica_addresses": {"r2": "h2:9002", "r1": "[::1]:9001"}, "authority_database": "ops"})
    assert found.replica_addresses == (("r1", "::1", 9001), ("r2", "h2", 9002))
    assert (found.replica("r2").host, found.replica("r2").native_port, found.authority_database) == ("h2", 9002, "ops")
    assert "no replica 'r3'" in problem(lambda: found.replica("r3"))


def test_official_type_ignores_extras_that_are_not_ours() -> None:
    assert official({"session_settings": {"max_threads": 1}, "ca_cert": "/ca.pem"}).ca == "/ca.pem"


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"secure": "maybe"}, "extra.secure"),
        ({"verify": 2}, "extra.verify"),
        ({"http_port": 0}, "extra.http_port"),
        ({"http_port": 65536}, "extra.http_port"),
        ({"http_port": True}, "extra.http_port"),
        ({"http_port": "8123x"}, "extra.http_port"),
        ({"native_port": 9000}, "extra.native_port"),
        ({"ca": 1}, "extra.ca"),
        ({"replica_adresses": {}}, "extra.replica_adresses"),
        ({"replica_addresses": ["a:1"]}, "extra.replica_addresses"),
        ({"replica_addresses": "{"}, "extra.replica_addresses"),
        ({"replica_addresses": {"a": "host"}}, "extra.replica_addresses.a"),
        ({"replica_addresses": {"a": "host:x"}}, "extra.replica_addresses.a"),
        ({"replica_addresses": {"a": ":9000"}}, "extra.replica_addresses.a"),
        ({"replica_addresses": {"a": "h:1", "b": "h:1"}}, "extra.replica_addresses"),
        ({"connect_timeout": -1}, "extra.connect_timeout"),
        ({"connect_timeout": "nan"}, "extra.connect_timeout"),
        ("[1]", "extra"),
        ("{", "extra"),
    ],
)
def test_a_bad_extra_is_named(extra: Any, field: str) -> None:
    assert f"field {field} " in problem(lambda: own(extra))


def test_a_bad_host_port_or_type_is_named() -> None:
    assert "field host " in problem(lambda: own(host=None))
    assert "field host " in problem(lambda: own(host="a b"))
    assert "field port " in problem(lambda: own(port=70000))
    assert "conn_type" in problem(lambda: endpoint_from_connection("mysql", "h", 1, None, None, None, None))


def test_the_password_is_in_no_text_of_the_endpoint_and_may_be_empty() -> None:
    """Field report B19."""
    assert "secret" not in repr(own(password="secret"))
    assert own(password="").password == ""
    assert own(password=None).password == ""
