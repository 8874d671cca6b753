"""A parent that is gone takes its child along, wherever the two were, whatever the child was doing (R12)."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from dpone_provider.reader import supervisor
from dpone_provider.replay.target_reader import Unobserved
from tests.reader.children import REQUEST, alive, reader, real, wait_for

MOMENTS = 50
REPOSITORY = Path(__file__).parents[2]

PARENTS = """
import os, random, signal, sys, time
from tests.reader.children import REQUEST, reader

moments, longest, command = int(sys.argv[1]), float(sys.argv[2]), tuple(sys.argv[3:])
moment = random.Random(20)
for _ in range(moments):
    parent = os.fork()
    if parent == 0:
        reader(command).collect(REQUEST, deadline=time.monotonic() + 60)
        os._exit(1)
    time.sleep(moment.uniform(0, longest))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
"""
"""Starts parents one after the other, each observing, and kills each at some moment."""


@pytest.mark.contract("R12")
def test_no_child_outlives_a_parent_killed_at_any_moment(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    body = f"""
        import os, socket
        os.close(os.open({str(begun)!r} + "/" + str(os.getpid()), os.O_CREAT | os.O_WRONLY))
        one, other = socket.socketpair()
        one.recv(1)
    """
    began = time.monotonic()
    with pytest.raises(Unobserved):
        reader(real(tmp_path, "raise ValueError")).collect(REQUEST, deadline=began + 60)
    longest = 1.7 * (time.monotonic() - began)
    arguments = [sys.executable, "-c", PARENTS, str(MOMENTS), str(longest), *real(tmp_path, body)]
    subprocess.run(arguments, cwd=REPOSITORY, check=True)
    ended = time.monotonic()
    wait_for(lambda: not alive(tmp_path), 6)
    print(f"last child gone {time.monotonic() - ended:.3f} s after the last kill")
    observing = len(list(begun.iterdir()))
    assert 0 < observing < MOMENTS, f"{observing} were killed while observing: the moments say nothing"


WAYS = {
    "lifeline alone, blocked in a socket": """
        import ctypes, socket, sys
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        open(up, "w").close()
        one, other = socket.socketpair()
        one.recv(1)
    """,
    "lifeline alone, blocked in C": """
        import ctypes, sys
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        open(up, "w").close()
        ctypes.CDLL(None).sleep(60)
    """,
    "parent-death signal alone, no thread can run": """
        import ctypes
        open(up, "w").close()
        ctypes.PyDLL(None).sleep(60)
    """,
}


@pytest.mark.contract("R12")
@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("body", WAYS.values(), ids=WAYS)
def test_each_of_the_two_ways_is_enough(tmp_path: Path, body: str) -> None:
    up = tmp_path / "up"
    command = real(tmp_path, f"up = {str(up)!r}\n" + textwrap.dedent(body))
    code = f"""
import time
from tests.reader.children import REQUEST, reader
reader({command!r}).collect(REQUEST, deadline=time.monotonic() + 60)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY) as parent:
        wait_for(up.exists)
        assert len(alive(tmp_path, parent=parent.pid)) == 1
        parent.kill()
    killed = time.monotonic()
    wait_for(lambda: not alive(tmp_path), 6)
    assert time.monotonic() - killed < 6


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.contract("R12", "G7")
def test_an_interrupt_at_the_very_start_leaves_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is there, its parent does not know it yet: it exits because nobody holds its lifeline."""

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            wait_for(lambda: alive(tmp_path))
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(supervisor.subprocess, "Popen", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader(real(tmp_path, "import time; time.sleep(60)")).collect(REQUEST, deadline=time.monotonic() + 60)
    gc.collect()
    wait_for(lambda: not alive(tmp_path), 6)


@pytest.mark.contract("R12")
def test_a_child_whose_parent_is_another_ends_at_once(tmp_path: Path) -> None:
    """Its parent died before the child could ask to be told."""
    read, write = os.pipe()
    command = [*real(tmp_path, "pass"), "observe", "1"]
    child = subprocess.Popen(command, stdin=read, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        assert child.wait(timeout=6) == 3
    finally:
        os.close(read)
        os.close(write)
        child.poll() is None and os.killpg(child.pid, signal.SIGKILL)
