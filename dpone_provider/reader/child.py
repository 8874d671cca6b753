"""The supervised child: ``python -I -m dpone_provider.reader.child observe|probe PARENT`` (protocol 7; R6, R12).

It dies with its parent: by the parent-death signal where the system has one, when stdin closes, and by an alarm. It
starts no process, and answers with one line or, when something is wrong with it, with an exit code alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from typing import NoReturn

from dpone_provider.reader import READY

_SET_PARENT_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG
_ALARM_SECONDS = 5  # what it may live beyond its budget, if nobody kills it
_LOST, _FAILED = 3, 4  # exit codes: the parent is gone; something is wrong


def main(mode: str, parent: int) -> NoReturn:
    """``mode``: ``observe`` or ``probe``; ``parent``: the process to die with."""
    _bind(parent)
    if mode == "probe":
        _hang()
    code = _FAILED
    try:
        _answer()
        code = 0
    finally:
        os._exit(code)


def _bind(parent: int) -> None:
    """Die with the parent, leave no memory on disk."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_LOST)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _hang() -> NoReturn:
    """Say that it is up, then hang like the worst child: deaf to SIGTERM and to its lifeline."""
    signal.alarm(_ALARM_SECONDS)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, READY)
    while True:
        signal.pause()


def _answer() -> None:
    """Read the request, watch the lifeline, observe, write the answer. Nothing else can write to the pipe."""
    from dpone_provider.reader import messages

    pipe = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    request = messages.decode_request(_request_line())
    signal.setitimer(signal.ITIMER_REAL, request.budget_ms / 1000 + _ALARM_SECONDS)
    threading.Thread(target=_watch_lifeline, daemon=True).start()
    from dpone_provider.reader.observe import observe

    try:
        line = messages.encode_result(request.nonce, observe(request))
    except messages.ObservationError as error:
        line = messages.encode_error(request.nonce, error)
    while line:
        line = line[os.write(pipe, line) :]
    os.close(pipe)


def _request_line() -> bytes:
    from dpone_provider.reader.framing import Frame

    frame = Frame()
    while not frame.complete:
        chunk = os.read(0, 65536)
        if not chunk:
            os._exit(_LOST)
        frame.feed(chunk)
    return frame.line()


def _watch_lifeline() -> NoReturn:
    """The parent sends nothing more: whatever ends this read ends the process, wherever the driver may be."""
    try:
        os.read(0, 1)
    finally:
        os._exit(_LOST)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
