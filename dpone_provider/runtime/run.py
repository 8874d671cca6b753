"""Run one load: compose it, run it, say what is true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.replay_route import require_route
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.policy import QualityPolicy, parse_quality
from dpone_provider.runtime.compose import Surroundings, compose
from dpone_provider.runtime.connections import Connections
from dpone_provider.runtime.paths import processor_of
from dpone_provider.runtime.sink import ClickHouseSink


def run_load(
    spec: LoadSpec,
    identity: RunIdentity,
    connections: Connections,
    around: Surroundings | None = None,
    *,
    sink: ClickHouseSink | None = None,
    load_config: Mapping[str, Any] | None = None,
) -> LoadOutcome:
    """Run a load to its proven end. ``sink``: one that the caller composed itself, a reader of its own in it, say.

    ``load_config``: the mapping that the spec was read from, if it may change while the load runs: its ``quality`` is
    read again before everything that matters, and another policy ends the load (Q6).

    Raises ``DponeError``; its ``context`` then holds ``attempts`` and ``counters`` of this attempt,
    ``replay_details`` of the operation and ``duration_seconds``, for ``failure_document``. Only a return is a
    success: the target is loaded and the proof complete.
    """
    require_route(spec)
    around = around or Surroundings()
    started = around.clock()
    policy_now = policy_of(load_config) if load_config is not None else lambda: spec.quality
    try:
        with compose(spec, identity, connections, around, sink) as made:
            outcome = processor_of(made, policy_now).run()
    except DponeError as error:
        error.context = {"duration_seconds": around.clock() - started, **error.context}
        raise
    return attrs.evolve(outcome, duration_seconds=around.clock() - started)


def policy_of(load_config: Mapping[str, Any]) -> Callable[[], QualityPolicy]:
    """What a load configuration says of quality, read anew at each call.

    The call raises ``DponeError`` DPONE_QUALITY_CONFIGURATION or DPONE_ACCEPTANCE_CONFIGURATION for what is malformed.
    """

    def now() -> QualityPolicy:
        policy, problems = parse_quality(load_config["quality"]) if "quality" in load_config else (QualityPolicy(), [])
        for problem in problems:
            raise DponeError(problem.code, f"{problem.field_path}: {problem.message}", remedy=problem.remedy)
        return policy

    return now
