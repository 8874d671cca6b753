"""What a load path asks of the outside beside its data: load steps, the source's mark, hooks (X3, X4, X9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from dpone_provider.traces import LoadStep, LoadStepLost, SourceState

__all__ = ["HookRunner", "LoadStep", "LoadStepLog", "LoadStepLost", "SourceState", "SourceStateStore", "When"]

When = Literal["pre", "post"]


class LoadStepLog(Protocol):
    """Where the steps of one load are kept."""

    def record(self, step: LoadStep) -> None:
        """Keep one step: one INSERT, sent once. Raises ``LoadStepLost``; the caller decides what that means (X7)."""


class SourceStateStore(Protocol):
    """The marks of the sources that are read by cursor. Touched only by loads that have one."""

    def admit(self) -> None:
        """Check the table, read-only.

        Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED, or ``StatementFailed`` when the catalog does not answer.
        """

    def read(self, key: str) -> SourceState | None:
        """The mark under a key, None when no load has left one.

        Raises ``DponeError`` DPONE_LOAD_TABLES_UNSUPPORTED when Keeper has lost the table,
        DPONE_SOURCE_STATE_UNCERTAIN when the answer is not one well-formed mark, ``StatementFailed`` for no answer.
        """

    def advance(self, key: str, expected: SourceState | None, value: str, load_id: str) -> SourceState:
        """Move the mark from what ``read`` said to ``value``: one compare-and-swap, sent once, then read back.

        Raises ``DponeError`` DPONE_SOURCE_STATE_UNCERTAIN unless the row that was read back is this very write.
        """


class HookRunner(Protocol):
    """Runs the statements of ``sink.pre_sql`` and ``sink.post_sql``."""

    def run(self, statements: Sequence[str], when: When) -> None:
        """Run them in order, each sent once; the first failure ends it.

        Raises ``DponeError`` DPONE_HOOK_FAILED; its ``context`` has ``hook`` (number from 1) and ``when``.
        """
