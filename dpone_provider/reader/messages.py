"""What parent and child say to each other: one request, one response, as strict canonical JSON (protocol 7; R5, R6).

Everything else is refused: other keys, other types, another spelling of the same value, more than ``MAX_BYTES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider import canonical

REQUEST_KIND = "dpone.reader.request.v1"
MAX_BYTES = 262_144
"""What one line may have, its newline included, either way."""

PROBE_UNSUPPORTED = "probe_unsupported"
SERVER_ERROR = "server_error_"
UNAVAILABLE_REASONS = frozenset(
    {"deadline", "network", "authentication", "server_overloaded", "server_denied", "setting_refused", "replica_health"}
    | {PROBE_UNSUPPORTED}
)
"""No observation now; ``server_error_<number>`` is one too. ``probe_unsupported``: no such metric for the type."""
DRIFT_REASONS = frozenset({"generation", "schema", "engine", "ttl", "row_policy", "mutation", "lightweight_delete"})
"""The live table is not what was sealed, or not what can be observed."""
INVALID_REASONS = frozenset({"answer", "setting_changed"})
"""The server answered something else than what was asked, or under another setting than was sent."""

_NONCE = re.compile(r"[0-9a-f]{32}")
_SERVER_ERROR = re.compile(SERVER_ERROR + r"(0|[1-9][0-9]{0,9})")


class MessageRefused(ValueError):
    """The text is not such a message. Says nothing of its content."""


class ObservationError(Exception):
    """The child's error answer. ``reason``: one of the closed vocabulary; ``unavailable`` follows from it."""

    def __init__(self, reason: str) -> None:
        if not known_reason(reason):
            raise ValueError("the reason is not in the vocabulary")
        self.reason = reason
        self.unavailable = is_unavailable(reason)
        super().__init__(reason)


def is_unavailable(reason: str) -> bool:
    """Whether a reason says "not now", neither drift nor an answer that cannot be trusted."""
    return reason in UNAVAILABLE_REASONS or _SERVER_ERROR.fullmatch(reason) is not None


def known_reason(reason: Any) -> bool:
    """Whether it is a reason of the closed vocabulary."""
    return type(reason) is str and (is_unavailable(reason) or reason in DRIFT_REASONS | INVALID_REASONS)


@attrs.frozen(kw_only=True)
class ReplicaAddress:
    """Where the child dials one replica, over native TCP. ``name``: its inventory name; ``ca``: path of a CA bundle."""

    name: str
    host: str
    port: int
    user: str
    password: str = attrs.field(repr=False)
    secure: bool
    verify: bool
    ca: str | None
    connect_timeout_ms: int


@attrs.frozen(kw_only=True)
class ReaderRequest:
    """What the child observes. ``budget_ms``: all that it may take from now on; ``max_memory_bytes``: per query.

    ``generation``: the UUID that must be live; ``columns``: ordered ``(name, type)`` of the whole table;
    ``replicas``: sorted by name, the first one is scanned.
    """

    nonce: str
    budget_ms: int
    max_memory_bytes: int
    database: str
    table: str
    generation: str
    engine_full: str
    columns: tuple[tuple[str, str], ...]
    row_count: bool
    null_columns: tuple[str, ...]
    distinct_columns: tuple[str, ...]
    replicas: tuple[ReplicaAddress, ...]


@attrs.frozen(kw_only=True)
class ReaderResponse:
    """What the child answers: a result in the form of ``_RESULT``, its counts not judged yet, or a reason."""

    nonce: str
    result: Mapping[str, Any] | None
    reason: str | None


Check = Callable[[Any], bool]


def _is(kind: type) -> Check:
    return lambda value: type(value) is kind


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _list_of(check: Check) -> Check:
    return lambda value: type(value) is list and all(check(item) for item in value)


def _text(value: Any) -> bool:
    return type(value) is str and value != ""


def _nonce(value: Any) -> bool:
    return type(value) is str and _NONCE.fullmatch(value) is not None


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


