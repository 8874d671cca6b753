"""Ways in which a reply goes wrong after the statement has arrived. Each is a ``Reply``: it gets the first bytes.

None forwards the reply whole, but ``dripped`` given time. ``native`` and ``http`` hold the bytes that are made up.
"""

from __future__ import annotations

import random
import socket
import time

from tests.wirelab import http, native
from tests.wirelab.rules import QUIET, Link, Reply


def lost(quiet: float = QUIET) -> Reply:
    """All of it is swallowed, then the connection closes. Closing earlier would make the server cancel its work."""

    def reply(link: Link, data: bytes) -> None:
        link.more(quiet)

    return reply


def reset(link: Link, data: bytes) -> None:
    """Nothing of it arrives; the connection ends with RST."""
    link.more()
    link.reset()


def half_closed(link: Link, data: bytes) -> None:
    """The client reads an end where the reply should be, and can still send."""
    link.more()
    link.client.shutdown(socket.SHUT_WR)
    link.drain()


def silent(link: Link, data: bytes) -> None:
    """Nothing of it arrives, and the connection stays open."""
    link.drain()


def dripped(seconds: float) -> Reply:
    """One byte at a time."""

    def reply(link: Link, data: bytes) -> None:
        for byte in data + link.more():
            link.client.sendall(bytes([byte]))
            time.sleep(seconds)
        link.drain()

    return reply


def progressing(seconds: float) -> Reply:
    """Valid Progress packets of the connection's revision without an end, and never the reply."""

    def reply(link: Link, data: bytes) -> None:
        packet = native.progress(native.negotiated(bytes(link.carried), link.greeting))
        _forever(link, packet, seconds)

    return reply


def continuing(seconds: float) -> Reply:
    """Interim answers (100) without an end, and never the reply."""

    def reply(link: Link, data: bytes) -> None:
        _forever(link, http.CONTINUE, seconds)

    return reply


def _forever(link: Link, packet: bytes, seconds: float) -> None:
    while True:
        link.client.sendall(packet)  # ends with OSError once the client has gone
        time.sleep(seconds)


def truncated(link: Link, data: bytes) -> None:
    """The first half of it, then the end of the connection."""
    whole = data + link.more()
    link.client.sendall(whole[: len(whole) // 2])


def headless(link: Link, data: bytes) -> None:
    """Its first byte is another one: a packet of no known type, a status line that is none."""
    whole = data + link.more()
    link.client.sendall(bytes([whole[0] ^ 0xFF]) + whole[1:])
    link.drain()


def garbage(start: bytes, *, seed: int = 7, size: int = 300) -> Reply:
    """``start`` and then noise in its place, then the end of the connection."""
    noise = random.Random(seed).randbytes(size)

    def reply(link: Link, data: bytes) -> None:
        link.more()
        link.client.sendall(start + noise)

    return reply


def replaced(payload: bytes) -> Reply:
    """Something else in its place; the connection stays open."""

    def reply(link: Link, data: bytes) -> None:
        link.more()
        link.client.sendall(payload)
        link.drain()

    return reply


def endless(ending: int, *, closed: bool) -> Reply:
    """All of it but its last ``ending`` bytes; then silence, or the end of the connection."""

    def reply(link: Link, data: bytes) -> None:
        whole = data + link.more()
        link.client.sendall(whole[:-ending])
        if not closed:
            link.drain()

    return reply


def trailed(code: int) -> Reply:
    """HTTP: status 200, half of the body, the text of an exception, and a clean end."""

    def reply(link: Link, data: bytes) -> None:
        head, body = http.split(data + link.more())
        link.client.sendall(http.chunked(head, body[: len(body) // 2], http.exception_text(code)))
        link.drain()

    return reply


def emptied(link: Link, data: bytes) -> None:
    """HTTP: its own head with status 200, and an empty body."""
    head, _ = http.split(data + link.more())
    link.client.sendall(http.chunked(head))
    link.drain()


def cut_in_a_chunk(link: Link, data: bytes) -> None:
    """HTTP: a chunk that promises more than comes before the connection ends."""
    head, body = http.split(data + link.more())
    half = body[: len(body) // 2]
    link.client.sendall(http.chunked(head, last=b"%x\r\n%s" % (len(body) + 100, half)))
