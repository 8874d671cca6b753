"""One bounded line, out of whatever pieces a pipe gives (protocol 7; R5)."""

from __future__ import annotations

from dpone_provider.reader.messages import MAX_BYTES


class FrameRefused(ValueError):
    """The bytes are not exactly one line within its bound. Says nothing of its content."""


class Frame:
    """Collects a line. A second line, bytes after the newline and too many bytes are refused as soon as they come."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def empty(self) -> bool:
        """Whether nothing came at all."""
        return not self._held

    @property
    def complete(self) -> bool:
        """Whether the newline is there."""
        return self._held.endswith(b"\n")

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Raises ``FrameRefused``."""
        if chunk and (self.complete or b"\n" in chunk[:-1]):
            raise FrameRefused("bytes after the line")
        if len(self._held) + len(chunk) > MAX_BYTES:
            raise FrameRefused("the line is too long")
        self._held += chunk

    def line(self) -> bytes:
        """The line with its newline, once nothing more can come. Raises ``FrameRefused`` when it has no end."""
        if not self.complete:
            raise FrameRefused("the line has no end")
        return bytes(self._held)
