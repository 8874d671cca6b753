"""The failure of a blocking gate: what it says by itself, and what its owner may add."""

from __future__ import annotations

import json
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_provider.quality import gates
from dpone_provider.quality.failure import (
    CheckpointState,
    QualityGateFailure,
    QualityGateFailureOutcome,
    ReceiptBoundary,
    RetryClassification,
    SourceState,
    TargetState,
)
from dpone_provider.quality.gates import Probe, QualityGateReport, QualityGateRunner
from dpone_provider.quality.policy import GateSpec, QualityPolicy, Tolerance

ROWS = ("inserted_rows", "updated_rows", "final_rows", "extracted_rows")
WORDS: dict[str, tuple[Any, ...]] = {
    "failure_boundary": get_args(ReceiptBoundary),
    "target_state": get_args(TargetState),
    "checkpoint_state": get_args(CheckpointState),
    "source_state": get_args(SourceState),
    "retry_classification": get_args(RetryClassification),
}


def report() -> QualityGateReport:
    gate = GateSpec(id="rows", type="row_count_reconciliation", tolerance=Tolerance())
    return QualityGateRunner().evaluate(QualityPolicy(gates=(gate,)), Probe(row_count=5), Probe(row_count=4))


def outcome(**changes: Any) -> QualityGateFailureOutcome:
    values: dict[str, Any] = {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "not_applicable",
        "source_state": "not_advanced",
        "retry_classification": "retry_may_repeat_target_mutation",
    }
    return QualityGateFailureOutcome(**{**values, **changes})


@pytest.mark.contract("Q9", "O4")
def test_the_old_constructor_says_what_it_always_said() -> None:
    failure = QualityGateFailure(report())
    assert str(failure) == (
        "DPONE_QUALITY_GATES_FAILED: Blocking gates failed: rows (rows_outside_tolerance). "
        "Look at the listed gates; correct the source or the gate."
    )
    assert failure.context == {"gates": [{"gate_id": "rows", "code": "rows_outside_tolerance"}]}
    assert (failure.boundary, failure.target_commit, failure.retryable) == ("pre_commit", None, False)
    assert failure.outcome is None
    assert failure.report == report()


@pytest.mark.contract("Q9")
def test_a_failure_lists_the_blocking_gates_alone() -> None:
    rows = GateSpec(id="rows", type="row_count_reconciliation")
    gates = (rows, attrs.evolve(rows, id="warned", severity="warn"), attrs.evolve(rows, id="again"))
    failed = QualityGateRunner().evaluate(QualityPolicy(gates=gates), Probe(row_count=5), Probe(row_count=4))
    assert QualityGateFailure(failed).message == (
        "Blocking gates failed: rows (rows_outside_tolerance), again (rows_outside_tolerance)."
    )


@pytest.mark.contract("Q3", "Q9")
def test_a_failure_keeps_the_boundary_it_is_given() -> None:
    assert QualityGateFailure(report(), boundary="post_commit").boundary == "post_commit"


@pytest.mark.contract("Q9")
def test_the_old_import_place_has_the_same_failure() -> None:
    assert gates.QualityGateFailure is QualityGateFailure


@pytest.mark.contract("Q10", "O4")
def test_an_outcome_adds_real_counters_and_the_failure_context() -> None:
    told = outcome(inserted_rows=7, updated_rows=0, final_rows=None, extracted_rows=9, attempts=3)
    failure = QualityGateFailure(report(), outcome=told)
    assert failure.outcome is told
    assert failure.context == {
        "gates": [{"gate_id": "rows", "code": "rows_outside_tolerance"}],
        "failure_context": {
            "failure_boundary": "post_commit",
            "target_state": "mutation_returned_success",
            "checkpoint_state": "not_applicable",
            "source_state": "not_advanced",
            "retry_classification": "retry_may_repeat_target_mutation",
        },
        "counters": {"inserted_rows": 7, "updated_rows": 0, "final_rows": None, "extracted_rows": 9},
        "attempts": 3,
        "quality_gates": report().payload(),
    }
    assert failure.context == json.loads(json.dumps(failure.context))


