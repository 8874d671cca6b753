"""Attempts that run at the same time, one effect at a turn, in an order that a seed decides."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Literal, TypeVar

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed
from tests.crash.wire import Died

T = TypeVar("T")
Fate = Literal["go", "lost_before", "lost_after", "die_before", "die_after"]
FATES: tuple[Fate, ...] = ("lost_before", "lost_after", "die_before", "die_after")


@attrs.define(eq=False)
class Actor:
    """One attempt in a thread of its own. ``result``: "success", an error code, or "died"."""

    name: str
    body: Callable[[Actor], object]
    turn: threading.Event = attrs.field(factory=threading.Event)
    waiting: threading.Event = attrs.field(factory=threading.Event)
    effect: Effect | None = None
    fate: Fate = "go"
    dead: bool = False
    result: str = ""
    applied: list[Effect] = attrs.field(factory=list)
    problem: BaseException | None = None

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        """The wire of this attempt: waits for its turn, then meets its fate."""
        if self.dead:
            raise Died
        self.effect = effect
        self.turn.clear()
        self.waiting.set()
        if not self.turn.wait(60):
            raise TimeoutError("no turn came")
        fate, self.fate = self.fate, "go"
        if fate == "die_before":
            self.dead = True
            raise Died
        if fate == "lost_before":
            raise StatementFailed(None)
        answer = call()
        self.applied.append(effect)
        if fate == "die_after":
            self.dead = True
            raise Died
        if fate == "lost_after":
            raise StatementFailed(None)
        return answer

    def run(self) -> None:
        try:
            self.body(self)
            self.result = "success"
        except Died:
            self.result = "died"
        except DponeError as error:
            self.result = error.code
        except BaseException as problem:  # noqa: BLE001 - shown by the test
            self.problem = problem
        finally:
            self.effect = None
            self.waiting.set()


class Stage:
    """Gives turns to actors. ``after(actor, effect)`` is called after every turn, while everybody stands still."""

    def __init__(self, seed: int, *, after: Callable[[Actor, Effect], None], faults: int) -> None:
        self._random = random.Random(seed)
        self._after = after
        self._faults = faults
        self.turns: list[str] = []

    def play(self, actors: list[Actor]) -> None:
        """Run all actors to their end."""
        for actor in actors:
            threading.Thread(target=actor.run, daemon=True).start()
        while True:
            for actor in actors:
                if not actor.waiting.wait(60):
                    raise TimeoutError(f"{actor.name} hangs")
                if actor.problem is not None:
                    raise actor.problem
            ready = [actor for actor in actors if actor.effect is not None]
            if not ready:
                return
            self._give(self._random.choice(ready))

    def _give(self, actor: Actor) -> None:
        effect = actor.effect
        if effect is None:
            raise LookupError("nothing to do")
        if self._faults > 0 and self._random.random() < 0.03:
            self._faults -= 1
            actor.fate = self._random.choice(FATES)
        self.turns.append(f"{actor.name} {effect.kind} {actor.fate}")
        actor.waiting.clear()
        actor.turn.set()
        if not actor.waiting.wait(60):
            raise TimeoutError(f"{actor.name} hangs in {effect.kind}")
        self._after(actor, effect)
