"""A TCP proxy with programmable faults: what the wire really carried, and what happens when it tears.

with TcpProxy(port) as proxy:
    rule = proxy.rule("lose_reply", match=b"EXCHANGE TABLES")
    ...                                  # talk to proxy.port
    assert proxy.seen(b"EXCHANGE TABLES") == 1
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["refuse", "close", "lose_reply", "hold", "delay", "answer"]


@dataclass
class Rule:
    """What to do with client bytes.

    It fires when ``match`` is among them, ``after`` bytes of the connection are reached, and the connection carried
    ``once_seen`` before; ``times`` times.

    refuse: close both sides, the bytes never arrive. close: forward, then close both sides. lose_reply: forward, wait
    until the server has replied and been quiet for ``seconds`` (0.25), swallow its replies and close the client's side.
    hold: keep the bytes of this connection until ``release()``; they arrive even if the client is gone by then.
    delay: sleep ``seconds``, forward. answer: forward nothing, send ``payload`` to the client and close.
    """

    action: Action
    match: bytes = b""
    after: int = 0
    once_seen: bytes = b""
    times: int = 1
    seconds: float = 0.0
    payload: bytes = b""
    fired: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()


@dataclass
class Link:
    """One client connection and what passed over it."""

    client: socket.socket
    server: socket.socket
    client_bytes: int = 0
    server_bytes: int = 0
    carried: bytearray = field(default_factory=bytearray)
    lose: float | None = None

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class TcpProxy:
    """Forwards loopback connections to ``target_port``.

    ``connections``, ``client_bytes``, ``seen()`` count what was sent.
    """

    def __init__(self, target_port: int, *, keep: int = 4_000_000) -> None:
        self._target = target_port
        self._keep = keep
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self.links: list[Link] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rule(self, action: Action, **options: object) -> Rule:
        rule = Rule(action, **options)  # type: ignore[arg-type]
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget all rules; what is held is released."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.release()

    @property
    def connections(self) -> int:
        return len(self.links)

    @property
    def client_bytes(self) -> int:
        return sum(link.client_bytes for link in self.links)

    def seen(self, text: bytes) -> int:
        """How often ``text`` left a client, forwarded or not (first ``keep`` bytes of each connection)."""
        return sum(bytes(link.carried).count(text) for link in self.links)

    def close_all(self) -> None:
        """Cut every open connection."""
        for link in list(self.links):
            link.close()

    def close(self) -> None:
        """Stop listening and cut everything."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread, which would keep the port open
        self._listener.close()
        self.clear()
        self.close_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            self.links.append(link)
            threading.Thread(target=self._upstream, args=(link,), daemon=True).start()
            threading.Thread(target=self._downstream, args=(link,), daemon=True).start()

    def _take(self, link: Link, window: bytes) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                ready = rule.times > 0 and link.client_bytes >= rule.after and rule.once_seen in link.carried
                if ready and rule.match in window:
                    rule.times -= 1
                    return rule
        return None

    def _upstream(self, link: Link) -> None:
        tail = b""
        try:
            while data := link.client.recv(262_144):
                link.client_bytes += len(data)
                window = tail + data
                tail = window[-64:]
                rule = self._take(link, window)
                if len(link.carried) < self._keep:
                    link.carried += data
                if rule is None:
                    link.server.sendall(data)
                    continue
                tail = b""
                if not self._apply(rule, link, data):
                    return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            link.server.shutdown(socket.SHUT_WR)

    def _apply(self, rule: Rule, link: Link, data: bytes) -> bool:
        if rule.action == "answer":
            link.client.sendall(rule.payload)
        elif rule.action == "hold":
            rule.fired.set()
            rule.released.wait()
        elif rule.action == "delay":
            time.sleep(rule.seconds)
        elif rule.action == "lose_reply":
            link.lose = rule.seconds or 0.25
        if rule.action not in ("refuse", "answer"):
            link.server.sendall(data)
        rule.fired.set()
        if rule.action in ("refuse", "answer", "close"):
            link.close()
            return False
        return True

    def _downstream(self, link: Link) -> None:
        try:
            while data := link.server.recv(262_144):
                link.server_bytes += len(data)
                if link.lose is not None:
                    self._swallow(link, link.lose)
                    break
                link.client.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            link.client.shutdown(socket.SHUT_RDWR)

    def _swallow(self, link: Link, quiet: float) -> None:
        """Read on until the server is quiet for ``quiet`` seconds: closing earlier would make it cancel its work."""
        while select.select([link.server], [], [], quiet)[0]:
            data = link.server.recv(262_144)
            if not data:
                return
            link.server_bytes += len(data)
