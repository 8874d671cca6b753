"""Whether the machine stood still: what an attempt meets then says nothing of the product.

A virtual machine can be suspended for minutes. Every server on it stands still then, Keeper sessions and socket
timeouts run out at once when it goes on, and an honest attempt ends with "unreachable". A test may forgive that only
when this was measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

BEAT_SECONDS = 0.05
STILL_SECONDS = 5.0
"""Less than any timeout that an effect of a load has: ten seconds to connect, as long for a session of Keeper."""


@attrs.define(eq=False)
class Heart:
    """``longest``: seconds of the longest pause between two beats since ``restart()``, by either clock."""

    longest: float = 0.0
    _clocks: tuple[float, float] = attrs.field(factory=lambda: (time.time(), time.monotonic()))

    @property
    def stood_still(self) -> bool:
        """Whether it paused so long that a timeout may have run out."""
        self.beat()
        return self.longest >= STILL_SECONDS

    def restart(self) -> None:
        """Forget what was."""
        self.beat()
        self.longest = 0.0

    def beat(self) -> None:
        now = (time.time(), time.monotonic())
        self.longest = max(self.longest, *(new - old for new, old in zip(now, self._clocks, strict=True)))
        self._clocks = now


@contextmanager
def beating() -> Iterator[Heart]:
    """A heart that beats for the length of the block."""
    heart, ended = Heart(), threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            heart.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield heart
    finally:
        ended.set()
        thread.join()
