"""Attempts of two operations on one to three replicas, in any order, with lost, late and dead effects, any clock.

The machines are the real ones; the replicas are values (``world``). An order that fails is kept as a test of its own.
"""

from __future__ import annotations

import itertools
import os
from random import Random

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dpone_provider.replay import publication as do
from dpone_provider.replay.record import AuthorityRecord
from tests.replicas.world import FATES, LIVE, REPLICAS, Attempt, Fate, World

STEPS = int(os.environ.get("DPONE_MACHINE_STEPS", "20000"))
IN_ONE = 200
HONEST = 600
STORIES = 12
FINAL = {"success", "DPONE_REPLAY_WINDOW_ENDED"}


class Machine(RuleBasedStateMachine):
    """At most two attempts of ``later`` and one of ``successor`` at a time."""

    steps = 0

    @initialize(first=st.booleans(), number=st.sampled_from([2, 3, 1]))
    def begin(self, first: bool, number: int) -> None:
        self.world = World(replicas=REPLICAS[:number])
        self.running: list[Attempt] = []
        if not first:
            for replica in self.world.replicas:
                self.world.tables[replica][LIVE] = (self.world.new_uuid(), "")
            self.world.look()

    def _runs(self, run_id: str) -> int:
        return sum(attempt.run_id == run_id for attempt in self.running)

    @rule(run_id=st.sampled_from(["later", "later", "successor"]))
    def start(self, run_id: str) -> None:
        if self._runs(run_id) < (2 if run_id == "later" else 1):
            self.running.append(Attempt(run_id, self.world))

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 2), turns=st.integers(1, 12), fate=st.sampled_from([*["go"] * 8, *FATES]))
    def step(self, number: int, turns: int, fate: Fate) -> None:
        """Some turns of one attempt, the last of which meets a fate."""
        attempt = self.running[number % len(self.running)]
        for left in reversed(range(turns)):
            type(self).steps += 1
            self._turn(attempt, "go" if left else fate)
            if attempt.result:
                return

    @precondition(lambda self: self.world.pending)
    @rule(number=st.integers(0, 30), never=st.booleans())
    def come_late(self, number: int, never: bool) -> None:
        number %= len(self.world.pending)
        if never:
            self.world.pending.pop(number)
        else:
            self.world.land(number)
            self.world.look()

    @rule(seconds=st.sampled_from([1, 299, 901]))
    def jump(self, seconds: int) -> None:
        self.world.now += seconds

    def _turn(self, attempt: Attempt, fate: Fate) -> None:
        attempt.step(fate)
        if not attempt.result:
            return
        if attempt in self.running:
            self.running.remove(attempt)
        if attempt.finished is not None:
            generation = attempt.finished.record.generation
            assert all(generation in lived for lived in self.world.lived.values()), "success, and never live everywhere"

    def teardown(self) -> None:
        """Honest attempts end both operations, whatever is still under way; nobody is stuck."""
        if not hasattr(self, "world"):
            return
        for attempt in self.running:
            attempt.dead = True
        self.world.now += 1_000
        results = [{run_id: self._honest(run_id) for run_id in ("later", "successor")} for _ in range(4)]
        assert set(results[-1].values()) <= FINAL, results
        while self.world.pending:
            self.world.land(0)
            self.world.look()

    def _honest(self, run_id: str) -> str:
        attempt = Attempt(run_id, self.world)
        for _ in range(HONEST):
            if attempt.result:
                break
            self._turn(attempt, "go")
        assert attempt.result, "an honest attempt never ends"
        return attempt.result


def study(steps: int) -> int:
    """Run the machine for at least so many steps; how many there were. Every round has a seed of its own.

    Hypothesis' own setting for CI would play the same round again and again, and never get further.
    """
    Machine.steps = 0
    rounds = itertools.count()
    bounds = settings(
        max_examples=max(1, steps // IN_ONE),
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        database=None,
        derandomize=False,
    )
    while Machine.steps < steps:
        run_state_machine_as_test(seed(next(rounds))(Machine), settings=bounds)
    return Machine.steps


@pytest.mark.contract("A3", "A6", "A8", "P2", "P3", "P4", "P5", "P6")
def test_no_order_of_some_steps_breaks_a_rule() -> None:
    assert study(1_000) >= 1_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.contract("A3", "A6", "A8", "P2", "P3", "P4", "P5", "P6")
def test_no_order_of_very_many_steps_breaks_a_rule() -> None:
    assert study(STEPS) >= STEPS


def story(chance: Random) -> None:
    """One attempt after another whose switches are lost, late or dead, and what is late comes at any time."""
    machine = Machine()
    machine.begin(first=False, number=chance.choice([1, 2, 3]))
    for _ in range(20):
        machine.start("later")
        attempt = chance.choice(machine.running)
        while not attempt.result and not attempt.at_names:
            machine._turn(attempt, "go")
        if not attempt.result:
            machine._turn(attempt, chance.choice(FATES))
        if machine.world.pending and chance.random() < 0.3:
            machine.come_late(chance.randrange(30), never=False)
    machine.teardown()


def stories() -> None:
    for number in range(STORIES):
        story(Random(number))


def test_the_stories_of_switches_see_a_fence_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that cannot fail shows nothing: the same stories are clean with the fence, and not without."""
    stories()

    def unfenced(record: AuthorityRecord, progress: do.Progress, replica: str, name: str) -> do.Action:
        if replica in progress.resent:
            return do.Stop("not_applied")
        return do.Send(replica, name, first=record.predecessor[replica] is None)

    monkeypatch.setattr(do, "_not_applied", unfenced)
    with pytest.raises(AssertionError, match="came back"):
        stories()
