"""A wire that does something else beside one effect: changes the configuration, fails it, interrupts, dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from dpone_provider.wire import Effect

T = TypeVar("T")
CHANGES = ("create_table", "insert", "append", "exchange", "publish_first", "rename", "drop", "hook", "source_state")


def nothing() -> None:
    return None


@attrs.define
class Beside:
    """Records every effect; at number ``at`` it calls ``before`` first and ``after`` afterwards."""

    at: int
    before: Callable[[], None] = nothing
    after: Callable[[], None] = nothing
    effects: list[Effect] = attrs.field(factory=list)

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        here = len(self.effects) == self.at
        self.effects.append(effect)
        if here:
            self.before()
        answer = call()
        if here:
            self.after()
        return answer

    @property
    def kinds(self) -> list[str]:
        return [effect.kind for effect in self.effects]

    def changed_since(self, at: int) -> list[str]:
        """Kinds of effects after number ``at`` that change something outside."""
        return [kind for kind in self.kinds[at + 1 :] if kind in CHANGES]


@attrs.define
class On:
    """Calls ``act`` before (or ``after``) every effect of a kind and name; records all."""

    kind: str
    act: Callable[[], None]
    what: str = ""
    after: bool = False
    effects: list[Effect] = attrs.field(factory=list)

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        self.effects.append(effect)
        meant = effect.kind == self.kind and self.what in effect.what
        if meant and not self.after:
            self.act()
        answer = call()
        if meant and self.after:
            self.act()
        return answer

    @property
    def kinds(self) -> list[str]:
        return [effect.kind for effect in self.effects]
