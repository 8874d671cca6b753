"""One exchange over two pipes that never block, watched by an absolute deadline (protocol 7; R3–R5)."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

from dpone_provider.reader.framing import Frame, FrameRefused
from dpone_provider.replay.target_reader import Why

_LOOK_SECONDS = 0.05  # between two looks at a cancellation


class NoAnswer(Exception):
    """The child gave nothing that can be used. ``why`` as in ``Unobserved``; ``reason``: a short safe code."""

    def __init__(self, why: Why, reason: str) -> None:
        self.why = why
        self.reason = reason
        super().__init__(f"{why}: {reason}")


class Watch:
    """A deadline, in seconds of ``clock``, and a look at a cancellation every 50 ms, however busy the pipes are."""

    def __init__(self, deadline: float, clock: Callable[[], float], check_cancelled: Callable[[], None]) -> None:
        self._deadline = deadline
        self._clock = clock
        self._check_cancelled = check_cancelled
        self._next_look = clock()

    def look(self) -> float:
        """Seconds that may be waited until the next look. Raises ``NoAnswer`` at the deadline, or the cancellation."""
        now = self._clock()
        if now >= self._deadline:
            raise NoAnswer("unavailable", "deadline")
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._check_cancelled()
        return min(self._deadline, self._next_look) - now


def exchange(stdin: int, stdout: int, line: bytes, watch: Watch, *, to_end: bool) -> Frame:
    """Write ``line`` while reading a frame; ``to_end``: until end of file, else until the frame is complete.

    Raises ``NoAnswer`` at the deadline and for more than one bounded line.
    """
    frame = Frame()
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        if line:
            selector.register(stdin, selectors.EVENT_WRITE)
        while True:
            for key, _ in selector.select(watch.look()):
                if key.fd == stdin:
                    line = _write_some(stdin, line)
                    if not line:
                        selector.unregister(stdin)
                elif _read_some(stdout, frame) or (frame.complete and not to_end):
                    return frame


def _write_some(fd: int, line: bytes) -> bytes:
    """What is left of ``line``; nothing when the other side does not read any more."""
    try:
        return line[os.write(fd, line) :]
    except BlockingIOError:
        return line
    except BrokenPipeError:
        return b""


def _read_some(fd: int, frame: Frame) -> bool:
    """Take what is there; True at end of file."""
    try:
        chunk = os.read(fd, 65536)
    except BlockingIOError:
        return False
    try:
        frame.feed(chunk)
    except FrameRefused:
        raise NoAnswer("invalid", "frame") from None
    return not chunk
