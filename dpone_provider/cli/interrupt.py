"""While a load runs, SIGTERM is a Ctrl-C: raised in the main thread, so that what must be given back is given back.

So is SIGHUP, the terminal's end, unless it is ignored (nohup).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpone_provider.cli.emit import Terminated


@contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise ``Terminated``. Outside the main thread (say, an embedding) nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _terminate) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
