"""Calls that wait in C, where no signal is heard: they run in a thread, and we wait for them in Python.

So a task that is cancelled, killed or timed out ends the query at once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

T = TypeVar("T")
_SECONDS_TO_END: Final = 10.0


class Watched:
    """One thread for one connection. ``cancel``: makes the running call end soon; called from another thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dpone-source")

    def run(self, call: Callable[[], T]) -> T:
        """Make the call and wait for it. What interrupts the waiting cancels the call."""
        running = self._thread.submit(call)
        try:
            return running.result()
        finally:
            if not running.done():
                self._cancel()
                wait([running], _SECONDS_TO_END)

    def end(self, call: Callable[[], object]) -> None:
        """Make the last call, and wait for it a bounded time."""
        wait([self._thread.submit(call)], _SECONDS_TO_END)
        self._thread.shutdown(wait=False)
