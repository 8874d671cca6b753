"""The evidence that a task keeps while it runs: pushed before each step acts, so a dead try leaves its last true word.

One strict-JSON XCom under ``KEY``, below 4 KiB; it says what is known, never more (F4, protocol 8).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dpone_provider.errors import DponeError
from dpone_provider.load.known import Known
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.tenure import Fenced

if TYPE_CHECKING:
    from dpone_provider.load.outcome import LoadOutcome

KEY = "dpone_evidence"
KIND = "dpone.evidence.v1"
_LONGEST_NAMES = 2_500  # of an operation, in characters of JSON; beyond, its id has to do
_LONGEST_TEXT = 200


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
        payload = operation.payload()
        self._names = {"operation_id": operation.operation_id}
        if len(json.dumps(payload)) <= _LONGEST_NAMES:
            self._names["operation"] = payload

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        """One announced step, before it acts. Rows alone are no news."""
        self._known = self._known.after(step, facts)
        if step != "rows":
            self._keep(governance="blocked")
        self._further(step, facts)

    def failed(self, error: DponeError) -> None:
        """How it ended: the error's own claim, and what to do. A fenced try leaves the word to the newer one."""
        if isinstance(error, Fenced):
            return
        self._keep(
            governance="blocked",
            target_commit=error.target_commit,
            error_code=error.code,
            retryable=error.retryable,
            next_step=error.next_step[:_LONGEST_TEXT],
        )

    def succeeded(self, outcome: LoadOutcome) -> None:
        """The proven end. ``target_observation``: of the live table; ``replayed_from``: which staging was proven."""
        facts: dict[str, Any] = {"replayed": outcome.replayed, "target_observation": _observation(outcome.acceptance)}
        if outcome.replayed and outcome.quality_replay is not None:
            facts["replayed_from"] = outcome.quality_replay["replayed_from"]
        self._keep(governance="complete", target_commit=outcome.target_commit, **facts)

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


def _observation(acceptance: Mapping[str, Any]) -> str:
    target = acceptance.get("target")
    if target is None:
        return "not_requested"
    return "unavailable" if target["warnings"] else "observed"