_TARGET: dict[str, Check] = {
    "database": _text,
    "table": _text,
    "generation": _text,
    "engine_full": _text,
    "columns": _list_of(lambda value: _list_of(_text)(value) and len(value) == 2),
    "row_count": _is(bool),
    "null_columns": _list_of(_text),
    "distinct_columns": _list_of(_text),
}
_REPLICA: dict[str, Check] = {
    "name": _text,
    "host": _text,
    "port": lambda value: _positive(value) and value < 65536,
    "user": _text,
    "password": _is(str),
    "secure": _is(bool),
    "verify": _is(bool),
    "ca": _or_null(_text),
    "connect_timeout_ms": _positive,
}
_REQUEST: dict[str, Check] = {
    "kind": lambda value: value == REQUEST_KIND,
    "nonce": _nonce,
    "budget_ms": _positive,
    "max_memory_bytes": _positive,
    "target": _is(dict),
    "replicas": lambda value: type(value) is list and value != [],
}
_RESULT: dict[str, Check] = {
    "replica": _text,
    "row_count": lambda _: True,
    "null_counts": _is(dict),
    "distinct_counts": _is(dict),
}
_RESPONSE: dict[str, Check] = {"nonce": _nonce, "result": _or_null(_is(dict)), "error": _or_null(_is(dict))}
_ERROR: dict[str, Check] = {"reason": known_reason, "unavailable": _is(bool)}


def encode_request(request: ReaderRequest) -> bytes:
    """The request's line. Raises ``MessageRefused`` when a field has another type or the line would be too long."""
    value = attrs.asdict(request)
    target = {name: value.pop(name) for name in _TARGET}
    line = _line({"kind": REQUEST_KIND, **value, "target": target})
    decode_request(line)
    return line


def decode_request(line: bytes) -> ReaderRequest:
    """The request of a line. Raises ``MessageRefused``."""
    value = _exact(_value(line), _REQUEST)
    target = _exact(value.pop("target"), _TARGET)
    replicas = tuple(ReplicaAddress(**_exact(item, _REPLICA)) for item in value.pop("replicas"))
    names = [replica.name for replica in replicas]
    if names != sorted(set(names)):
        raise MessageRefused("the replicas are not sorted, or one is there twice")
    del value["kind"]
    target["columns"] = tuple((name, kind) for name, kind in target["columns"])
    for name in ("null_columns", "distinct_columns"):
        target[name] = tuple(target[name])
    return ReaderRequest(**value, **target, replicas=replicas)


def encode_result(nonce: str, result: Mapping[str, Any]) -> bytes:
    """The line of an observation. Raises ``MessageRefused``."""
    line = _line({"nonce": nonce, "result": dict(result), "error": None})
    decode_response(line)
    return line


def encode_error(nonce: str, error: ObservationError) -> bytes:
    """The line of an error answer."""
    return _line({"nonce": nonce, "result": None, "error": {"reason": error.reason, "unavailable": error.unavailable}})


def decode_response(line: bytes) -> ReaderResponse:
    """The response of a line; whether its counts are possible is not judged here. Raises ``MessageRefused``."""
    value = _exact(_value(line), _RESPONSE)
    result, error = value["result"], value["error"]
    if (result is None) == (error is None):
        raise MessageRefused("a response is either a result or an error")
    if result is not None:
        return ReaderResponse(nonce=value["nonce"], result=_exact(result, _RESULT), reason=None)
    answer = _exact(error, _ERROR)
    if answer["unavailable"] is not is_unavailable(answer["reason"]):
        raise MessageRefused("an error contradicts itself")
    return ReaderResponse(nonce=value["nonce"], result=None, reason=answer["reason"])


def _line(value: Any) -> bytes:
    try:
        line = canonical.encode(value).encode("ascii") + b"\n"
    except canonical.NotCanonical:
        raise MessageRefused("the message cannot be written") from None
    if len(line) > MAX_BYTES:
        raise MessageRefused("the message is too long")
    return line


def _value(line: bytes) -> Any:
    if len(line) > MAX_BYTES or not line.endswith(b"\n"):
        raise MessageRefused("the line is too long or has no end")
    try:
        return canonical.decode(line[:-1].decode("ascii"), max_bytes=MAX_BYTES)
    except (canonical.NotCanonical, UnicodeDecodeError, RecursionError):
        raise MessageRefused("the line is not canonical JSON") from None


def _exact(value: Any, checks: Mapping[str, Check]) -> dict[str, Any]:
    if type(value) is not dict or value.keys() != checks.keys():
        raise MessageRefused("a message has other keys")
    for name, check in checks.items():
        if not check(value[name]):
            raise MessageRefused(f"{name} is not allowed")
    return dict(value)
