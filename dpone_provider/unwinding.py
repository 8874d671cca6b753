"""Undo what was begun when it cannot be finished, whatever stopped it: an error, Ctrl-C or a task's timeout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` when the block raises, whatever it raises, and let that pass."""
    with ExitStack() as stack:
        stack.callback(undo)
        yield
        stack.pop_all()
