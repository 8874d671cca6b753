"""The two XML files: well-formed, escaped, without a password in plain text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpone_provider.sandbox.config import SandboxConfig, SandboxUser, render_config, render_users


def test_markup_in_a_folder_name_is_escaped() -> None:
    tree = ElementTree.fromstring(render_config(SandboxConfig(folder=Path("/x/<a>&'b\""))))
    assert tree.findtext("users_config") == "/x/<a>&'b\"/users.xml"


def test_a_password_stands_only_as_its_hash() -> None:
    user = SandboxUser(name="reader", password="<s3cret&>", settings={"max_threads": 2, "async_insert": False})
    text = render_users([user])
    tree = ElementTree.fromstring(text)
    assert "s3cret" not in text
    assert "s3cret" not in repr(user)
    assert tree.findtext("users/reader/password_sha256_hex") == hashlib.sha256(b"<s3cret&>").hexdigest()
    assert tree.findtext("profiles/profile_reader/async_insert") == "0"


def test_default_may_only_keep_the_server_open() -> None:
    tree = ElementTree.fromstring(render_users([]))
    assert {ip.text for ip in tree.findall("users/default/networks/ip")} == {"127.0.0.1", "::1"}
    assert [query.text for query in tree.findall("users/default/grants/query")] == [
        "GRANT SYSTEM LISTEN ON *.*",
        "GRANT SELECT ON system.numbers",
    ]


def test_zookeeper_replaces_the_keeper_in_memory() -> None:
    config = SandboxConfig(folder=Path("x"), zookeeper="127.0.0.1:2181", keeper_sessions="/share")
    tree = ElementTree.fromstring(render_config(config))
    assert tree.findtext("zookeeper/node/port") == "2181"
    assert tree.findtext("zookeeper/sessions_path") == "/share"
    assert tree.find("zookeeper/implementation") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"tcp_port": True},
        {"http_port": 65536},
        {"zookeeper": "host"},
        {"keeper_sessions": "share"},
        {"keeper_sessions": "/"},
    ],
)
def test_a_wrong_field_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        SandboxConfig(folder=Path("x"), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["default", "a b", "<a>", ""])
def test_a_wrong_user_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        SandboxUser(name=name, password="p")


def test_a_settings_name_with_markup_is_refused() -> None:
    with pytest.raises(ValueError, match="not a setting's name"):
        render_users([SandboxUser(name="u", password="p", settings={"a><b": 1})])
