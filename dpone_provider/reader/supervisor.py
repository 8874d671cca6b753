"""One child process under an absolute deadline: start, talk, revoke, kill, reap (protocol 7; R2–R5, R12).

The parent never waits without a bound, whatever child, driver or server do. The child has a session, and so a process
group, of its own; the open end of its stdin is its lifeline.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from io import FileIO

from dpone_provider.reader import READY
from dpone_provider.reader.exchange import NoAnswer, Watch, exchange
from dpone_provider.reader.framing import FrameRefused

CHILD_COMMAND = (sys.executable, "-I", "-m", "dpone_provider.reader.child")

_TERM_GRACE = 0.01  # a child has nothing to tidy up
_POLL_SECONDS = 0.001
_ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF")


class Child:
    """A child that is used once. ``exit_code`` as ``subprocess`` has it, None = runs or not known.

    ``command``: gets the mode and this process's number as arguments. ``shutdown_budget``: seconds in which it must be
    reaped once it is not wanted any more. ``check_cancelled`` raises what shall pass through.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        clock: Callable[[], float],
        check_cancelled: Callable[[], None],
        shutdown_budget: float,
    ) -> None:
        self.exit_code: int | None = None
        self._command = command
        self._clock = clock
        self._check_cancelled = check_cancelled
        self._shutdown_budget = shutdown_budget
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: tuple[FileIO, ...] = ()
        self._gone = False
        self._until: float | None = None

    @property
    def quiescent(self) -> bool:
        """Whether nothing of the child is left: reaped, and no end of its channel open here."""
        return (self._process is None or self._gone) and all(pipe.closed for pipe in self._pipes)

    def ask(self, line: bytes, deadline: float) -> bytes:
        """Start, send ``line``, and take one line, end of file and exit 0, all before ``deadline``.

        Raises ``NoAnswer``. Guarantees: whatever it raises, the child was killed and reaped, or ``quiescent`` is False.
        """
        watch = Watch(deadline, self._clock, self._check_cancelled)
        try:
            stdin, stdout = self._start("observe")
            frame = exchange(stdin, stdout, line, watch, to_end=True)
            self._await_exit(watch)
        finally:
            self._end_surely()
        if self.exit_code != 0:
            raise NoAnswer("unavailable", "exit")
        if frame.empty:
            raise NoAnswer("unavailable", "no_answer")
        try:
            return frame.line()
        except FrameRefused:
            raise NoAnswer("invalid", "frame") from None

    def prove_mortal(self, deadline: float) -> None:
        """Start a child that hangs and ignores SIGTERM; kill and reap it (R2). Raises ``NoAnswer``."""
        watch = Watch(deadline, self._clock, self._check_cancelled)
        try:
            stdin, stdout = self._start("probe")
            frame = exchange(stdin, stdout, b"", watch, to_end=False)
        finally:
            self._end_surely()
        if not frame.complete or frame.line() != READY:
            raise NoAnswer("unavailable", "start")
        if not self.quiescent or self.exit_code != -signal.SIGKILL:
            raise NoAnswer("unavailable", "kill")

    def _start(self, mode: str) -> tuple[int, int]:
        """Start it; the descriptors of its stdin and stdout, which never block here.

        The pipes are held before there is a child: if an interrupt hides its number, closing them still ends it.
        """
        try:
            (their_stdin, stdin), (stdout, their_stdout) = _pipe(), _pipe()
            self._pipes = (stdin, stdout)
            with their_stdin, their_stdout:
                self._process = subprocess.Popen(
                    [*self._command, mode, str(os.getpid())],
                    stdin=their_stdin,
                    stdout=their_stdout,
                    stderr=subprocess.DEVNULL,
                    close_fds=True,
                    start_new_session=True,
                    env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                )
        except (OSError, subprocess.SubprocessError):
            raise NoAnswer("unavailable", "spawn") from None
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        return stdin.fileno(), stdout.fileno()

    def _await_exit(self, watch: Watch) -> None:
        while not self._exited():
            watch.look()
            time.sleep(_POLL_SECONDS)
        watch.look()

    def _end_surely(self) -> None:
        """End it, even if interrupts hit between two steps of that."""
        try:
            self._end()
        finally:
            try:
                self._end()
            finally:
                self._end()

    def _end(self) -> None:
        """Revoke the channel, kill, reap within the budget. What interrupts this passes once it is done."""
        try:
            if self._until is None:
                self._until = self._clock() + self._shutdown_budget
            self._revoke()
            self._kill(self._until)
            self._reap(self._until)
        finally:
            if not self.quiescent and (self._until is None or self._clock() < self._until):
                self._end()

    def _revoke(self) -> None:
        """Close both pipes: the lifeline, and the only way on which a late answer could come."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _kill(self, until: float) -> None:
        """SIGTERM, then SIGKILL, to the whole group; its leader is not reaped yet, so the group is surely its own."""
        if self._process is None or self._gone:
            return
        self._signal_group(self._process.pid, signal.SIGTERM)
        until = min(until, self._clock() + _TERM_GRACE)
        while not self._exited() and self._clock() < until:
            time.sleep(_POLL_SECONDS)
        self._signal_group(self._process.pid, signal.SIGKILL)

    def _signal_group(self, group: int, number: signal.Signals) -> None:
        if not self._gone:
            with contextlib.suppress(OSError):
                os.killpg(group, number)

    def _reap(self, until: float) -> None:
        while not self._reaped() and self._clock() < until:
            time.sleep(_POLL_SECONDS)

    def _exited(self) -> bool:
        """Whether it has ended. It is left unreaped where the system can do that."""
        process = self._process
        if process is None or self._gone or not hasattr(os, "waitid"):
            return self._reaped()
        try:
            found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._reaped()
        if found is not None:
            self.exit_code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return found is not None

    def _reaped(self) -> bool:
        """Reap it if it has ended. A child that somebody else reaped is gone, its exit code not known."""
        process = self._process
        if process is None or self._gone:
            return True
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            self._gone = True
        else:
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
                self._gone = True
        if self._gone:
            process.returncode = -1 if self.exit_code is None else self.exit_code  # not to be waited for again
        return self._gone


def _pipe() -> tuple[FileIO, FileIO]:
    """The reading and the writing end of a new pipe, inherited by nobody by itself."""
    read, write = os.pipe()
    return FileIO(read, "rb"), FileIO(write, "wb")
