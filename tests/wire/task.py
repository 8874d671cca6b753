"""A task's timeout, as Airflow raises it: in the main thread, in the middle of whatever runs there (B16)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TaskTimeout(BaseException):
    """The task's time is over."""


@contextmanager
def timeout_after(event: threading.Event, seconds: float) -> Iterator[None]:
    """Raise ``TaskTimeout`` in this, the main thread, ``seconds`` after the event.

    By SIGUSR1: SIGALRM belongs to the timeout of the test.
    """
    main, over = threading.get_ident(), threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if not over.is_set():
            raise TaskTimeout

    def watch() -> None:
        while not event.wait(0.05):
            if over.is_set():
                return
        if not over.wait(seconds):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, end)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)
