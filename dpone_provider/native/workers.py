"""Partitions moved by a bounded number of threads: the first failure stops them all, and none is left behind."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from dpone_provider.errors import DponeError

T = TypeVar("T")
TICK: Final = 0.2
"""Seconds between two looks at cancellation and progress."""
GRACE: Final = 10.0
"""Seconds that workers have to end, once they must."""


class Crew:
    """What the workers of one run share: whether to go on, and how far they are. Safe to use from several threads.

    ``planned``: partitions to move; those moved, and the rows and bytes of all, are in ``facts``.
    """

    def __init__(self, planned: int) -> None:
        self._lock = threading.Lock()
        self._facts = {"partitions": 0, "planned": planned, "rows": 0, "bytes": 0}
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Let every worker end at its next batch."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def going_on(self) -> None:
        """Called by a worker before each batch. Raises ``DponeError`` DPONE_CANCELLED once the others must stop."""
        if self.stopping:
            raise DponeError("DPONE_CANCELLED")

    def count(self, *, rows: int = 0, size: int = 0, partitions: int = 0) -> None:
        """Add to what is done."""
        with self._lock:
            for name, value in (("rows", rows), ("bytes", size), ("partitions", partitions)):
                self._facts[name] += value

    def facts(self) -> dict[str, Any]:
        """What is done so far."""
        with self._lock:
            return dict(self._facts)


def run_bounded(
    parts: Iterable[T],
    workers: int,
    work: Callable[[T], None],
    *,
    crew: Crew,
    check_cancelled: Callable[[], None],
    notify: Callable[[str, dict[str, Any]], None],
) -> None:
    """Do ``work`` on every part, in order, at most ``workers`` at a time.

    ``check_cancelled`` and ``notify`` ("partition", the crew's facts) are called in this thread alone. Raises the first
    failure, what ``check_cancelled`` raises, or an interrupt, after every worker has ended or had ``GRACE`` to: one
    that waits for a server which answers without end cannot be ended, and does nothing more once it wakes up.
    """
    listed, failures = tuple(parts), deque[BaseException]()
    waiting = iter(listed)  # taking the next one is atomic
    changed, ended = threading.Event(), deque[None]()

    def worker() -> None:
        try:
            while not crew.stopping and (part := next(waiting, None)) is not None:
                work(part)
                crew.count(partitions=1)
                changed.set()
        except BaseException as failure:  # noqa: BLE001 - raised again in the calling thread
            failures.append(failure)
            crew.stop()
        finally:
            ended.append(None)
            changed.set()

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(workers, len(listed)))]
    try:
        for thread in threads:
            thread.start()
        told: dict[str, Any] = {}
        while len(ended) < len(threads) and not crew.stopping:
            changed.wait(TICK)
            changed.clear()
            check_cancelled()
            told = _tell(crew, told, notify)
        _tell(crew, told, notify)
    finally:
        crew.stop()
        until = time.monotonic() + GRACE
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
    if failures:
        raise failures[0]


def _tell(crew: Crew, told: dict[str, Any], notify: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    facts = crew.facts()
    if facts != told:
        notify("partition", facts)
    return facts
