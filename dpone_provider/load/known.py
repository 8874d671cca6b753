"""What is known of a load while it runs: a fold over the steps that it announces before each one acts (F4, G7).

Pure. A dead attempt leaves what the last announced step implies, never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.errors import TargetCommit

_AFTER: Mapping[str, TargetCommit] = {
    "stage": "not_started",
    "collect": "not_started",
    "append": "unknown",
    "appended": "proven",
    "permit": "unknown",
    "publish": "unknown",
    "replace": "unknown",
    "resume": "proven",
    "fence": "unknown",
    "committed": "proven",
    "complete": "proven",
    "pending": "proven",
    "observe": "proven",
}
_TAKEN: Mapping[str, TargetCommit] = {"DISPATCHING": "unknown", "COMMITTED": "proven", "COMPLETE": "proven"}

REPEATS = "A retry may add the same rows again."


@attrs.frozen(kw_only=True)
class Known:
    """``step``: the last one announced, "" before the first. ``target_commit`` None: no claim, an earlier attempt may
    have done anything. ``rows``: read from the source so far. ``repeats``: rows are, or may be, in the table, and a
    retry may add them again.
    """

    step: str = ""
    attempt: int = 1
    rows: int = 0
    target_commit: TargetCommit | None = None
    repeats: bool = False
    earlier: bool = False

    def after(self, step: str, facts: Mapping[str, Any]) -> Known:
        """What is known once ``step`` is announced with its ``facts``."""
        if step == "claimed":
            taken = _TAKEN.get(facts.get("phase", ""), "not_started")
            return attrs.evolve(self, step=step, attempt=facts.get("attempt", 1), target_commit=taken)
        if step == "planned":
            return attrs.evolve(self, step=step, attempt=facts["attempt"], earlier=facts["committed"] > 0)
        commit = _AFTER.get(step, self.target_commit)
        if self.earlier and commit == "not_started":
            commit = "unknown"
        moved = step == "hook" and self.step == "advance"  # whatever comes after it, the mark has moved
        repeats = (self.repeats or step == "append") and not moved
        rows = facts.get("rows", self.rows)
        return attrs.evolve(self, step=step, rows=rows, target_commit=commit, repeats=repeats)
