"""Packets of ClickHouse's native protocol, as a server would send them."""

from __future__ import annotations

import struct
from typing import Final

END_OF_STREAM: Final = b"\x05"
UNKNOWN: Final = b"\xfe\x7f"
DATA, PONG = b"\x01", b"\x04"

_TOTAL_ROWS = 51554  # the first revisions whose Progress carries each field
_WRITTEN = 54420
_ELAPSED = 54460
_TOTAL_BYTES = 54463


def varint(value: int) -> bytes:
    """An unsigned LEB128 number."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def text(value: str) -> bytes:
    """A String: its length, its bytes."""
    data = value.encode()
    return varint(len(data)) + data


def exception(code: int, message: str = "DB::Exception: made up by the wire") -> bytes:
    """An Exception packet without a nested one."""
    return b"\x02" + struct.pack("<i", code) + text("DB::Exception") + text(message) + text("") + b"\x00"


def progress(revision: int, *, rows: int = 1, size: int = 8) -> bytes:
    """A Progress packet as a connection of this revision reads it."""
    fields = [rows, size]
    fields += [0] if revision >= _TOTAL_ROWS else []
    fields += [0] if revision >= _TOTAL_BYTES else []
    fields += [0, 0] if revision >= _WRITTEN else []
    fields += [1000] if revision >= _ELAPSED else []
    return b"\x03" + b"".join(map(varint, fields))


def negotiated(client_hello: bytes, server_hello: bytes) -> int:
    """The revision that both sides of a connection use, out of their Hello packets."""
    return min(_revision(client_hello), _revision(server_hello))


def _revision(hello: bytes) -> int:
    """Hello: packet type 0, a name, major and minor version, revision."""
    length, at = _read(hello, 1)
    at += length
    for _ in range(2):
        _, at = _read(hello, at)
    return _read(hello, at)[0]


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A varint at a place, and the place after it."""
    value = shift = 0
    while data[at] > 0x7F:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
