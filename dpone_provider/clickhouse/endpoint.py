"""Where a ClickHouse server is and how to log in: a value, read out of an Airflow-style connection.

No driver, no socket.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

from dpone_provider.errors import DponeError

AUTHENTICATION_CODES = frozenset({192, 193, 194, 516})
"""Server errors that mean a wrong user or password, on either port."""
PASSING_CODES = frozenset({159, 160, 201, 202, 209, 210, 241, 242, 243, 319, 999})
"""Server errors that pass by themselves: time, load, quota, memory, disk, network, Keeper."""
OWN_TYPE = "dpone_clickhouse"
OFFICIAL_TYPE = "clickhouse"
_FIELDS = frozenset(
    {"http_port", "secure", "verify", "ca", "replica_addresses", "authority_database"}
    | {"connect_timeout", "receive_timeout"}
)


@attrs.frozen(kw_only=True)
class Endpoint:
    """One server with both ports, or the shard that it belongs to.

    ``ca``: path of a CA bundle, None = the system's. ``replica_addresses``: ``(advertised name, host, native port)``,
    sorted. ``database``: the session's database, "" = the user's default. ``connect_timeout``, ``receive_timeout``:
    seconds a socket operation may take; the second is no deadline of a statement.
    """

    host: str
    native_port: int = 9000
    http_port: int = 8123
    user: str = "default"
    password: str = attrs.field(default="", repr=False)
    secure: bool = False
    verify: bool = True
    ca: str | None = None
    database: str = ""
    replica_addresses: tuple[tuple[str, str, int], ...] = ()
    authority_database: str | None = None
    connect_timeout: float = 10.0
    receive_timeout: float = 300.0

    def replica(self, name: str) -> Endpoint:
        """The endpoint to dial for a replica by its advertised name. Raises ``DponeError`` DPONE_CONNECTION_INVALID."""
        address = {known: (host, port) for known, host, port in self.replica_addresses}.get(name)
        if address is None:
            _invalid("extra.replica_addresses", f"has no replica {name!r}")
        return attrs.evolve(self, host=address[0], native_port=address[1], replica_addresses=())


def endpoint_from_connection(
    conn_type: str,
    host: str | None,
    port: int | None,
    login: str | None,
    password: str | None,
    extra: Mapping[str, Any] | str | None,
    schema: str | None,
) -> Endpoint:
    """Read a connection of type ``dpone_clickhouse`` (port = native) or the official ``clickhouse`` (port = HTTP).

    Extras of a connection written as a URI are strings: "true", "0", "9440" are read as what they say.
    Raises ``DponeError`` DPONE_CONNECTION_INVALID naming the field.
    """
    if conn_type not in (OWN_TYPE, OFFICIAL_TYPE):
        _invalid("conn_type", f"must be {OWN_TYPE} or {OFFICIAL_TYPE}")
    own = conn_type == OWN_TYPE
    extras = connection_extras(extra)
    if own:
        _refuse_unknown(extras)
    secure = _flag(extras, "secure", False)
    native_default, http_default = (9440, 8443) if secure else (9000, 8123)
    given = _number("port", port) if port is not None else None
    native = given if own else _port(extras, "native_port")
    http = _port(extras, "http_port") if own else given
    receive = "receive_timeout" if own or "receive_timeout" in extras else "send_receive_timeout"
    return Endpoint(
        host=_text("host", host or _missing("host")),
        native_port=native or native_default,
        http_port=http or http_default,
        user=login or "default",
        password=password or "",
        secure=secure,
        verify=_flag(extras, "verify", True),
        ca=_optional(extras, "ca") or (None if own else _optional(extras, "ca_cert")),
        database=schema or "",
        replica_addresses=_addresses(extras.get("replica_addresses")),
        authority_database=_optional(extras, "authority_database"),
        connect_timeout=_seconds(extras, "connect_timeout", 10.0),
        receive_timeout=_seconds(extras, receive, 300.0),
    )


def endpoint_of(ref: str, fields: Mapping[str, Any]) -> Endpoint:
    """The endpoint of Airflow's connection fields. The message names the connection."""
    try:
        return endpoint_from_connection(
            str(fields.get("conn_type") or ""),
            fields.get("host"),
            fields.get("port"),
            fields.get("login"),
            fields.get("password"),
            fields.get("extra"),
            fields.get("schema"),
        )
    except DponeError as error:
        raise DponeError(error.code, f"Connection {ref!r}: {error.message}", remedy=error.next_step) from error


def _invalid(field: str, problem: str) -> NoReturn:
    message = f"The connection's field {field} {problem}."
    raise DponeError("DPONE_CONNECTION_INVALID", message, remedy=f"Correct {field} of the connection.")


def _missing(field: str) -> NoReturn:
    _invalid(field, "is missing")


def connection_extras(extra: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The extra fields that are set. Raises ``DponeError`` DPONE_CONNECTION_INVALID when they are no mapping."""
    if isinstance(extra, str):
        try:
            extra = json.loads(extra) if extra.strip() else {}
        except ValueError:
            _invalid("extra", "is not JSON")
    if not isinstance(extra or {}, Mapping):
        _invalid("extra", "must be a JSON object")
    return {name: value for name, value in (extra or {}).items() if value is not None and value != ""}


def _refuse_unknown(extras: Mapping[str, Any]) -> None:
    for name in extras:
        if name == "native_port":
            _invalid("extra.native_port", f"stands twice: in type {OWN_TYPE} the connection's port is the native port")
        if name not in _FIELDS:
            _invalid(f"extra.{name}", "is not known")


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or any(character.isspace() for character in value):
        _invalid(field, "must be a text without spaces")
    return value


def _optional(extras: Mapping[str, Any], name: str) -> str | None:
    value = extras.get(name)
    if value is not None and not isinstance(value, str):
        _invalid(f"extra.{name}", "must be a text")
    return value


def _flag(extras: Mapping[str, Any], name: str, default: bool) -> bool:
    value = extras.get(name, default)
    if type(value) is bool:
        return value
    known = {"true": True, "1": True, "false": False, "0": False}
    if str(value).lower() not in known:
        _invalid(f"extra.{name}", "must be true or false")
    return known[str(value).lower()]


def _number(field: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if type(value) is not int or not 0 < value < 65536:
        _invalid(field, "must be a port, 1 to 65535")
    return int(value)


def _port(extras: Mapping[str, Any], name: str) -> int | None:
    return _number(f"extra.{name}", extras[name]) if name in extras else None


def _seconds(extras: Mapping[str, Any], name: str, default: float) -> float:
    value = extras.get(name, default)
    try:
        seconds = float(value) if type(value) in (int, float, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        _invalid(f"extra.{name}", "must be seconds, above 0 and below 86400")
    return seconds


def _addresses(value: Any) -> tuple[tuple[str, str, int], ...]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            _invalid("extra.replica_addresses", "is not JSON")
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        _invalid("extra.replica_addresses", 'must map a replica\'s name to "host:port"')
    found = []
    for name, address in value.items():
        field = f"extra.replica_addresses.{name}"
        host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not name or not colon:
            _invalid(field, 'must be "host:port"')
        found.append((name, _text(field, host.removeprefix("[").removesuffix("]")), _number(field, port)))
    if len({(host, port) for _, host, port in found}) != len(found):
        _invalid("extra.replica_addresses", "gives two replicas one address")
    return tuple(sorted(found))
