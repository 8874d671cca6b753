"""What a failed run says of itself: real counters, where target and source stand, what a retry would do (O4, X7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from dpone_provider.errors import DponeError, TargetCommit
from dpone_provider.load.execution import COMMITS, LoadExecution, Standing, TargetState

Retry = Literal["retry_before_target_mutation", "retry_may_repeat_target_mutation", "operator_verification_required"]
REPEATS = "A retry may add the same rows again."
_STATES: Mapping[TargetCommit, TargetState] = {commit: state for state, commit in COMMITS.items()}


def explain(error: DponeError, execution: LoadExecution, facts: Mapping[str, Any], *, adds: bool) -> None:
    """Complete an error with what the run knows; what the error says itself stays.

    ``adds``: the path adds rows, so that nothing after its first byte may be retried without a look.
    """
    standing = execution.standing
    if error.target_commit is None and not facts.get("replay_details"):
        error.target_commit = COMMITS[standing.target]
    if standing.target != "not_mutated" and error.boundary in {"authoring", "admission", "pre_commit"}:
        error.boundary = "post_commit"
    if adds and standing.target != "not_mutated":
        error.retryable = False
        if standing.source_state != "advanced" and REPEATS not in error.next_step:
            error.next_step = f"{error.next_step} {REPEATS}".strip()
    known = {"attempts": 1, "counters": execution.counters(), **facts}
    if error.target_commit is not None and "replay_details" not in facts:
        known["failure_context"] = failure_context(standing, error, adds=adds)
    known["evidence"] = {"load_steps": execution.recorded()}
    error.context = {**known, **error.context}


def failure_context(standing: Standing, error: DponeError, *, adds: bool) -> dict[str, Any]:
    """The states of protocol and of Q10, for ``failure_context``."""
    target = _STATES[error.target_commit] if error.target_commit is not None else standing.target
    return {
        "failure_boundary": error.boundary,
        "target_state": target,
        "checkpoint_state": "not_applicable",
        "source_state": standing.source_state,
        "retry_classification": classify(target, standing, adds=adds),
    }


def classify(target: TargetState, standing: Standing, *, adds: bool) -> Retry:
    """What a retry would do."""
    if target == "not_mutated":
        return "retry_before_target_mutation"
    if adds and (target == "unknown" or standing.source_state == "unknown"):
        return "operator_verification_required"
    return "retry_may_repeat_target_mutation"
