"""The staged path: a private generation, proven before one switch makes it live (Q5, Q6, X3, X7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dpone_provider.errors import Boundary
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.payload import Loaded
from dpone_provider.quality.failure import ReceiptBoundary, TargetState
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.replay.ports import StagedProof, Stager, StagingOrder

Notify = Callable[[str, dict[str, Any]], None]

# Steps are announced before they act: before these the policy is compared, and what was staged must be accepted.
_COMPARED: Mapping[str, Boundary] = {
    "seal": "pre_commit",
    "permit": "pre_commit",
    "publish": "pre_commit",
    "complete": "post_commit",
}
_TAKEN: Mapping[str, TargetState] = {
    "DISPATCHING": "unknown",
    "COMMITTED": "mutation_returned_success",
    "COMPLETE": "mutation_returned_success",
}


class Staging(Stager, Protocol):
    """A stager that says what it read (``rows_read``, also after a failure).

    ``live``: what acceptance asks of the live table where no reader observes it; known once something was staged.
    """

    @property
    def rows_read(self) -> int: ...

    @property
    def live(self) -> MetricRequest | None: ...


class Watched:
    """A run's stager and its ``notify``, with the run's own rules in front of both. The drivers know nothing of it."""

    def __init__(self, execution: LoadExecution, staging: Staging, notify: Notify) -> None:
        self.execution = execution
        self.staging = staging
        self.proof: StagedProof | None = None
        self.observed = False
        self._notify = notify

    def admit(self) -> None:
        """Admit the target."""
        self.staging.admit()

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage, unless the policy is another one by now."""
        self.execution.require_unchanged("pre_commit")
        self.proof = self.staging.stage(order)
        return self.proof

    def told(self, step: str, facts: dict[str, Any]) -> None:
        """One step that is about to act. Raises ``DponeError`` when it must not."""
        execution = self.execution
        boundary = _COMPARED.get(step)
        if boundary is not None:
            execution.require_unchanged(boundary)
            if self.proof is not None:
                execution.require_accepted(self.proof.receipt, "pre_commit")
        self._notify(step, facts)
        match step:
            case "claimed":
                execution.standing.target = _TAKEN.get(facts["phase"], "not_mutated")
            case "publish":
                execution.standing.target = "unknown"
            case "committed":
                execution.standing.target = "mutation_returned_success"
                execution.note("finalized", {"target_commit": "proven"})
            case "observe":
                self.observed = True


class Route(Protocol):
    """A staged load with or without the authority. ``admit`` refuses, read-only; ``run`` loads."""

    def admit(self, watched: Watched) -> None: ...

    def run(self, watched: Watched) -> Loaded: ...

    def facts(self) -> Mapping[str, Any]: ...


class LoadGovernanceFinalizationCoordinator:
    """Stages, proves, finalizes, observes, cleans: by its route, under the rules of ``Watched``."""

    boundary: ReceiptBoundary = "pre_commit"
    sides = ("source", "staged", "target")

    def __init__(self, stager: Callable[[LoadExecution], Staging], route: Route, notify: Notify) -> None:
        self._stager = stager
        self._route = route
        self._notify = notify
        self._watched: Watched | None = None

    def admit(self, execution: LoadExecution) -> None:
        """The authority, or the target. With the authority the target is admitted before the slot is claimed."""
        self._watched = Watched(execution, self._stager(execution), self._notify)
        self._route.admit(self._watched)

    def load(self, execution: LoadExecution) -> Loaded:
        """Load to the proven switch, with the authority to the sealed end. Raises ``DponeError``."""
        watched = self._watched
        if watched is None or watched.execution is not execution:
            raise LookupError("another run was admitted")
        try:
            return self._route.run(watched)
        finally:
            execution.standing.extracted_rows = watched.staging.rows_read

    def facts(self) -> Mapping[str, Any]:
        """What the route knows after a failure."""
        return self._route.facts()
