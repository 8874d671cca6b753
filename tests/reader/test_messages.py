"""Requests and responses: one spelling, exact fields, bounded."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.reader import messages
from dpone_provider.reader.messages import MessageRefused, ObservationError, ReaderRequest, ReplicaAddress

NONCE = "0123456789abcdef" * 2
REPLICA = ReplicaAddress(
    name="r1",
    host="db.example",
    port=9000,
    user="u",
    password="p@ss'w/rd",
    secure=True,
    verify=False,
    ca="/etc/ca.pem",
    connect_timeout_ms=10_000,
)
REQUEST = ReaderRequest(
    nonce=NONCE,
    budget_ms=59_000,
    max_memory_bytes=1 << 31,
    database="d`b",
    table="täble",
    generation="00000000-0000-4000-8000-000000000001",
    engine_full="MergeTree ORDER BY tuple()",
    columns=(("a", "Nullable(Int32)"), ("b", "String")),
    row_count=True,
    null_columns=("a",),
    distinct_columns=(),
    replicas=(REPLICA, attrs.evolve(REPLICA, name="r2", password="", ca=None)),
)
RESULT = {"replica": "r1", "row_count": MAX_INTEGER, "null_counts": {"a": 0}, "distinct_counts": {}}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def changed(line: bytes, *path: str | int, to: Any) -> bytes:
    """The line with one value replaced, or taken out with ``...``."""
    value = json.loads(line)
    place = value
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return canonical(value)


@pytest.mark.contract("R5")
def test_a_request_comes_back_as_it_was() -> None:
    line = messages.encode_request(REQUEST)
    assert messages.decode_request(line) == REQUEST
    assert line.count(b"\n") == 1
    assert line.isascii()


@pytest.mark.contract("R6")
def test_a_password_is_not_in_a_representation() -> None:
    assert "p@ss" not in repr(REQUEST)


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("kind",), "dpone.reader.request.v2"),
        (("nonce",), "0" * 31),
        (("nonce",), "A" * 32),
        (("budget_ms",), 0),
        (("budget_ms",), True),
        (("budget_ms",), 1.0),
        (("max_memory_bytes",), "1"),
        (("extra",), 1),
        (("target", "row_count"), 1),
        (("target", "table"), ""),
        (("target", "columns"), [["a"]]),
        (("target", "columns"), [["a", "Int8", "x"]]),
        (("target", "null_columns"), "a"),
        (("target", "null_columns"), None),
        (("target", "generation"), ...),
        (("target", "sql"), "SELECT 1"),
        (("replicas",), []),
        (("replicas", 0, "port"), 0),
        (("replicas", 0, "port"), True),
        (("replicas", 0, "password"), None),
        (("replicas", 0, "secure"), 0),
        (("replicas", 0, "ca"), ""),
        (("replicas", 0, "name"), "r2"),
        (("replicas", 0, "name"), "r3"),
    ],
)
def test_a_request_of_another_form_is_refused(path: tuple[str | int, ...], to: Any) -> None:
    with pytest.raises(MessageRefused):
        messages.decode_request(changed(messages.encode_request(REQUEST), *path, to=to))


@pytest.mark.contract("R5", "C4")
def test_a_request_over_its_bound_is_not_written() -> None:
    wide = attrs.evolve(REQUEST, columns=tuple((f"column_{number:05}", "String") for number in range(12_000)))
    with pytest.raises(MessageRefused):
        messages.encode_request(wide)


@pytest.mark.contract("R5")
def test_a_result_comes_back_as_it_was() -> None:
    response = messages.decode_response(messages.encode_result(NONCE, RESULT))
    assert (response.nonce, response.result, response.reason) == (NONCE, RESULT, None)


@pytest.mark.contract("R5")
@pytest.mark.parametrize("reason", ["deadline", "probe_unsupported", "server_error_999", "ttl", "answer"])
def test_an_error_comes_back_as_it_was(reason: str) -> None:
    response = messages.decode_response(messages.encode_error(NONCE, ObservationError(reason)))
    assert (response.nonce, response.result, response.reason) == (NONCE, None, reason)


@pytest.mark.contract("R5")
@pytest.mark.parametrize("reason", ["", "Deadline", "server_error_", "server_error_01", "server_error_x", "Code: 1"])
def test_the_vocabulary_is_closed(reason: str) -> None:
    with pytest.raises(ValueError):
        ObservationError(reason)
    line = messages.encode_error(NONCE, ObservationError("network"))
    with pytest.raises(MessageRefused):
        messages.decode_response(changed(line, "error", "reason", to=reason))


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("nonce",), None),
        (("result",), None),
        (("result",), []),
        (("error",), {"reason": "network", "unavailable": True}),
        (("more",), None),
        (("result", "replica"), ...),
        (("result", "replica"), ""),
        (("result", "null_counts"), None),
        (("result", "distinct_counts"), []),
        (("result", "rows"), 1),
    ],
)
def test_a_response_of_another_form_is_refused(path: tuple[str | int, ...], to: Any) -> None:
    with pytest.raises(MessageRefused):
        messages.decode_response(changed(messages.encode_result(NONCE, RESULT), *path, to=to))


@pytest.mark.contract("R5")
def test_an_error_that_contradicts_itself_is_refused() -> None:
    line = messages.encode_error(NONCE, ObservationError("network"))
    with pytest.raises(MessageRefused):
        messages.decode_response(changed(line, "error", "unavailable", to=False))


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null\n",
        b"[]\n",
        b"NaN\n",
        messages.encode_result(NONCE, RESULT)[:-1],
        messages.encode_result(NONCE, RESULT).replace(b":", b": ", 1),
        messages.encode_result(NONCE, RESULT).replace(b'{"error"', b'{"error":null,"error"', 1),
        messages.encode_result(NONCE, RESULT).replace(b"18446744073709551615", b"18446744073709551616"),
        messages.encode_result(NONCE, RESULT).replace(b"18446744073709551615", b"1e3"),
        b"[" * 900 + b"]" * 900 + b"\n",
        b'"' + b"x" * messages.MAX_BYTES + b'"\n',
        "ü\n".encode(),
        b"\xff\n",
    ],
)
def test_text_that_is_not_the_one_spelling_is_refused(line: bytes) -> None:
    with pytest.raises(MessageRefused):
        messages.decode_response(line)