@pytest.mark.contract("Q10", "O4")
def test_the_code_and_the_sentence_are_the_same_with_an_outcome() -> None:
    assert str(QualityGateFailure(report(), outcome=outcome())) == str(QualityGateFailure(report()))


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("boundary", WORDS["failure_boundary"])
def test_the_boundary_of_the_outcome_is_the_failures(boundary: Any) -> None:
    failure = QualityGateFailure(report(), boundary="pre_commit", outcome=outcome(failure_boundary=boundary))
    assert failure.boundary == boundary


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("thing", [{"target_state": "not_mutated"}, "not_mutated", True], ids=["dict", "str", "True"])
def test_nothing_else_is_an_outcome(thing: Any) -> None:
    failure = QualityGateFailure(report(), outcome=thing)
    assert failure.outcome is None
    assert failure.context == QualityGateFailure(report()).context


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("field", ROWS)
@pytest.mark.parametrize("value", [True, False, -1, 1.0, "7", None, [7], 2**64, float("nan")], ids=repr)
def test_a_counter_that_is_no_count_is_null(field: str, value: Any) -> None:
    told = outcome(**{field: value})
    assert getattr(told, field) is None
    assert told.counters()[field] is None


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("field", ROWS)
@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_a_counter_that_is_a_count_is_kept(field: str, value: int) -> None:
    assert outcome(**{field: value}).counters() == {**dict.fromkeys(ROWS), field: value}


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("attempts", [0, -1, True, False, 2.0, "2", None], ids=repr)
def test_there_was_at_least_one_attempt(attempts: Any) -> None:
    assert outcome(attempts=attempts).attempts == 1
    assert type(outcome(attempts=attempts).attempts) is int


@pytest.mark.contract("Q10")
def test_attempts_are_kept_and_one_unless_told() -> None:
    assert [outcome(attempts=4).attempts, outcome().attempts] == [4, 1]


@pytest.mark.contract("Q10")
@pytest.mark.parametrize(("field", "word"), [(field, word) for field in WORDS for word in WORDS[field]])
def test_every_word_of_the_vocabulary_is_taken(field: str, word: str) -> None:
    assert outcome(**{field: word}).document()[field] == word


@pytest.mark.contract("Q10")
@pytest.mark.parametrize("field", WORDS)
@pytest.mark.parametrize("word", ["", "Unknown", "rolled_back", None, True, 1], ids=repr)
def test_a_word_outside_the_vocabulary_is_refused(field: str, word: Any) -> None:
    with pytest.raises(ValueError, match=field):
        outcome(**{field: word})


@pytest.mark.contract("Q10")
def test_the_vocabularies_are_the_promised_ones() -> None:
    assert {field: set(words) for field, words in WORDS.items()} == {
        "failure_boundary": {"pre_commit", "post_commit", "resume_validation"},
        "target_state": {"not_mutated", "mutation_returned_success", "unknown"},
        "checkpoint_state": {"not_advanced", "committed", "not_applicable", "unknown"},
        "source_state": {"not_advanced", "unknown"},
        "retry_classification": {
            "retry_before_target_mutation",
            "retry_via_native_resume",
            "retry_may_repeat_target_mutation",
            "operator_verification_required",
        },
    }


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@pytest.mark.contract("Q10", "O4")
@given(rows=st.fixed_dictionaries(dict.fromkeys(ROWS, ANYTHING)), attempts=ANYTHING)
def test_no_value_makes_an_outcome_unsafe(rows: dict[str, Any], attempts: Any) -> None:
    told = outcome(**rows, attempts=attempts)
    assert told.attempts >= 1
    assert {type(value) for value in told.counters().values()} <= {int, type(None)}
    assert len(json.dumps([told.document(), told.counters()])) < 500
