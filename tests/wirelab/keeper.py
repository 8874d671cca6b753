"""A proxy between a ClickHouse server and its ZooKeeper that loses a chosen ``multi``: its request or its reply.

A frame of ZooKeeper's protocol is a 4-byte length and its body. A connection's first frame each way opens the session;
a request's body then begins with xid and operation, a reply's with xid, zxid and error, all big-endian.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

MULTI = 14
Lost = Literal["request", "reply"]


@dataclass
class Loss:
    """One ``multi`` to lose: the first whose body holds ``match``; the connection then closes on both sides."""

    lost: Lost
    match: bytes
    fired: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Session:
    client: socket.socket
    server: socket.socket
    doomed: int | None = None  # the xid whose reply will be lost

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class KeeperProxy:
    """Forwards frames to a ZooKeeper at ``HOST:PORT``; ``multis`` are the bodies of all ``multi`` requests seen."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._losses: list[Loss] = []
        self._sessions: list[_Session] = []
        self.multis: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> KeeperProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for session in list(self._sessions):
            session.close()

    def lose(self, lost: Lost, match: bytes) -> Loss:
        """Lose the next ``multi`` that holds ``match``."""
        loss = Loss(lost, match)
        self._losses.append(loss)
        return loss

    def seen(self, text: bytes) -> int:
        """In how many ``multi`` requests ``text`` stood."""
        return sum(text in body for body in list(self.multis))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = _Session(client, server)
            self._sessions.append(session)
            for way in (self._requests, self._replies):
                threading.Thread(target=self._run, args=(way, session), daemon=True).start()

    @staticmethod
    def _run(way: Callable[[_Session], None], session: _Session) -> None:
        with contextlib.suppress(OSError):
            way(session)
        session.close()

    def _requests(self, session: _Session) -> None:
        opened = False
        while (body := _frame(session.client)) is not None:
            if opened and _multi(body):
                self.multis.append(body)
                loss = self._take(body)
                if loss is not None and loss.lost == "request":
                    loss.fired.set()
                    return
                if loss is not None:
                    session.doomed = struct.unpack_from(">i", body)[0]
                    loss.fired.set()
            opened = True
            _send(session.server, body)

    def _replies(self, session: _Session) -> None:
        opened = False
        while (body := _frame(session.server)) is not None:
            if opened and session.doomed == struct.unpack_from(">i", body)[0]:
                return
            opened = True
            _send(session.client, body)

    def _take(self, body: bytes) -> Loss | None:
        found = next((loss for loss in self._losses if loss.match in body), None)
        if found is not None:
            self._losses.remove(found)
        return found


def _multi(body: bytes) -> bool:
    return len(body) >= 8 and struct.unpack_from(">i", body, 4)[0] == MULTI


def _frame(end: socket.socket) -> bytes | None:
    """The next frame's body, None at the end of the connection."""
    head = _exactly(end, 4)
    return _exactly(end, struct.unpack(">i", head)[0]) if head is not None else None


def _exactly(end: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)


def _send(end: socket.socket, body: bytes) -> None:
    end.sendall(struct.pack(">i", len(body)) + body)
