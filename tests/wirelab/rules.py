"""What a proxy is told to do with a connection, and one connection with what passed over it."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Action = Literal[
    "refuse", "reset", "vanish", "deaf", "respond", "answer", "close", "lose_reply", "reply", "hold", "delay"
]
PIECE = 262_144
QUIET = 0.05
"""Seconds without a byte after which a server's reply counts as whole."""


@dataclass
class Link:
    """One client connection, its server connection, and what passed over them.

    ``carried``: what the client sent, forwarded or not; ``greeting``: the server's first bytes. ``reply``: set when the
    server's next bytes are to be tampered with. ``deaf``: what the client sends from here on goes nowhere.
    """

    client: socket.socket
    server: socket.socket
    client_bytes: int = 0
    server_bytes: int = 0
    carried: bytearray = field(default_factory=bytearray)
    greeting: bytes = b""
    reply: Reply | None = None
    deaf: bool = False

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def reset(self) -> None:
        """End the client's side with RST, the server's in order."""
        with contextlib.suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.client.shutdown(socket.SHUT_RD)  # wakes the thread that reads it, which would keep it open
        self.client.close()
        self.close()

    def more(self, quiet: float = QUIET) -> bytes:
        """What else the server sends until it is quiet for ``quiet`` seconds or gone."""
        parts = []
        while select.select([self.server], [], [], quiet)[0]:
            data = self.server.recv(PIECE)
            if not data:
                break
            self.server_bytes += len(data)
            parts.append(data)
        return b"".join(parts)

    def drain(self) -> None:
        """Read and forget until the server closes, which it does once the client has gone."""
        while data := self.server.recv(PIECE):
            self.server_bytes += len(data)


Reply = Callable[[Link, bytes], None]
"""Handles the server's reply from its first bytes on, instead of forwarding it. When it returns, both sides close."""


@dataclass
class Rule:
    """What to do with client bytes.

    It fires when ``match`` is among them, ``after`` bytes of the connection are reached, and the connection carried
    ``once_seen`` before; ``times`` times, after ``skip`` such moments.

    The bytes never arrive: refuse closes both sides; reset does so with RST; vanish closes and stops listening; deaf
    keeps the connection open and swallows what comes; respond swallows the whole statement, sends ``payload`` to the
    client, and is then ``deaf`` or goes on with the next; answer sends ``payload`` and closes.
    They arrive: close then closes both sides at once; lose_reply waits until the server has replied and been quiet for
    ``seconds`` (0.25), swallows its replies and closes; reply hands the server's reply to ``reply``.
    Later: hold keeps them until ``release()``, and they arrive even if the client is gone by then; delay sleeps
    ``seconds`` first.
    """

    action: Action
    match: bytes = b""
    after: int = 0
    once_seen: bytes = b""
    skip: int = 0
    times: int = 1
    seconds: float = 0.0
    payload: bytes = b""
    deaf: bool = False
    reply: Reply | None = None
    fired: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()

    def meets(self, link: Link, window: bytes) -> bool:
        """Whether the bytes are a moment for this rule."""
        ready = self.times > 0 and link.client_bytes >= self.after and self.once_seen in link.carried
        return ready and self.match in window
