"""The direct coordinator alone, over a table that is a value: its exact order, words and facts (X4, X7, Q5, Q10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse import pins
from dpone_provider.errors import DponeError
from dpone_provider.load import collecting
from dpone_provider.load.direct import LegacyLoadGovernanceCoordinator
from dpone_provider.load.execution import LoadExecution, Standing
from dpone_provider.load.outcome import Attempt
from dpone_provider.load.payload import Mark
from dpone_provider.quality.failure import QualityGateFailure
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.traces import SourceState
from dpone_provider.wire import StatementFailed
from tests.paths.values import LOAD, SINK, TABLE, Direct, raises

OBSERVED = {
    "enabled": True,
    "mode": "required",
    "capture": {"source": True, "staged": False, "target": True},
    "checks": {"row_count": True},
}
VIEWED = attrs.evolve(TABLE, dependents=("d.v",))
OTHER = attrs.evolve(TABLE, uuid="00000000-0000-4000-8000-000000000002")
ADMISSION = ["compare the policy", "look at the table"]
READING = ["look for a cancellation", "compare the policy", "tell collect"]
APPENDED = ["tell append", "append to the live table", "acknowledge", "look at the table", "tell appended"]
SEEN = SourceState(key="k", value="number:3", load_id="2" * 32, version=4, write_id="3" * 32)


@pytest.fixture
def direct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Direct:
    made = Direct(tmp_path)
    made.put_in_place(monkeypatch)
    return made


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X4", "Q6")
def test_everything_of_a_load_happens_in_one_order(direct: Direct) -> None:
    direct.load(direct.spec(cursor="id", acceptance=OBSERVED))
    reading = direct.happened.index("tell collect") + 1
    captured = direct.happened.index("note source_metrics_captured")
    assert set(direct.happened[reading:captured]) <= {"look for a cancellation", "tell rows"}
    assert direct.happened[:reading] + direct.happened[captured:] == [
        *ADMISSION,
        "look for row policies",
        "admit the marks",
        "read the mark of k",
        *READING,
        "note source_metrics_captured",
        "look at the table",
        "compare the policy",
        "look for a cancellation",
        *APPENDED,
        "note finalized",
        "compare the policy",
        "note quality_checked",
        "count in the live table",
        "note target_metrics_captured",
    ]


@pytest.mark.contract("X4")
def test_what_nobody_asked_for_is_not_done(direct: Direct) -> None:
    direct.load()
    left_out = {"look for row policies", "admit the marks", "count in the live table", "note target_metrics_captured"}
    assert not left_out.intersection(direct.happened)


@pytest.mark.contract("X4")
def test_row_policies_matter_only_where_the_target_is_counted(direct: Direct) -> None:
    direct.policies = 1
    direct.load(direct.spec(acceptance={**OBSERVED, "capture": {"source": True, "staged": False, "target": False}}))
    assert "look for row policies" not in direct.happened
    with pytest.raises(DponeError) as raised:
        direct.load(direct.spec(acceptance=OBSERVED))
    assert (raised.value.code, "d.t has row policies" in raised.value.message) == ("DPONE_TARGET_UNSUPPORTED", True)


@pytest.mark.contract("X4")
def test_after_pre_hooks_the_table_is_admitted_anew(direct: Direct) -> None:
    direct.tables = [TABLE, OTHER]
    direct.load(direct.spec(pre_sql=["SELECT 1"]))
    assert direct.happened[:5] == [*ADMISSION, "look at the table", "look for a cancellation", "compare the policy"]
    direct.tables = [TABLE, VIEWED]
    error, _ = direct.fails(direct.spec(pre_sql=["SELECT 1"]))
    assert error.code == "DPONE_TARGET_UNSUPPORTED"


def test_a_load_that_was_not_admitted_is_refused(direct: Direct) -> None:
    coordinator = LegacyLoadGovernanceCoordinator(direct.room(direct.spec()))
    execution = LoadExecution(run_id="r", load_id=LOAD, policy_now=lambda: QualityPolicy())
    with pytest.raises(LookupError, match=r"^not admitted$"):
        coordinator.load(execution)
    assert coordinator.facts() == {}


@pytest.mark.contract("A1")
@pytest.mark.parametrize("what", ["admit the marks", "read the mark of k"])
@pytest.mark.parametrize(
    ("code", "error_code", "message"),
    [
        (None, "DPONE_SERVER_UNREACHABLE", "The server stopped answering while the state of the source was admitted."),
        (241, "DPONE_SERVER_REFUSED", "The catalog could not be read (server error 241)."),
    ],
)
def test_marks_that_cannot_be_read_end_the_admission(
    direct: Direct, what: str, code: int | None, error_code: str, message: str
) -> None:
    direct.on[what] = raises(StatementFailed(code))
    with pytest.raises(DponeError) as raised:
        direct.load(direct.spec(cursor="id"))
    assert (raised.value.code, raised.value.message) == (error_code, message)
    assert raised.value.__suppress_context__


@pytest.mark.contract("X4")
def test_what_is_sent_is_what_was_read_to_where_it_was_admitted(direct: Direct) -> None:
    direct.load()
    schema = direct.sent.pop("schema")
    assert direct.sent == {
        "endpoint": SINK,
        "rows": [3, 4, 5],
        "names": ["n3", "n4", "n5"],
        "database": "d",
        "table": "t",
        "columns": ("id", "name"),
        "wire": direct.wire,
        "settings": pins.APPEND,
        "query_id": LOAD,
    }
    assert schema.names == ["id", "name"]
    assert direct.told["append"] == direct.told["appended"] == {"rows": 3}
    assert direct.told["collect"] == {}


# -- the source ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X2", "X5", "X9")
def test_the_source_is_observed_as_it_is_sent(direct: Direct) -> None:
    checks = {"row_count": True, "null_counts": ["name", "id"], "distinct_counts": ["name"]}
    capture = {"source": True, "staged": False, "target": False}
    loaded, execution = direct.load(direct.spec(acceptance={**OBSERVED, "capture": capture, "checks": checks}))
    shot = loaded.acceptance["source"]
    assert (shot["row_count"], shot["null_counts"], shot["distinct_counts"]) == (3, {"id": 0, "name": 0}, {"name": 3})
    assert shot["dataset"].startswith("source_file:")
    assert execution.recorded()[0] == {"step": "source_metrics_captured", "columns": 2, "row_count": 3}


@pytest.mark.contract("X5")
def test_a_source_that_nobody_observes_is_not_captured(direct: Direct) -> None:
    capture = {"source": False, "staged": False, "target": True}
    loaded, execution = direct.load(direct.spec(acceptance={**OBSERVED, "capture": capture}))
    assert list(loaded.acceptance) == ["target"]
    assert execution.recorded()[0]["step"] == "finalized"


@pytest.mark.contract("X4")
def test_a_source_over_its_budget_sends_nothing(direct: Direct) -> None:
    error, execution = direct.fails(direct.spec(strategy={"mode": "append", "max_source_bytes": 10}))
    assert (error.code, "budget of 10 bytes" in error.message) == ("DPONE_SOURCE_TOO_LARGE", True)
    assert execution.standing == Standing(extracted_rows=3)


@pytest.mark.contract("X4")
def test_text_is_read_as_the_types_of_the_live_table(direct: Direct) -> None:
    spec = direct.spec()
    (direct.folder / "source.csv").write_text("id,name\n3,007\n", encoding="utf-8")
    direct.load(spec)
    assert direct.sent["names"] == ["007"]


@pytest.mark.contract("X4")
def test_a_source_is_opened_at_the_room_s_own_endpoint(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def opens(spec: object, endpoint: object, **options: object) -> None:
        opened.append(endpoint)
        raise DponeError("DPONE_SOURCE_NOT_FOUND")

    monkeypatch.setattr(collecting, "open_source", opens)
    made, execution = direct.admitted(direct.spec())
    endpoint: Any = "the endpoint of the source"
    other = LegacyLoadGovernanceCoordinator(attrs.evolve(made._room, source=endpoint))
    other.admit(execution)
    with pytest.raises(DponeError):
        other.load(execution)
    assert opened == [endpoint]


# -- a load that succeeds --------------------------------------------------------------------------------------------


@pytest.mark.contract("X4", "X9")
def test_a_load_gives_back_what_is_true_of_it(direct: Direct) -> None:
    loaded, execution = direct.load(direct.spec(acceptance=OBSERVED))
    assert loaded.receipt is not None
    execution.require_accepted(loaded.receipt, "post_commit")
    assert (loaded.receipt.boundary, loaded.receipt.load_id) == ("post_commit", LOAD)
    assert {side: shot["row_count"] for side, shot in loaded.acceptance.items()} == {"source": 3, "target": 8}
    told = attrs.evolve(loaded, receipt=None, acceptance={})
    assert told == type(loaded)(
        receipt=None,
        load_id=LOAD,
        gates=loaded.receipt.report.payload(),
        acceptance={},
        extracted_rows=3,
        inserted_rows=3,
        final_rows=8,
        generation="",
        attempts=(Attempt(number=1, epoch=0, phases=("APPENDED",), source_reads=1, rows=3, publications=0),),
        finalization="legacy_post_finalize",
    )
    assert execution.recorded() == [
        {"step": "source_metrics_captured", "columns": 0, "row_count": 3},
        {"step": "finalized", "governance_finalization": "legacy_post_finalize", "rows": 3, "written_rows": 3},
        {"step": "quality_checked", "failed": 0, "gates": 1, "passed": 1, "warned": 0},
        {"step": "target_metrics_captured", "row_count": 8},
    ]
    assert execution.standing == Standing(
        target="mutation_returned_success", extracted_rows=3, inserted_rows=3, final_rows=8
    )


@pytest.mark.contract("X4")
def test_without_rows_nothing_is_told_or_sent_and_the_table_is_as_it_was(direct: Direct) -> None:
    direct.rows = []
    loaded, execution = direct.load(direct.spec(acceptance=OBSERVED))
    assert set(APPENDED).intersection(direct.happened) == {"look at the table"}
    assert direct.happened.count("look at the table") == 2
    assert execution.standing == Standing(inserted_rows=0, final_rows=8)
    assert (loaded.inserted_rows, loaded.final_rows) == (0, 8)
    assert execution.recorded()[1]["written_rows"] == 0


@pytest.mark.contract("X4")
def test_a_table_that_feeds_views_is_appended_to_and_nobody_counts_what_was_written(direct: Direct) -> None:
    direct.tables = [VIEWED]
    loaded, execution = direct.load(direct.spec(gates=[]))
    assert (loaded.inserted_rows, loaded.final_rows) == (None, None)
    assert (execution.standing.target, execution.standing.inserted_rows) == ("mutation_returned_success", None)
    assert direct.happened.count("look at the table") == 3


# -- the mark --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X4")
@pytest.mark.parametrize(
    ("before", "rows", "sent", "mark"),
    [
        (None, [3, 4, 5], [3, 4, 5], Mark(key="k", expected=None, value="number:5")),
        (SEEN, [3, 4, 5], [4, 5], Mark(key="k", expected=SEEN, value="number:5")),
        (SEEN, [1, 2, 3], [], None),
        (None, [], [], None),
    ],
)
def test_the_mark_that_a_load_has_earned(
    direct: Direct, before: SourceState | None, rows: list[int], sent: list[int], mark: Mark | None
) -> None:
    direct.mark, direct.rows = before, rows
    loaded, _ = direct.load(direct.spec(cursor="id"))
    assert loaded.mark == mark
    assert direct.sent.get("rows", []) == sent


# -- gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("Q1", "Q5")
def test_the_gates_judge_what_was_sent_and_what_the_server_says_it_wrote(direct: Direct) -> None:
    direct.tables = [VIEWED]
    gates = (
        {"id": "read", "type": "min_rows", "threshold": 3, "side": "source"},
        {"id": "hash", "type": "row_count_reconciliation", "severity": "warn"},
        {"id": "written", "type": "min_rows", "threshold": 1, "severity": "warn"},
    )
    loaded, execution = direct.load(direct.spec(gates=gates))
    results = [(result["status"], result["code"]) for result in loaded.gates["results"]]
    assert [status for status, _ in results] == ["passed", "warned", "warned"]
    assert execution.recorded()[-1] == {"step": "quality_checked", "failed": 0, "gates": 3, "passed": 1, "warned": 2}


@pytest.mark.contract("Q5", "Q10", "O4")
def test_a_gate_that_blocks_says_what_is_true_of_the_load(direct: Direct) -> None:
    gates = [{"id": "some", "type": "min_rows", "threshold": 9}]
    error, execution = direct.fails(direct.spec(gates=gates, acceptance=OBSERVED))
    assert isinstance(error, QualityGateFailure)
    assert error.outcome is not None
    assert attrs.asdict(error.outcome) == {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "not_applicable",
        "source_state": "not_advanced",
        "retry_classification": "retry_may_repeat_target_mutation",
        "inserted_rows": 3,
        "updated_rows": None,
        "final_rows": None,
        "extracted_rows": 3,
        "attempts": 1,
    }
    assert [result.gate_id for result in error.report.blocking] == ["some"]
    assert execution.recorded()[-1] == {"step": "quality_checked", "failed": 1, "gates": 1, "passed": 0, "warned": 0}
    assert "count in the live table" not in direct.happened


@pytest.mark.contract("Q5")
def test_a_gate_that_blocks_an_append_without_rows_makes_a_retry_free(direct: Direct) -> None:
    direct.rows = []
    error, _ = direct.fails(direct.spec(gates=[{"id": "some", "type": "min_rows", "threshold": 1}]))
    assert isinstance(error, QualityGateFailure)
    assert error.outcome is not None
    assert error.outcome.retry_classification == "retry_before_target_mutation"


# -- what is said of an insert that did not come back clean ----------------------------------------------------------


def facts(error: DponeError) -> tuple[str, str, str, str | None, bool]:
    return error.code, error.message, error.boundary, error.target_commit, error.retryable


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize("code", [60, 164, 497])
def test_an_insert_that_was_refused_at_once_changed_nothing(direct: Direct, code: int) -> None:
    direct.on["acknowledge"] = raises(StatementFailed(code))
    error, execution = direct.fails()
    message = f"The server refused the insert (server error {code})."
    assert facts(error) == ("DPONE_SERVER_REFUSED", message, "pre_commit", None, False)
    assert execution.standing == Standing(target="not_mutated", extracted_rows=3, inserted_rows=0, final_rows=None)


@pytest.mark.contract("X7")
@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (497, "Give the user the grants that docs/operating.md lists."),
        (60, "Look at the server error number in the message."),
    ],
)
def test_an_insert_that_was_refused_at_once_says_what_helps(direct: Direct, code: int, remedy: str) -> None:
    direct.on["acknowledge"] = raises(StatementFailed(code))
    error, _ = direct.fails()
    assert error.next_step == remedy


UNCERTAIN = "Look at the table before you retry: a retry may add the same rows again."


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize(
    ("code", "views", "cause"),
    [
        (None, False, "no answer from the server"),
        (241, False, "server error 241"),
        (497, True, "server error 497"),
    ],
)
def test_an_insert_that_failed_after_it_began_is_uncertain(
    direct: Direct, code: int | None, views: bool, cause: str
) -> None:
    direct.tables = [VIEWED if views else TABLE]
    direct.on["acknowledge"] = raises(StatementFailed(code))
    error, execution = direct.fails(direct.spec(gates=[]))
    message = f"The insert failed after it began ({cause}). Its query_id is {LOAD}."
    assert facts(error) == ("DPONE_APPEND_UNCERTAIN", message, "post_commit", "unknown", False)
    assert error.next_step == UNCERTAIN
    assert execution.standing == Standing(target="unknown", extracted_rows=3, inserted_rows=None, final_rows=None)
    assert isinstance(error.__cause__, StatementFailed)
    assert direct.happened[-1] == "acknowledge"


@pytest.mark.contract("X7")
def test_an_insert_that_never_began_changed_nothing(direct: Direct) -> None:
    direct.on["append to the live table"] = raises(StatementFailed(None))
    _, execution = direct.fails()
    assert execution.standing == Standing(extracted_rows=3)


@pytest.mark.contract("X7", "O4")
def test_rows_that_are_acknowledged_and_not_counted_are_uncertain(direct: Direct) -> None:
    direct.written = lambda rows: None
    error, execution = direct.fails()
    message = f"The server acknowledged the rows and did not say how many it wrote. Its query_id is {LOAD}."
    assert facts(error) == ("DPONE_APPEND_UNCERTAIN", message, "post_commit", "unknown", False)
    assert execution.standing.target == "mutation_returned_success"
    assert execution.standing.inserted_rows is None


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize("written", [0, 2, 4])
def test_another_number_of_rows_than_sent_is_said(direct: Direct, written: int) -> None:
    direct.written = lambda rows: written
    error, execution = direct.fails()
    message = f"3 rows were sent, the server says that it wrote {written}."
    assert facts(error) == ("DPONE_APPEND_COUNT_MISMATCH", message, "post_commit", "unknown", False)
    assert (execution.standing.target, execution.standing.inserted_rows) == ("mutation_returned_success", written)


@pytest.mark.contract("X4", "X7")
@pytest.mark.parametrize("now", [OTHER, None])
def test_rows_in_a_table_that_was_replaced_meanwhile_are_uncertain(direct: Direct, now: object) -> None:
    direct.tables = [TABLE, TABLE, now]  # type: ignore[list-item]
    error, execution = direct.fails()
    message = f"The target was replaced or altered meanwhile, or is not to be seen. Its query_id is {LOAD}."
    assert facts(error) == ("DPONE_APPEND_UNCERTAIN", message, "post_commit", "unknown", False)
    assert (execution.standing.target, execution.standing.inserted_rows) == ("unknown", 3)
    assert isinstance(error.__cause__, DponeError)
    assert direct.happened[-1] == "look at the table"


@pytest.mark.contract("X4")
def test_a_table_that_was_replaced_while_the_source_was_read_gets_no_row(direct: Direct) -> None:
    direct.tables = [TABLE, OTHER]
    error, execution = direct.fails()
    assert (error.code, error.retryable) == ("DPONE_TARGET_UNSUPPORTED", True)
    assert execution.standing == Standing(extracted_rows=3)
    assert "tell append" not in direct.happened


# -- the policy, the cancellation ------------------------------------------------------------------------------------


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(
    ("before", "boundary", "last"),
    [
        ("look for a cancellation", "pre_commit", "compare the policy"),
        ("tell collect", "pre_commit", "compare the policy"),
        ("note finalized", "post_commit", "compare the policy"),
    ],
)
def test_another_policy_ends_the_load_where_it_is_compared_next(
    direct: Direct, before: str, boundary: str, last: str
) -> None:
    def drifts() -> None:
        direct.policy = QualityPolicy()

    direct.on[before] = drifts
    error, execution = direct.fails()
    assert (error.code, error.boundary) == ("DPONE_QUALITY_POLICY_DRIFT", boundary)
    assert direct.happened[-1] == last
    assert ("append to the live table" in direct.happened) is (boundary == "post_commit")
    assert execution.standing.boundary == boundary


@pytest.mark.contract("F4")
def test_a_cancellation_before_the_source_opens_nothing(direct: Direct) -> None:
    direct.on["look for a cancellation"] = raises(DponeError("DPONE_CANCELLED"))
    error, _ = direct.fails()
    assert error.code == "DPONE_CANCELLED"
    assert direct.happened == [*ADMISSION, "look for a cancellation"]
    assert direct.wire.counts["source_open"] == 0


@pytest.mark.contract("F4")
def test_a_cancellation_once_the_source_was_read_sends_nothing(direct: Direct) -> None:
    def cancelled() -> None:
        if direct.happened.count("look at the table") == 2:
            raise DponeError("DPONE_CANCELLED")

    direct.on["look for a cancellation"] = cancelled
    error, _ = direct.fails()
    assert error.code == "DPONE_CANCELLED"
    assert direct.happened[-3:] == ["look at the table", "compare the policy", "look for a cancellation"]


@pytest.mark.contract("Q1")
def test_gates_that_need_a_count_are_refused_at_admission_where_views_spoil_it(direct: Direct) -> None:
    direct.tables = [VIEWED]
    with pytest.raises(DponeError) as raised:
        direct.load()
    assert raised.value.code == "DPONE_TARGET_UNSUPPORTED"
    assert "d.t feeds materialized views" in raised.value.message
    assert "these gates need that: rows" in raised.value.message
    assert direct.happened == ADMISSION
