"""Wires that record every effect of a load, and that crash or lie at a chosen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeVar

import attrs

from dpone_provider.wire import Effect, StatementFailed

T = TypeVar("T")
Mode = Literal["before_send", "sent_not_applied", "applied_not_acknowledged", "after_acknowledged"]
MODES: tuple[Mode, ...] = ("before_send", "sent_not_applied", "applied_not_acknowledged", "after_acknowledged")


class Died(BaseException):
    """The process is dead: nothing that it would do from here on happens."""


@attrs.define
class CrashWire:
    """Sends, records every effect, and at effect number ``at`` (from 0) does what ``mode`` says.

    ``before_send`` and ``after_acknowledged`` kill the process there: every later send raises ``Died`` again. The
    other two lose the connection, and the process lives on. ``at`` -1 only records. ``applied``: effects that the
    server surely carried out.
    """

    at: int = -1
    mode: Mode = "before_send"
    effects: list[Effect] = attrs.field(factory=list)
    applied: list[Effect] = attrs.field(factory=list)
    dead: bool = False

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        if self.dead:
            raise Died
        number = len(self.effects)
        self.effects.append(effect)
        if number != self.at:
            return self._applied(effect, call)
        match self.mode:
            case "before_send":
                self.dead = True
                raise Died
            case "sent_not_applied":
                raise StatementFailed(None)
            case "applied_not_acknowledged":
                self._applied(effect, call)
                raise StatementFailed(None)
            case "after_acknowledged":
                self._applied(effect, call)
                self.dead = True
                raise Died

    def _applied(self, effect: Effect, call: Callable[[], T]) -> T:
        answer = call()
        self.applied.append(effect)
        return answer

    @property
    def counts(self) -> Counter[str]:
        """How many effects of each kind were sent."""
        return Counter(effect.kind for effect in self.effects)
