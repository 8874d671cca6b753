"""A load from its policy to its outcome, whatever its path (Q5, Q6, X3, X4, X7).

Policy → refusals → admission → pre-hooks → payload → state of the source → post-hooks. It runs no gate itself and
trusts the typed receipt alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.failing import explain
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.load.payload import Loaded, PayloadLoadService
from dpone_provider.load.ports import HookRunner, LoadStepLog, SourceStateStore, When
from dpone_provider.manifest.replay_route import require_route
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.policy import QualityPolicy


@attrs.frozen(kw_only=True)
class ETLProcessor:
    """One run of one load.

    ``policy_now``: what the configuration says of quality now; it is asked again before everything that matters, and
    must say the spec's policy. ``hooks``, ``states``: needed by a spec that has hooks or a cursor. ``log_of``: where
    the steps of a load are kept beside its result, by load id; asked once, at admission.
    """

    spec: LoadSpec
    identity: RunIdentity
    operation_id: str
    service: PayloadLoadService
    policy_now: Callable[[], QualityPolicy]
    check_cancelled: Callable[[], None]
    notify: Callable[[str, dict[str, Any]], None]
    new_id: Callable[[], str]
    log_of: Callable[[str], LoadStepLog | None]
    hooks: HookRunner | None = None
    states: SourceStateStore | None = None

    def run(self) -> LoadOutcome:
        """Run it. Raises ``DponeError``, completed by what is known then (``load.failing``)."""
        execution = LoadExecution(run_id=self.identity.run_id, load_id=self.new_id(), policy_now=self.policy_now)
        try:
            return self._outcome(execution, self._run(execution))
        except DponeError as error:
            explain(error, execution, self.service.path.facts(), adds=self.adds)
            raise

    @property
    def adds(self) -> bool:
        """Whether the load adds rows to what is there."""
        return self.spec.sink.strategy.mode == "append"

    def _run(self, execution: LoadExecution) -> Loaded:
        try:
            require_route(self.spec)
            execution.snapshot.require_unchanged(self.spec.quality, "admission")
            self.service.admit(execution)
            execution.log = self.log_of(execution.load_id)
            if not execution.standing.resumed:  # nothing is done to the sink then (N4)
                self._hook(execution, self.spec.sink.pre_sql, "pre")
            loaded = self.service.load(execution)
            execution.require_unchanged(execution.standing.boundary)
            execution.accept_state(loaded.receipt)
            self._advance(execution, loaded)
            self._hook(execution, self.spec.sink.post_sql, "post")
        except DponeError as error:
            execution.failed(error)
            raise
        return loaded

    def _advance(self, execution: LoadExecution, loaded: Loaded) -> None:
        """Move the source's mark, once its rows are proven (X3, X4)."""
        mark = loaded.mark
        if mark is None:
            return
        if self.states is None:
            raise LookupError("a cursor needs a store of source states")
        self.check_cancelled()
        self.notify("advance", {})
        try:
            state = self.states.advance(mark.key, mark.expected, mark.value, loaded.load_id)
        except DponeError as error:
            seen = error.context.get("source_state")
            execution.standing.source_state = "not_advanced" if seen in ("conflict", "refused") else "unknown"
            raise
        execution.standing.source_state = "advanced"
        execution.note("state_advanced", {"version": state.version})

    def _hook(self, execution: LoadExecution, statements: tuple[str, ...], when: When) -> None:
        if not statements:
            return
        if self.hooks is None:
            raise LookupError("hooks need a runner")
        self.check_cancelled()
        self.notify("hook", {"when": when})
        self.hooks.run(statements, when)
        for number in range(1, len(statements) + 1):
            execution.note("hook_run", {"number": number, "when": when})

    def _outcome(self, execution: LoadExecution, loaded: Loaded) -> LoadOutcome:
        return LoadOutcome(
            spec=self.spec,
            identity=self.identity,
            durable=self.spec.sink.durable_quality_replay,
            replayed=loaded.replayed,
            target_commit="proven",
            extracted_rows=loaded.extracted_rows,
            inserted_rows=loaded.inserted_rows,
            final_rows=loaded.final_rows,
            duration_seconds=0.0,
            generation=loaded.generation,
            gates=loaded.gates,
            acceptance=loaded.acceptance,
            attempts=loaded.attempts,
            operation_id=self.operation_id,
            load_id=loaded.load_id,
            quality_replay=loaded.quality_replay,
            leftovers=loaded.leftovers,
            finalization=loaded.finalization,
            scope=loaded.scope,
            load_steps=execution.recorded(),
        )
