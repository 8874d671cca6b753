"""While a load runs, SIGTERM is a Ctrl-C: raised in the main thread, so that what must be given back is given back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpone_provider.cli.emit import Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM raises ``Terminated``. Outside the main thread (a test, an embedding) nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
