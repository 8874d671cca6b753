"""A child under a deadline: whatever it does, it ends in time, and only one clean line is an answer."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from dpone_provider.reader.exchange import NoAnswer
from dpone_provider.reader.supervisor import Child
from tests.reader.children import alive, fake, wait_for

DEADLINE = 0.4
SHUTDOWN = 5.0
LINE = b'{"nonce":"n"}\n'
ANSWER = b"answer\n"


def child(
    command: tuple[str, ...],
    *,
    clock: Callable[[], float] = time.monotonic,
    check_cancelled: Callable[[], None] = lambda: None,
    shutdown_budget: float = SHUTDOWN,
) -> Child:
    return Child(command, clock=clock, check_cancelled=check_cancelled, shutdown_budget=shutdown_budget)


def missed(one: Child, *, line: bytes = LINE, within: float = DEADLINE) -> tuple[tuple[str, str], float]:
    """Why there was no answer, and after how many seconds this was known, child reaped."""
    began = time.monotonic()
    with pytest.raises(NoAnswer) as caught:
        one.ask(line, began + within)
    return (caught.value.why, caught.value.reason), time.monotonic() - began


HANGS = {
    "hung": "hang()",
    "hung after reading": "request(); hang()",
    "deaf to SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); hang()",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "a byte at a time": """
        while True:
            say(b"x"); time.sleep(0.02)
    """,
    "a line without end of file": "request(); say(b'answer\\n'); hang()",
    "end of file without an exit": "request(); say(b'answer\\n'); os.close(1); hang()",
    "an answer too late": f"request(); time.sleep({DEADLINE} + 0.2); say(b'answer\\n')",
    "grandchild that holds the pipe": """
        request(); say(b"answer\\n")
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN); hang()
        os._exit(0)
    """,
}


@pytest.mark.contract("R3", "R4")
@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_child_that_does_not_end_ends_at_the_deadline(tmp_path: Path, body: str) -> None:
    one = child(fake(tmp_path, body))
    why, seconds = missed(one)
    assert why == ("unavailable", "deadline")
    assert one.quiescent
    assert DEADLINE <= seconds < DEADLINE + 2
    wait_for(lambda: not alive(tmp_path), 1)  # a grandchild is killed with the group and reaped by the system


@pytest.mark.contract("R3")
def test_a_request_to_a_child_that_does_not_read_waits_no_longer_either(tmp_path: Path) -> None:
    one = child(fake(tmp_path, "hang()"))
    why, seconds = missed(one, line=b"x" * 250_000 + b"\n")
    assert (why, one.quiescent) == (("unavailable", "deadline"), True)
    assert seconds < DEADLINE + 2


REFUSED = {
    "double": ("say(b'answer\\nanswer\\n')", ("invalid", "frame")),
    "double, the second later": ("say(b'answer\\n'); time.sleep(0.05); say(b'answer\\n')", ("invalid", "frame")),
    "trailing": ("say(b'answer\\n'); time.sleep(0.05); say(b' ')", ("invalid", "frame")),
    "foreign line before it": ("say(b'a warning\\nanswer\\n')", ("invalid", "frame")),
    "unterminated": ("say(b'answer')", ("invalid", "frame")),
    "oversized": ("say(b'x' * 262_144 + b'\\n')", ("invalid", "frame")),
    "oversized without end": ("\nwhile True: say(b'x' * 65536)", ("invalid", "frame")),
    "nothing": ("", ("unavailable", "no_answer")),
    "exit code": ("os._exit(3)", ("unavailable", "exit")),
    "answer and exit code": ("say(b'answer\\n'); os._exit(1)", ("unavailable", "exit")),
    "half an answer, then killed": ("say(b'ans'); os.kill(os.getpid(), signal.SIGKILL)", ("unavailable", "exit")),
    "crash": ("os.abort()", ("unavailable", "exit")),
}


@pytest.mark.contract("R5")
@pytest.mark.parametrize(("body", "why"), REFUSED.values(), ids=REFUSED)
def test_anything_but_one_clean_line_is_refused(tmp_path: Path, body: str, why: tuple[str, str]) -> None:
    one = child(fake(tmp_path, f"request(); {body}"))
    found, seconds = missed(one, within=10)
    assert (found, one.quiescent) == (why, True)
    assert seconds < 5
    assert alive(tmp_path) == []


@pytest.mark.contract("R5")
def test_a_child_that_leaves_without_reading_is_refused(tmp_path: Path) -> None:
    one = child(fake(tmp_path, "os._exit(0)"))
    assert missed(one, line=b"x" * 250_000 + b"\n", within=10)[0] == ("unavailable", "no_answer")


def test_one_clean_line_is_the_answer(tmp_path: Path) -> None:
    one = child(fake(tmp_path, "say(json.dumps(request()).replace(' ', '').encode() + b'\\n')"))
    assert one.ask(LINE, time.monotonic() + 10) == LINE
    assert (one.exit_code, one.quiescent) == (0, True)


def test_a_large_request_and_a_large_answer_cross_each_other(tmp_path: Path) -> None:
    large = b'{"a":"' + b"x" * 200_000 + b'"}\n'
    one = child(fake(tmp_path, "say(b'y' * 200_000); request(); say(b'\\n')"))
    assert one.ask(large, time.monotonic() + 10) == b"y" * 200_000 + b"\n"


@pytest.mark.contract("R4")
def test_a_grandchild_without_the_pipe_is_killed_with_the_group(tmp_path: Path) -> None:
    body = """
        request(); say(b"answer\\n")
        if os.fork() == 0:
            os.close(1); signal.signal(signal.SIGTERM, signal.SIG_IGN); hang()
        os._exit(0)
    """
    assert child(fake(tmp_path, body)).ask(LINE, time.monotonic() + 10) == ANSWER
    wait_for(lambda: not alive(tmp_path), 1)


@pytest.mark.contract("R2")
def test_a_child_that_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    one = child((str(tmp_path / "nothing here"),))
    assert missed(one)[0] == ("unavailable", "spawn")
    assert one.quiescent


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.contract("R2", "R3")
def test_a_child_that_cannot_be_killed_is_waited_for_no_longer_than_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(group: int, number: int) -> None:
        raise PermissionError

    one = child(fake(tmp_path, "hang()"), shutdown_budget=0.2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", refused)
        why, seconds = missed(one)
    assert (why, one.quiescent) == (("unavailable", "deadline"), False)
    assert seconds < DEADLINE + 0.2 + 2
    for pid in alive(tmp_path):
        os.kill(pid, signal.SIGKILL)
    del one
    gc.collect()  # the child that was given up, here where its warning is expected


@pytest.mark.contract("R2", "R5")
def test_an_exit_code_that_somebody_else_took_is_no_success(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        one = child(fake(tmp_path, "request(); say(b'answer\\n')"))
        assert missed(one, within=10)[0] == ("unavailable", "exit")
        assert one.quiescent
    finally:
        signal.signal(signal.SIGCHLD, before)


class Timeout(BaseException):
    """Like a task's timeout in Airflow 3.2 and later."""


