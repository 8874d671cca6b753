"""A byte stream that remembers how it ended: Arrow takes the end of bytes for the end of a stream, we do not."""

from __future__ import annotations

from typing import Any

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end mark of an Arrow IPC stream."""
_KEPT = 32_768


class TailedStream:
    """A readable, file-like view of a stream; ``tail`` is what was read last, at most 32 KiB."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.tail = b""

    def read(self, size: int = -1) -> bytes:
        """Exactly as many bytes as asked for, fewer only at the end."""
        data: bytes = self._stream.read(size) if size >= 0 else self._stream.read()
        while 0 < len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                break
            data += more
        self.tail = data[-_KEPT:] if len(data) >= _KEPT else (self.tail + data)[-_KEPT:]
        return data

    def ended_with(self, mark: bytes) -> bool:
        """Whether the stream is over and its last bytes are the mark."""
        return self.tail.endswith(mark) and not self.read(1)

    def readable(self) -> bool:
        """Part of the file interface."""
        return True

    def writable(self) -> bool:
        """Part of the file interface."""
        return False

    def seekable(self) -> bool:
        """Part of the file interface."""
        return False

    def close(self) -> None:
        """The stream's owner closes it."""
