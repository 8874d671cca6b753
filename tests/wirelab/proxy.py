"""A TCP proxy on loopback whose rules decide what becomes of the bytes."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from typing import Literal

from tests.wirelab import replies
from tests.wirelab.rules import PIECE, QUIET, Action, Link, Rule

Next = Literal["go on", "over"]


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

    @property
    def server_bytes(self) -> int:
        return sum(link.server_bytes for link in self.links)

    @property
    def carried(self) -> list[bytes]:
        """What every client sent, forwarded or not, a connection an item."""
        return [bytes(link.carried) for link in self.links]

    def seen(self, text: bytes) -> int:
        """How often ``text`` left a client, forwarded or not (first ``keep`` bytes of each connection)."""
        return sum(carried.count(text) for carried in self.carried)

    def close_all(self) -> None:
        """Cut every open connection."""
        for link in list(self.links):
            link.close()

    def vanish(self) -> None:
        """Stop listening: new connections are refused; those that are open stay."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread, which would keep the port open
        self._listener.close()

    def close(self) -> None:
        """Stop listening and cut everything."""
        self.vanish()
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

    def _take(self, link: Link, window: bytes) -> tuple[Rule | None, bool]:
        """The rule to apply, and whether the bytes were a moment that counts for one."""
        met = False
        with self._lock:
            for rule in self._rules:
                if not rule.meets(link, window):
                    continue
                met = True
                if not rule.skip:
                    rule.times -= 1
                    return rule, True
                rule.skip -= 1
        return None, met

    def _upstream(self, link: Link) -> None:
        tail = b""
        try:
            while data := link.client.recv(PIECE):
                link.client_bytes += len(data)
                rule, met = self._take(link, tail + data)
                tail = b"" if met else (tail + data)[-64:]  # what counted once does not count again
                if len(link.carried) < self._keep:
                    link.carried += data
                if link.deaf:
                    continue
                if rule is None:
                    link.server.sendall(data)
                elif self._apply(rule, link, data) == "over":
                    return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            link.server.shutdown(socket.SHUT_WR)

    def _apply(self, rule: Rule, link: Link, data: bytes) -> Next:
        match rule.action:
            case "refuse" | "reset" | "vanish" | "answer" | "deaf" | "respond":
                return self._keep_back(rule, link)
            case "hold":
                rule.fired.set()
                rule.released.wait()
            case "delay":
                time.sleep(rule.seconds)
            case "lose_reply":
                link.reply = replies.lost(rule.seconds or 0.25)
            case "reply":
                link.reply = rule.reply
        link.server.sendall(data)
        rule.fired.set()
        if rule.action == "close":
            link.close()
            return "over"
        return "go on"

    def _keep_back(self, rule: Rule, link: Link) -> Next:
        """The bytes never arrive."""
        rule.fired.set()
        if rule.action == "respond":
            self._swallow(link)
        if rule.action in ("answer", "respond"):
            link.client.sendall(rule.payload)
        if rule.action in ("deaf", "respond"):
            link.deaf = rule.deaf or rule.action == "deaf"
            return "go on"
        if rule.action == "vanish":
            self.vanish()
        if rule.action == "reset":
            link.reset()
        else:
            link.close()
        return "over"

    def _swallow(self, link: Link) -> None:
        """What is left of a statement that came in pieces; its sender waits for the answer then."""
        while select.select([link.client], [], [], QUIET)[0]:
            data = link.client.recv(PIECE)
            if not data:
                return
            link.client_bytes += len(data)
            link.carried += data

    def _downstream(self, link: Link) -> None:
        try:
            while data := link.server.recv(PIECE):
                link.server_bytes += len(data)
                link.greeting = link.greeting or data
                if link.reply is not None:
                    link.reply(link, data)
                    break
                if not link.deaf:
                    link.client.sendall(data)
        except OSError:
            pass
        if link.deaf:
            return  # the client is not told that the server has closed
        with contextlib.suppress(OSError):
            link.client.shutdown(socket.SHUT_RDWR)
