"""The tests find a product whose quality rules were taken away: one planted fault, one test that must fail.

Each fault is a rule of the load paths or of the gates, switched off in this process alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load import collecting, direct, gating, processor, routes
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.failing import explain
from dpone_provider.load.payload import Loaded, PayloadLoadService
from dpone_provider.load.processor import ETLProcessor
from dpone_provider.quality import acceptance, gates, verdicts
from dpone_provider.quality.acceptance import unavailable_snapshot
from dpone_provider.quality.gates import QualityGateRunner
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.quality.snapshot import QualityExecutionSnapshot
from dpone_provider.quality.verdicts import Facts, Probe
from dpone_provider.sandbox.process import RunningSandbox
from tests.load import test_gates as staged_gates
from tests.loads import Bench
from tests.paths import test_append_fails as fails
from tests.paths import test_direct as directly
from tests.paths import test_drift as drift
from tests.paths import test_receipts as receipts
from tests.paths import test_staged as staged
from tests.paths.bench import Appending
from tests.quality import test_acceptance as snapshots
from tests.quality import test_gates as judged
from tests.quality import test_receipt as tickets

Plant = Callable[[pytest.MonkeyPatch], None]
CAUGHT = (AssertionError, pytest.fail.Exception, DponeError)

# -- the policy and its receipt --------------------------------------------------------------------------------------


def ignores_drift(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QualityExecutionSnapshot, "require_unchanged", lambda self, current, boundary: None)


def allows_a_replay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QualityGateExecution, "_advance", lambda self, old, new: setattr(self, "_state", new))


def takes_any_receipt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QualityGateExecution, "require_accepted", lambda self, receipt, boundary: None)
    patch.setattr(QualityGateExecution, "accept_state", lambda self, receipt: None)


def moves_the_mark_before_the_receipt(patch: pytest.MonkeyPatch) -> None:
    def load(self: PayloadLoadService, execution: LoadExecution) -> Loaded:
        path: Any = self.path
        loaded = path.load(execution)
        if loaded.mark is not None:
            mark = loaded.mark
            path._room.states.advance(mark.key, mark.expected, mark.value, loaded.load_id)
        execution.require_accepted(loaded.receipt, path.boundary)
        return attrs.evolve(loaded, mark=None)

    patch.setattr(PayloadLoadService, "load", load)


def runs_the_gates_twice(patch: pytest.MonkeyPatch) -> None:
    advance = ETLProcessor._advance

    def again(self: ETLProcessor, execution: LoadExecution, loaded: Loaded) -> None:
        rows = Probe(row_count=loaded.extracted_rows, typed_hash=None)
        QualityGateRunner().evaluate(self.spec.quality, rows, rows)
        advance(self, execution, loaded)

    patch.setattr(ETLProcessor, "_advance", again)


# -- facts -----------------------------------------------------------------------------------------------------------


def counts_a_missing_probe_as_zero(patch: pytest.MonkeyPatch) -> None:
    judge = verdicts.EVALUATIONS["row_count_reconciliation"]

    def zero(probe: Probe) -> Probe:
        return attrs.evolve(probe, row_count=probe.row_count or 0)

    def lenient(gate: Any, facts: Facts) -> Any:
        return judge(gate, attrs.evolve(facts, source=zero(facts.source), target=zero(facts.target)))

    patch.setitem(verdicts.EVALUATIONS, "row_count_reconciliation", lenient)


def counts_a_missing_answer_as_a_pass_where_it_only_warns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gates, "NOT_PASSED", {**gates.NOT_PASSED, "warn": "passed"})


def takes_a_boolean_for_a_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptance, "is_count", lambda value: isinstance(value, int) and value >= 0)


def takes_an_sql_error_for_zero(patch: pytest.MonkeyPatch) -> None:
    ask = gating.gate_answers

    def zeros(*arguments: Any, **options: Any) -> Any:
        found = ask(*arguments, **options)
        return attrs.evolve(found, values={gate: value or 0 for gate, value in found.values.items()}, reasons={})

    patch.setattr(gating, "gate_answers", zeros)


def takes_the_staged_rows_for_the_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        routes,
        "record_live",
        lambda request, observe: acceptance.rebuild_snapshot(
            request, {"row_count": 5, "null_counts": {}, "distinct_counts": {}}
        ),
    )


def makes_up_a_staged_side(patch: pytest.MonkeyPatch) -> None:
    plan = collecting.plan_requests

    def aliased(policy: Any, schemas: Any, datasets: Any) -> Any:
        return plan(policy, {**schemas, "staged": schemas["target"]}, {**datasets, "staged": datasets["target"]})

    patch.setattr(collecting, "plan_requests", aliased)


def warns_where_an_observation_is_required(patch: pytest.MonkeyPatch) -> None:
    record = direct.record_live

    def lenient(request: Any, observe: Any) -> Any:
        try:
            return record(request, observe)
        except DponeError:
            return unavailable_snapshot(attrs.evolve(request, required=False))

    patch.setattr(direct, "record_live", lenient)


# -- evidence and failures -------------------------------------------------------------------------------------------


def writes_its_evidence_after_the_state(patch: pytest.MonkeyPatch) -> None:
    note, late = LoadExecution.note, []

    def kept(self: LoadExecution, step: str, details: Any = None) -> None:
        late.append((step, details))
        if step == "state_advanced":
            for each in late:
                note(self, *each)

    patch.setattr(LoadExecution, "note", kept)


def swallows_a_failing_audit(patch: pytest.MonkeyPatch) -> None:
    note = LoadExecution.note

    def lenient(self: LoadExecution, step: str, details: Any = None) -> None:
        try:
            note(self, step, details)
        except DponeError:
            return

    patch.setattr(LoadExecution, "note", lenient)


def lets_a_failing_audit_hide_the_first_error(patch: pytest.MonkeyPatch) -> None:
    def loud(self: LoadExecution, error: DponeError) -> None:
        self.note("load_governance_failed", {"failure_boundary": "pre_commit", "error_code": error.code})

    patch.setattr(LoadExecution, "failed", loud)


def claims_a_rollback(patch: pytest.MonkeyPatch) -> None:
    def claim(error: DponeError, execution: LoadExecution, facts: Any, *, adds: bool) -> None:
        execution.standing.target = "not_mutated"
        explain(error, execution, facts, adds=adds)

    patch.setattr(processor, "explain", claim)


def calls_every_append_safe_to_retry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ETLProcessor, "adds", property(lambda self: False))


def invents_zeros(patch: pytest.MonkeyPatch) -> None:
    counters = LoadExecution.counters
    patch.setattr(LoadExecution, "counters", lambda self: {name: rows or 0 for name, rows in counters(self).items()})


PLANTED: list[tuple[Plant, Callable[..., None], tuple[Any, ...]]] = [
    (
        ignores_drift,
        drift.test_drift_after_any_effect_of_an_append_is_no_success_until_the_mark_is_moved,
        (Appending,),
    ),
    (allows_a_replay, tickets.test_a_receipt_is_not_replayed_for_the_state, ()),
    (
        takes_any_receipt,
        receipts.test_an_append_with_another_receipt_leaves_the_mark,
        (Appending, pytest.MonkeyPatch, receipts.another_run),
    ),
    (
        takes_any_receipt,
        receipts.test_a_staging_with_another_receipt_is_never_switched,
        (Appending, pytest.MonkeyPatch, receipts.none_at_all),
    ),
    (
        moves_the_mark_before_the_receipt,
        receipts.test_an_append_with_another_receipt_leaves_the_mark,
        (Appending, pytest.MonkeyPatch, receipts.another_run),
    ),
    (
        runs_the_gates_twice,
        receipts.test_the_gates_of_a_load_run_exactly_once,
        (Appending, pytest.MonkeyPatch, "append"),
    ),
    (
        counts_a_missing_probe_as_zero,
        judged.test_a_missing_count_fails_an_error_gate,
        (judged.reconcile(), 0, None, "target_row_count_unavailable"),
    ),
    (
        counts_a_missing_answer_as_a_pass_where_it_only_warns,
        judged.test_a_warning_gate_warns_and_does_not_block,
        (judged.min_rows(5, severity="warn"), 5, None),
    ),
    (
        takes_a_boolean_for_a_count,
        snapshots.test_a_bad_answer_is_refused_when_required,
        (snapshots.answer(null_counts={"record_id": False}),),
    ),
    (takes_an_sql_error_for_zero, staged_gates.test_a_gate_on_a_missing_column_fails_and_says_so, (Bench,)),
    (
        takes_the_staged_rows_for_the_target,
        staged.test_the_target_is_counted_where_it_is_live_and_not_where_it_was_staged,
        (Appending,),
    ),
    (makes_up_a_staged_side, directly.test_a_staged_side_is_one_warning_and_never_made_up, (Appending,)),
    (
        warns_where_an_observation_is_required,
        directly.test_a_live_table_that_cannot_be_counted_fails_after_the_commit_and_leaves_the_mark,
        (Appending,),
    ),
    (
        writes_its_evidence_after_the_state,
        directly.test_the_source_is_read_and_captured_before_the_first_row_goes_and_the_target_after,
        (Appending,),
    ),
    (
        swallows_a_failing_audit,
        fails.test_a_step_that_cannot_be_recorded_ends_the_load_where_it_is,
        (Appending, "finalized", "proven"),
    ),
    (
        lets_a_failing_audit_hide_the_first_error,
        staged.test_a_failing_log_does_not_stand_in_front_of_the_first_error,
        (Appending, pytest.MonkeyPatch),
    ),
    (
        claims_a_rollback,
        directly.test_a_live_table_that_cannot_be_counted_fails_after_the_commit_and_leaves_the_mark,
        (Appending,),
    ),
    (
        calls_every_append_safe_to_retry,
        directly.test_a_gate_that_fails_afterwards_says_what_was_written_and_that_a_retry_repeats_it,
        (Appending,),
    ),
    (
        invents_zeros,
        fails.test_an_insert_without_an_answer_is_uncertain_whatever_became_of_it,
        (Appending, "applied_not_acknowledged"),
    ),
]


def given(arguments: tuple[Any, ...], bench: Appending, patch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments, with the fixtures that are named by their type."""
    other = Bench(sandbox=bench.sandbox, database=bench.database, folder=bench.folder)
    fixtures = {Appending: bench, Bench: other, pytest.MonkeyPatch: patch}
    return [fixtures.get(each, each) if isinstance(each, type) else each for each in arguments]


@pytest.mark.contract("Q4", "Q6", "X7")
@pytest.mark.parametrize(
    ("plant", "test", "arguments"), PLANTED, ids=[f"{plant.__name__}-{at}" for at, (plant, *_) in enumerate(PLANTED)]
)
def test_a_planted_fault_is_found(
    bench: Appending,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    test: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """The test passes in the product as it is, and fails with the fault."""
    plant(monkeypatch)
    with pytest.raises(CAUGHT):
        test(*given(arguments, bench, monkeypatch))


def test_every_test_that_finds_a_fault_passes_without_it(
    sandbox: RunningSandbox, database: str, tmp_path: Path
) -> None:
    """No fault counts as found because its test cannot pass at all."""
    for number, (_, test, arguments) in enumerate(PLANTED):
        folder = tmp_path / str(number)
        folder.mkdir()
        bench = Appending(sandbox=sandbox, database=database, folder=folder)
        for table in ("t", "dpone_load_steps", "dpone_source_state"):
            bench.ask(f"DROP TABLE IF EXISTS {database}.{table} SYNC")
        bench.create()
        bench.provision()
        bench.write(1)
        with pytest.MonkeyPatch.context() as patch:
            test(*given(arguments, bench, patch))
