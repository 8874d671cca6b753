"""Answers of ClickHouse's HTTP interface, taken apart and put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"


def exception_text(code: int) -> bytes:
    """What the server writes into a body when a query fails after its status was sent."""
    return f"Code: {code}. DB::Exception: made up by the wire. (MADE_UP)\n".encode()


def answer(status: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


def failure(code: int) -> bytes:
    """The server refuses a statement with an error number."""
    return answer("500 Internal Server Error", {"X-ClickHouse-Exception-Code": str(code)}, exception_text(code))


def bare() -> bytes:
    """Status 200 with nothing at all behind it."""
    return answer("200 OK", {})


def acknowledgement() -> bytes:
    """Status 200 with an empty body and a query id: what an INSERT that was carried out looks like."""
    named = {"X-ClickHouse-Query-Id": "00000000-0000-0000-0000-000000000001", "X-ClickHouse-Format": "Null"}
    return answer("200 OK", named)


def redirect(port: int) -> bytes:
    """Go elsewhere, and send it again there."""
    return answer("307 Temporary Redirect", {"Location": f"http://127.0.0.1:{port}/"})


def split(reply: bytes) -> tuple[bytes, bytes]:
    """Head (with its blank line) and body of an answer, the body without its chunks' sizes."""
    head, _, body = reply.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", _joined(body) if b"chunked" in head.lower() else body


def chunked(head: bytes, *pieces: bytes, last: bytes = LAST_CHUNK) -> bytes:
    """A chunked answer under the head of another one."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not _framing(line)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]) + b"\r\n\r\n" + body + last


def _framing(line: bytes) -> bool:
    return line.lower().startswith((b"content-length:", b"transfer-encoding:"))


def _joined(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            break
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)
