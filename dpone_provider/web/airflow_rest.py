"""Asking Airflow's own REST API inside its process, as the caller: whoever may see a task instance may see its load.

No permission is checked here, and nothing is read past the API: what Airflow refuses is refused (its 401, 403, 404).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, urlencode

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]
_COOKIE = "_token"  # of the UI's session


class Refused(Exception):
    """Airflow answered with something else than 200."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"Airflow answered {status}")


class AirflowRest:
    """The API of the Airflow in which ``scope``, a request to a mounted app, was made."""

    def __init__(self, scope: Message) -> None:
        self._app: App = scope["app"]
        self._scope = {name: scope[name] for name in ("asgi", "client", "server", "scheme", "state") if name in scope}
        self._credentials = list(_credentials(scope.get("headers", ())))

    async def get(self, *segments: str, **query: str | int) -> Any:
        """The JSON value at ``/api/v2/…``; every segment is one name. Raises ``Refused``."""
        exchange = _Exchange()
        scope = {
            **self._scope,
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": "/".join(("/api/v2", *segments)),
            "raw_path": "/".join(("/api/v2", *(quote(segment, safe="") for segment in segments))).encode(),
            "root_path": "",
            "query_string": urlencode(query).encode(),
            "headers": [(b"host", b"localhost"), (b"accept", b"application/json"), *self._credentials],
        }
        await self._app(scope, exchange.receive, exchange.send)
        if exchange.status != 200:
            raise Refused(exchange.status)
        try:
            return json.loads(exchange.body)
        except ValueError:
            raise Refused(502) from None


class _Exchange:
    """One request without a body, and its answer."""

    def __init__(self) -> None:
        self.status = 502
        self.body = b""
        self._asked = False
        self._answered = asyncio.Event()

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._answered.wait()  # whoever asks again waits for the end of the connection
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self._answered.set()


def _credentials(headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    """Who calls: a bearer, or the cookie of the UI. Nothing else is passed on."""
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            yield name, value
        elif name == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(_COOKIE)
            except CookieError:
                continue
            if found is not None:
                yield name, f"{_COOKIE}={found.coded_value}".encode("latin-1")
