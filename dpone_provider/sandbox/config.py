"""What a sandbox server is configured with, and the two XML files that say so. Pure: no file, no process, no clock."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import attrs

SettingValue = str | int | float | bool

MAIN_USER = "dpone"
LOOPBACK = "127.0.0.1"
LOOPBACK_NETWORKS = ("127.0.0.1", "::1")

# The embedded session signs in as `default` from 127.0.0.1 with an empty password, so `default` must be open there.
# With these grants, and no others, whoever else signs in as `default` can read and change nothing.
_KEEPALIVE_GRANTS = ("GRANT SYSTEM LISTEN ON *.*", "GRANT SELECT ON system.numbers")


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` expanded, absolute; symbolic links stay."""
    return Path(path).expanduser().absolute()


def _port(_instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if type(value) is not int or not 0 <= value <= 65535:
        raise ValueError(f"{attribute.name} must be a whole number from 0 (any free port) to 65535")


def _znode(_instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and (not value.startswith("/") or value.endswith("/")):
        raise ValueError(f"{attribute.name} must begin with '/' and not end with one")


@attrs.frozen(kw_only=True)
class SandboxUser:
    """A user of the server.

    ``settings`` are its profile (setting name to value); ``constant`` names settings that the user cannot change;
    ``networks`` are addresses or CIDR ranges; ``grants`` are whole GRANT statements (empty: every right).
    """

    name: str = attrs.field(validator=attrs.validators.matches_re(r"[A-Za-z_][A-Za-z0-9_]{0,63}"))
    password: str = attrs.field(repr=False)
    settings: Mapping[str, SettingValue] = attrs.field(factory=dict)
    constant: tuple[str, ...] = ()
    networks: tuple[str, ...] = LOOPBACK_NETWORKS
    grants: tuple[str, ...] = ()

    @name.validator
    def _not_default(self, _attribute: attrs.Attribute[str], value: str) -> None:
        if value == "default":
            raise ValueError("the user 'default' belongs to the embedded session; choose another name")


@attrs.frozen(kw_only=True)
class SandboxConfig:
    """A sandbox in ``folder``; port 0 means any free port.

    ``users`` come beside the main user ``dpone`` (every right, a password made at start); a user of that name in
    ``users`` replaces it. ``zookeeper`` is ``HOST:PORT``; None means a Keeper in memory that is gone at stop.

    Servers on one ZooKeeper need a ``keeper_sessions`` each: the embedded server's UUID is nil, and of two servers
    with one path for their sessions the later ends the earlier's session.
    """

    folder: Path = attrs.field(converter=absolute)
    tcp_port: int = attrs.field(default=0, validator=_port)
    http_port: int = attrs.field(default=0, validator=_port)
    users: tuple[SandboxUser, ...] = attrs.field(default=())
    zookeeper: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.matches_re(r"[A-Za-z0-9.\-]+:[0-9]{1,5}"))
    )
    keeper_sessions: str | None = attrs.field(default=None, validator=_znode)
    keeper_map_prefix: str = attrs.field(default="/keeper_map", validator=_znode)
    bound_to_starter: bool = False
    """The server stops by itself when the process that started it is gone (for tests; not for a shell)."""
    elements: str = ""
    """Further elements of ``config.xml``, as XML: ``<remote_servers>`` or ``<macros>``, say."""

    @users.validator
    def _distinct(self, _attribute: attrs.Attribute[tuple[SandboxUser, ...]], value: tuple[SandboxUser, ...]) -> None:
        if len({user.name for user in value}) != len(value):
            raise ValueError("users must have distinct names")

    def main_user(self, new_password: str) -> SandboxUser:
        """The user ``dpone``: as authored, else with ``new_password`` and every right."""
        return next((user for user in self.users if user.name == MAIN_USER), None) or SandboxUser(
            name=MAIN_USER, password=new_password
        )


def render_config(config: SandboxConfig) -> str:
    """``config.xml``: both listeners on loopback, a Keeper, a query log, all paths absolute."""
    folder = config.folder
    lines = [
        "<clickhouse>",
        "  <logger><level>information</level>"
        + _element("log", folder / "log" / "server.log")
        + _element("errorlog", folder / "log" / "error.log")
        + "<size>10M</size><count>2</count></logger>",
        "  " + _element("listen_host", LOOPBACK),
        "  " + _element("tcp_port", config.tcp_port) + _element("http_port", config.http_port),
        "  " + _element("keeper_map_path_prefix", config.keeper_map_prefix),
        "  <zookeeper>" + _keeper(config) + "</zookeeper>",
        "  <query_log><database>system</database><table>query_log</table>"
        "<flush_interval_milliseconds>1000</flush_interval_milliseconds></query_log>",
        "  " + _element("users_config", folder / "users.xml"),
        *([config.elements] if config.elements else []),
        "</clickhouse>",
    ]
    return "\n".join(lines) + "\n"


def _keeper(config: SandboxConfig) -> str:
    if config.zookeeper is None:
        return "<implementation>testkeeper</implementation>"
    host, _, port = config.zookeeper.rpartition(":")
    node = "<node>" + _element("host", host) + _element("port", port) + "</node>"
    return node + (_element("sessions_path", config.keeper_sessions) if config.keeper_sessions else "")


def render_users(users: Iterable[SandboxUser]) -> str:
    """``users.xml``: passwords only as SHA-256; ``default`` only on loopback and without any right of use."""
    users = tuple(users)
    lines = ["<clickhouse>", "  <profiles>", "    <default/>"]
    lines += [_profile(user) for user in users]
    lines += ["  </profiles>", "  <users>"]
    lines.append(_user("default", "<password></password>", "default", LOOPBACK_NETWORKS, _KEEPALIVE_GRANTS))
    for user in users:
        digest = hashlib.sha256(user.password.encode()).hexdigest()
        secret = _element("password_sha256_hex", digest)
        lines.append(_user(user.name, secret, f"profile_{user.name}", user.networks, user.grants))
    lines += ["  </users>", "  <quotas><default/></quotas>", "</clickhouse>"]
    return "\n".join(lines) + "\n"


def _profile(user: SandboxUser) -> str:
    settings = "".join(_element(name, _setting(value)) for name, value in user.settings.items())
    constraints = "".join(f"<{_tag(name)}><const/></{_tag(name)}>" for name in user.constant)
    body = settings + (f"<constraints>{constraints}</constraints>" if constraints else "")
    return "    " + f"<profile_{user.name}>{body}</profile_{user.name}>"


def _user(name: str, secret: str, profile: str, networks: Iterable[str], grants: Iterable[str]) -> str:
    allowed = "".join(_element("ip", network) for network in networks)
    granted = "".join(_element("query", grant) for grant in grants)
    body = f"{secret}<networks>{allowed}</networks>{_element('profile', profile)}<quota>default</quota>"
    return f"    <{name}>{body}" + (f"<grants>{granted}</grants>" if granted else "") + f"</{name}>"


def _setting(value: SettingValue) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _tag(name: str) -> str:
    """A name that may stand as an XML tag.

    Raises: ValueError for one that may not (a setting's name never holds markup).
    """
    if not name.isascii() or not name.replace("_", "a").isalnum() or name[:1].isdigit():
        raise ValueError(f"not a setting's name: {quoteattr(name)}")
    return name


def _element(name: str, value: object) -> str:
    return f"<{_tag(name)}>{escape(str(value))}</{_tag(name)}>"
