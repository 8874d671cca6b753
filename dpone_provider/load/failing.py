"""What a failed run says of itself: real counters, where target and source stand, what a retry would do (O4, X7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import COMMITS, LoadExecution, Standing
from dpone_provider.load.known import REPEATS
from dpone_provider.quality.failure import RetryClassification
from dpone_provider.wire import StatementFailed

_BEFORE = frozenset({"authoring", "admission", "pre_commit"})


def explain(error: DponeError, execution: LoadExecution, facts: Mapping[str, Any], *, adds: bool) -> None:
    """Complete an error with what the run knows; what the error says itself stays.

    ``adds``: the path adds rows, so that nothing after its first byte may be retried without a look.
    """
    standing = execution.standing
    proven, authority = standing.target == "mutation_returned_success", "replay_details" in facts
    if standing.earlier and standing.target == "not_mutated":
        error.target_commit = "unknown"  # this attempt changed nothing; the table is not what it was all the same
    if error.target_commit is None and (proven or not authority):
        error.target_commit = COMMITS[standing.target]
    if standing.resumed or (standing.target != "not_mutated" and error.boundary in _BEFORE):
        error.boundary = standing.boundary
    if adds and standing.target != "not_mutated":
        error.retryable = False
        if standing.source_state != "advanced" and REPEATS not in error.next_step:
            error.next_step = f"{error.next_step} {REPEATS}".strip()
    if standing.checkpoints == "committed" and isinstance(error.__cause__, StatementFailed):
        error.retryable = True  # nothing is loaded again, and the server may answer next time
    known = {"attempts": 1, "counters": execution.counters(), **facts}
    if not authority or (standing.target == "not_mutated" and error.target_commit == "not_started"):
        known["failure_context"] = {
            "failure_boundary": error.boundary,
            "target_state": standing.target,
            "checkpoint_state": standing.checkpoints,
            "source_state": standing.source_state,
            "retry_classification": classify(standing, adds=adds),
        }
    known["evidence"] = {"load_steps": execution.recorded()}
    error.context = {**known, **error.context}


def classify(standing: Standing, *, adds: bool) -> RetryClassification:
    """What a retry would do."""
    if standing.checkpoints == "committed":
        return "retry_via_native_resume"
    if standing.target == "not_mutated":
        return "retry_before_target_mutation"
    if adds and "unknown" in (standing.target, standing.source_state):
        return "operator_verification_required"
    return "retry_may_repeat_target_mutation"
