"""SIGKILL of a real process at moments spread over a load, then a retry in a new process (P6, P7, B25)."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench
from tests.scenarios.child import work
from tests.scenarios.stage import published

KILLS = 30
NEW, OLD = list(range(200, 207)), list(range(100, 105))


@pytest.fixture(scope="module")
def children() -> ForkServerContext:
    """A server that forks children which have imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.scenarios.child"])
    return context


class Child:
    """One load in a process of its own."""

    def __init__(self, context: ForkServerContext, bench: Bench, run_id: str) -> None:
        self._here, there = context.Pipe(duplex=False)
        order = (bench.sandbox, bench.database, bench.table, str(bench.folder), run_id)
        self.process: BaseProcess = context.Process(target=work, args=(there, *order), daemon=True)
        self.process.start()
        there.close()
        if not self._here.poll(30):
            raise TimeoutError("the child does not begin")
        self._here.recv()

    def answer(self) -> dict[str, Any]:
        """What became of its load; ``{}`` when it died."""
        try:
            if not self._here.poll(30):
                raise TimeoutError("the child hangs")
            answer: dict[str, Any] = self._here.recv()
        except EOFError:
            answer = {}
        self.process.join(10)
        self._here.close()
        return answer

    def kill(self) -> dict[str, Any]:
        """SIGKILL; what it had said before, ``{}`` when nothing."""
        self.process.kill()
        return self.answer()


def phase_of(bench: Bench) -> str:
    record, _ = bench.slot()
    return record.phase if record is not None else "none"


@pytest.mark.contract("P5", "P6", "P7", "A8")
def test_a_load_killed_at_any_moment_is_finished_by_a_new_process(
    sandbox: RunningSandbox, database: str, tmp_path: Path, children: ForkServerContext
) -> None:
    """30 kills: the old or the new table at once; the retry has exact rows, no leftovers, no second source read."""
    durations = []
    for number in range(3):
        bench = bench_of(sandbox, database, tmp_path, number)
        began = time.monotonic()
        assert Child(children, bench, "later").answer()["result"] == "success"
        durations.append(time.monotonic() - began)
    longest = sorted(durations)[1]
    dice = random.Random(16)
    phases: Counter[str] = Counter()
    for number in range(KILLS):
        bench = bench_of(sandbox, database, tmp_path, 10 + number)
        child = Child(children, bench, "later")
        time.sleep(longest * (number + dice.random()) / KILLS)
        said = child.kill()
        phases[finish(children, bench, said)] += 1
    assert len(phases) >= 3, f"the kills met too few phases: {phases}"


def finish(children: ForkServerContext, bench: Bench, said: dict[str, Any]) -> str:
    """Check what the kill left, retry, check the end. Returns the phase in which the kill left the slot."""
    assert bench.ids() in (OLD, NEW)
    phase = phase_of(bench)
    if said:
        assert (said["result"], phase) == ("success", "COMPLETE")
    answers = [Child(children, bench, "later").answer()]
    while answers[-1]["result"] != "success" and len(answers) < 3:  # a statement of the dead one may still be under way
        assert answers[-1]["retryable"], answers
        answers.append(Child(children, bench, "later").answer())
    assert answers[-1]["result"] == "success", answers
    if phase not in {"none", "CLAIMED", "REJECTED"}:
        assert answers[-1]["read"] == 0, "a sealed generation was read again"
    assert bench.ids() == NEW
    assert bench.record().owner == ""
    assert answers[-1]["leftovers"] == []
    assert [name for name in bench.private() if name.startswith(f"{bench.table}__")] == []
    return phase


def bench_of(sandbox: RunningSandbox, database: str, folder: Path, number: int) -> Bench:
    folder = folder / str(number)
    folder.mkdir()
    bench = Bench(sandbox=sandbox, database=database, folder=folder, table=f"t{number}")
    if number == 0:
        bench.provision()
    published(bench)
    return bench
