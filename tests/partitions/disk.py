"""A disk that refuses a checkpoint of a state, or a report; and one that records what was made durable, in order."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from dpone_provider.native.files import LocalFiles


class Refusing(LocalFiles):
    """Refuses to write the ``nth`` line (from 1) with this text, and all that come after it."""

    def __init__(self, text: str, nth: int = 1, error: int = errno.ENOSPC) -> None:
        self._text, self._nth, self._error, self._seen = text.encode(), nth, error, 0

    def write(self, fd: int, data: bytes) -> None:
        if self._text in data:
            self._seen += 1
            if self._seen >= self._nth:
                raise OSError(self._error, "no")
        super().write(fd, data)


def committed(nth: int) -> Refusing:
    """A disk that is full at the ``nth`` committed checkpoint."""
    return Refusing('"state":"committed"', nth)


class NoReport(LocalFiles):
    """Refuses to put the report in its place."""

    def rename(self, old: Path, new: Path) -> None:
        if new.name == "report.json":
            raise OSError(errno.EIO, "no")
        super().rename(old, new)


class Noting(LocalFiles):
    """Tells the state of every checkpoint, and the name of every report, once it is durable."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, data)
        state = next((word for word in ("loaded", "committed", "failed") if f'"state":"{word}"'.encode() in data), None)
        if state is not None:
            self._note(state)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if new.name in ("report.json", "report.md"):
            self._note(new.name)