@pytest.mark.contract("R3", "G7")
@pytest.mark.parametrize("stop", [KeyboardInterrupt, Timeout, RuntimeError])
def test_a_cancellation_passes_through_after_the_child_is_gone(tmp_path: Path, stop: type[BaseException]) -> None:
    looks: list[float] = []

    def check_cancelled() -> None:
        looks.append(time.monotonic())
        if len(looks) == 4:
            raise stop

    one = child(fake(tmp_path, "\nwhile True: say(b'x'); time.sleep(0.001)"), check_cancelled=check_cancelled)
    with pytest.raises(stop):
        one.ask(LINE, time.monotonic() + 30)
    assert one.quiescent
    assert alive(tmp_path) == []
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    assert min(gaps) >= 0.049  # a busy child does not make them more
    assert max(gaps) < 1  # about 0.05; more only on a busy machine


@pytest.mark.contract("R3", "G7")
def test_an_interrupt_at_any_moment_of_the_clean_up_leaves_nothing(tmp_path: Path) -> None:
    command = fake(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(b'x'); hang()")
    for first in range(1, 12):
        ending: list[float] = []

        def clock(first: int = first, ending: list[float] = ending) -> float:
            """Past the deadline from the second look on; from then on, reading it is interrupted twice, once each."""
            ending.append(time.monotonic())
            if len(ending) in (first + 4, first + 5):
                raise KeyboardInterrupt
            return ending[-1]

        one = child(command, clock=clock)
        with pytest.raises((KeyboardInterrupt, NoAnswer)):
            one.ask(LINE, time.monotonic() + 0.06)
        assert one.quiescent, first
    assert alive(tmp_path) == []


@contextmanager
def interrupts(up: Path, after: float) -> Iterator[None]:
    """Eight signals once ``up`` exists, 2 ms apart; each raises KeyboardInterrupt wherever in ``Child.ask`` this is."""

    def hit(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is Child.ask.__code__:
                raise KeyboardInterrupt
            frame = frame.f_back

    def send() -> None:
        wait_for(up.exists)
        time.sleep(after)
        for _ in range(8):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.002)

    before = signal.signal(signal.SIGUSR1, hit)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.contract("R3", "G7")
@pytest.mark.parametrize("after", [0.0, 0.01, 0.03])
def test_ctrl_c_again_and_again_leaves_no_child(tmp_path: Path, after: float) -> None:
    up = tmp_path / "up"
    one = child(fake(tmp_path, f"signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(up)!r}, 'w'); hang()"))
    with interrupts(up, after), pytest.raises(KeyboardInterrupt):
        one.ask(LINE, time.monotonic() + 20)
    assert one.quiescent
    wait_for(lambda: not alive(tmp_path), 1)


@pytest.mark.contract("R3")
def test_many_threads_may_ask_at_once(tmp_path: Path) -> None:
    command = fake(tmp_path, "say(json.dumps(request()).replace(' ', '').encode() + b'\\n')")
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        answers[number] = child(command).ask(b"%d\n" % number, time.monotonic() + 20)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: b"%d\n" % number for number in range(4)}


@pytest.mark.contract("R4")
def test_nothing_is_left_open_after_many_children(tmp_path: Path) -> None:
    command = fake(tmp_path, "request(); os._exit(1)")
    if sys.platform != "linux":
        pytest.skip("counts descriptors in /proc")
    missed(child(command), within=10)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        missed(child(command), within=10)
    assert len(os.listdir("/proc/self/fd")) == before
