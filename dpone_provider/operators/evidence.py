"""The evidence that a task keeps while it runs: pushed before each step acts, so a dead try leaves its last true word.

One small strict-JSON XCom under ``KEY``; it says what is known, never more (F4, protocol 8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpone_provider.errors import DponeError
from dpone_provider.load.known import Known
from dpone_provider.replay.identity import Operation

if TYPE_CHECKING:
    from dpone_provider.load.outcome import LoadOutcome

KEY = "dpone_evidence"
KIND = "dpone.evidence.v1"


class Evidence:
    """``push(key, document)`` keeps a document; every step is told ``further`` afterwards."""

    def __init__(
        self, push: Callable[[str, dict[str, Any]], None], further: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._push = push
        self._further = further
        self._names: dict[str, Any] = {}
        self._known = Known()

    def about(self, operation: Operation) -> None:
        """From here on the evidence names this operation."""
        self._names = {"operation_id": operation.operation_id, "operation": operation.payload()}

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        """One announced step, before it acts. Rows alone are no news."""
        self._known = self._known.after(step, facts)
        if step != "rows":
            self._keep(governance="blocked")
        self._further(step, facts)

    def failed(self, error: DponeError) -> None:
        """How it ended: the error's own claim, and what to do."""
        self._keep(
            governance="blocked",
            target_commit=error.target_commit,
            error_code=error.code,
            retryable=error.retryable,
            next_step=error.next_step,
        )

    def succeeded(self, outcome: LoadOutcome) -> None:
        """The proven end."""
        self._keep(governance="complete", target_commit=outcome.target_commit, replayed=outcome.replayed)

    def _keep(self, **facts: Any) -> None:
        known = self._known
        document = {
            "kind": KIND,
            **self._names,
            "step": known.step,
            "attempt": known.attempt,
            "extracted_rows": known.rows,
            "target_commit": known.target_commit,
            **facts,
        }
        self._push(KEY, document)
