"""An append that is cut off, refused, miscounted or interrupted: what is true of its rows, what is said (X7, O4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load import direct
from dpone_provider.load.outcome import failure_document
from dpone_provider.load.spool import Spool
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import StatementFailed
from tests.crash.wire import CrashWire, Died
from tests.docs.markdown import DOCS
from tests.paths.bench import GATES, Appending, acceptance
from tests.paths.wires import Beside, On

GUIDE = (DOCS / "operating.md").read_text(encoding="utf-8")
EVERYTHING: dict[str, Any] = {
    "acceptance": acceptance(),
    "cursor": "id",
    "pre_sql": ("SELECT 1",),
    "post_sql": ("SELECT 2",),
}


def said(error: DponeError, bench: Appending) -> dict[str, Any]:
    """The JSON document of the failure, as ``dpone run`` prints it."""
    return failure_document(error, bench.spec(), bench.identity())


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize("mode", ["sent_not_applied", "applied_not_acknowledged"])
def test_an_insert_without_an_answer_is_uncertain_whatever_became_of_it(bench: Appending, mode: Any) -> None:
    spec = bench.spec(cursor="id")
    error = bench.refused("DPONE_APPEND_UNCERTAIN", spec=spec, wire=Lost(applied=mode != "sent_not_applied"))
    assert len(bench.ids()) == (0 if mode == "sent_not_applied" else 5)
    document = said(error, bench)
    assert document["replay_details"]["target_commit"] == "unknown"
    assert document["failure_context"]["target_state"] == "unknown"
    assert document["failure_context"]["retry_classification"] == "operator_verification_required"
    assert document["failure_context"]["retryable"] is False
    assert (document["result"]["extracted_rows"], document["result"]["inserted_rows"]) == (5, None)
    assert bench.mark(spec) is None


@pytest.mark.contract("X7")
def test_an_uncertain_insert_can_be_looked_up_as_the_operating_guide_says(bench: Appending) -> None:
    error = bench.refused("DPONE_APPEND_UNCERTAIN", wire=Lost())
    found = re.search(r"Its query_id is ([0-9a-f]{32})\.", error.message)
    looks = re.search(r"^SELECT .* FROM system.query_log WHERE query_id = '<the id>'.*$", GUIDE, re.MULTILINE)
    assert found is not None
    assert looks is not None
    bench.ask("SYSTEM FLUSH LOGS query_log")
    assert bench.ask(looks[0].replace("<the id>", found[1])) == [("QueryFinish", 5, 0)]


@attrs.define
class Lost(CrashWire):
    """The insert began, and its answer is lost."""

    applied: bool = True

    def send(self, effect: Any, call: Callable[[], Any]) -> Any:
        if effect.kind != "append":
            return call()
        with pytest.MonkeyPatch.context() as patch:
            if not self.applied:
                patch.setattr("dpone_provider.clickhouse.bulk._insert", _nothing)
                patch.setattr("dpone_provider.clickhouse.bulk._acknowledged", _no_answer)
            call()
        raise StatementFailed(None)


def _nothing(*_: Any) -> None:
    return None


def _no_answer(*_: Any) -> None:
    raise StatementFailed(None)


@pytest.mark.contract("X7", "O4")
@pytest.mark.parametrize("written", [4, 0, None])
def test_another_number_of_written_rows_than_sent_is_no_success(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, written: int | None
) -> None:
    append = direct.append_rows

    def miscounts(*arguments: Any, **options: Any) -> int | None:
        append(*arguments, **options)
        return written

    monkeypatch.setattr(direct, "append_rows", miscounts)
    spec = bench.spec(cursor="id")
    code = "DPONE_APPEND_UNCERTAIN" if written is None else "DPONE_APPEND_COUNT_MISMATCH"
    error = bench.refused(code, spec=spec)
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "unknown", False)
    document = said(error, bench)
    assert document["result"]["inserted_rows"] == written
    assert document["failure_context"]["target_state"] == "mutation_returned_success"
    assert bench.mark(spec) is None


@pytest.mark.contract("P8", "X7")
@pytest.mark.parametrize("rows", [0, 100_000])
def test_a_source_that_dies_anywhere_has_added_nothing(bench: Appending, rows: int) -> None:
    """The whole source is read before the first row is sent (B22)."""
    bench.write(1, rows=200_000)
    seen = 0

    def dies() -> None:
        nonlocal seen
        seen += 1
        if seen > (1 if rows else 0):
            raise DponeError("DPONE_SOURCE_FAILED")

    wire = On("source_read", dies)
    error = bench.refused("DPONE_SOURCE_FAILED", spec=bench.spec(cursor="id"), wire=wire)
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")
    assert "append" not in wire.kinds
    assert bench.ids() == []
    assert said(error, bench)["failure_context"]["retry_classification"] == "retry_before_target_mutation"


@pytest.mark.contract("X7")
def test_an_insert_that_was_refused_at_once_is_known_to_have_changed_nothing(bench: Appending) -> None:
    wire = On("append", lambda: bench.ask(f"DROP TABLE {bench.database}.t SYNC"))
    error = bench.refused("DPONE_SERVER_REFUSED", wire=wire)
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")
    assert error.context["counters"]["inserted_rows"] == 0


@pytest.mark.contract("X4")
@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("id UInt64, name String, more String", "DPONE_SOURCE_COLUMN_UNKNOWN"),
        ("id UInt64", "DPONE_SOURCE_COLUMN_UNKNOWN"),
        ("id UInt64, name String MATERIALIZED 'x'", "DPONE_SOURCE_COLUMN_UNKNOWN"),
        ("id UInt64, name UInt8", "DPONE_SOURCE_VALUE_REFUSED"),
    ],
)
def test_rows_that_do_not_fit_the_live_table_are_not_sent(bench: Appending, columns: str, code: str) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    bench.create(columns)
    wire = CrashWire()
    error = bench.refused(code, spec=bench.spec(gates=[]), wire=wire)
    assert (error.target_commit, wire.counts["append"]) == ("not_started", 0)


@pytest.mark.contract("X4")
def test_a_null_for_a_column_that_takes_none_is_not_sent(bench: Appending) -> None:
    (bench.folder / "source.csv").write_text("id,name\n1,a\n,b\n", encoding="utf-8")
    wire = CrashWire()
    bench.refused("DPONE_SOURCE_VALUE_REFUSED", spec=bench.spec(), wire=wire)
    assert wire.counts["append"] == 0


@pytest.mark.contract("X4")
@pytest.mark.parametrize("engine", ["Memory", "Log", "Null", None])
def test_a_target_that_is_no_table_of_the_merge_tree_family_is_refused(bench: Appending, engine: str | None) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    if engine is not None:
        bench.create(engine=engine)
    wire = CrashWire()
    bench.refused("DPONE_TARGET_UNSUPPORTED", wire=wire)
    assert wire.counts["source_open"] == 0


@pytest.mark.contract("X4", "Q1")
@pytest.mark.parametrize("engine", ["ReplacingMergeTree", "AggregatingMergeTree"])
def test_an_engine_that_merges_rows_away_later_still_says_what_it_wrote(bench: Appending, engine: str) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    bench.create(engine=f"{engine} ORDER BY id")
    lines = "\n".join(f"{number % 3},n{number % 3}" for number in range(9))
    (bench.folder / "source.csv").write_text(f"id,name\n{lines}\n", encoding="utf-8")
    assert bench.run().inserted_rows == 9


@pytest.mark.contract("Q1", "X4")
def test_gates_that_need_a_count_are_refused_where_views_spoil_it(bench: Appending) -> None:
    bench.ask(f"CREATE TABLE {bench.database}.more (id UInt64) ENGINE = MergeTree ORDER BY id")
    bench.ask(
        f"CREATE MATERIALIZED VIEW {bench.database}.v TO {bench.database}.more AS SELECT id FROM {bench.database}.t"
    )
    wire = CrashWire()
    error = bench.refused("DPONE_TARGET_UNSUPPORTED", wire=wire)
    assert ("rows" in error.message, wire.counts["source_open"]) == (True, 0)
    counted = [{"id": "read", "type": "min_rows", "threshold": 5, "side": "source"}]
    warned = [{**GATES[0], "severity": "warn"}]
    outcome = bench.run(spec=bench.spec(gates=[*counted, *warned]))
    assert outcome.inserted_rows is None
    assert [gate["status"] for gate in outcome.gates["results"]] == ["passed", "warned"]
    assert len(bench.ask(f"SELECT id FROM {bench.database}.more")) == 5


@pytest.mark.contract("X7")
@pytest.mark.parametrize(
    ("step", "commit"),
    [("source_metrics_captured", "not_started"), ("finalized", "proven"), ("quality_checked", "proven")],
)
def test_a_step_that_cannot_be_recorded_ends_the_load_where_it_is(bench: Appending, step: str, commit: str) -> None:
    def fail() -> None:
        raise StatementFailed(None)

    spec = bench.spec(acceptance=acceptance(), cursor="id")
    error = bench.refused("DPONE_LOAD_STEP_UNCERTAIN", spec=spec, wire=On("load_step", fail, what=step))
    assert (error.target_commit, error.retryable) == (commit, commit == "not_started")
    assert bench.ids() == ([] if commit == "not_started" else [1, 2, 3, 4, 5])
    assert bench.mark(spec) is None


# -- hooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X3", "X7")
def test_a_failing_statement_before_the_source_touches_neither_source_nor_target(bench: Appending) -> None:
    wire = CrashWire()
    spec = bench.spec(pre_sql=("SELECT 1", "SELECT nothing_like_this", "SELECT 3"))
    error = bench.refused("DPONE_HOOK_FAILED", spec=spec, wire=wire)
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")
    assert (wire.counts["hook"], wire.counts["source_open"], wire.counts["append"]) == (2, 0, 0)


@pytest.mark.contract("X3", "X7")
def test_a_failing_statement_afterwards_takes_nothing_back_and_says_that_the_mark_has_moved(bench: Appending) -> None:
    spec = bench.spec(cursor="id", post_sql=("SELECT nothing_like_this",))
    error = bench.refused("DPONE_HOOK_FAILED", spec=spec)
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "proven", False)
    assert error.context["failure_context"]["source_state"] == "advanced"
    assert "may add the same rows" not in error.next_step
    assert bench.ids() == [1, 2, 3, 4, 5]
    assert bench.mark(spec) is not None


# -- the mark --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X7")
def test_a_kill_between_the_insert_and_the_mark_makes_the_next_run_add_the_rows_again(bench: Appending) -> None:
    """The truth of the direct path, and why its failures say it."""
    spec = bench.spec(cursor="id")

    def dies() -> None:
        raise Died

    with pytest.raises(Died):
        bench.run(spec=spec, wire=On("source_state", dies))
    assert bench.mark(spec) is None
    bench.run("r2", spec=spec)
    assert bench.ids() == sorted([*range(1, 6), *range(1, 6)])
    assert bench.mark(spec) is not None


@pytest.mark.contract("X7")
def test_of_two_appends_at_once_the_second_ends_truthfully(bench: Appending) -> None:
    spec = bench.spec(cursor="id")

    def other() -> None:
        bench.run("other", spec=spec)

    error = bench.refused("DPONE_SOURCE_STATE_UNCERTAIN", spec=spec, wire=On("append", other))
    assert (error.target_commit, error.retryable) == ("proven", False)
    assert error.context["failure_context"]["source_state"] == "not_advanced"
    assert bench.ids() == sorted([*range(1, 6), *range(1, 6)])


@pytest.mark.contract("X7")
@pytest.mark.parametrize(("applied", "state"), [(False, "unknown"), (True, "unknown")])
def test_a_mark_whose_move_nobody_confirms_is_unknown(bench: Appending, applied: bool, state: str) -> None:
    spec = bench.spec(cursor="id")
    recorded = Beside(at=-1)
    bench.run(spec=spec, wire=recorded)
    bench.write(11)
    at = recorded.kinds.index("source_state") + 1  # its read-back

    def lost() -> None:
        raise StatementFailed(None)

    wire = Beside(at=at, before=lost) if not applied else Beside(at=at, after=lost)
    error = bench.refused("DPONE_SOURCE_STATE_UNCERTAIN", spec=spec, wire=wire)
    assert error.context["failure_context"]["source_state"] == state
    assert error.context["failure_context"]["retry_classification"] == "operator_verification_required"


@pytest.mark.contract("A1")
def test_without_its_table_a_cursor_is_refused_before_the_source(bench: Appending) -> None:
    bench.ask(f"DROP TABLE {bench.database}.dpone_source_state SYNC")
    wire = CrashWire()
    bench.refused("DPONE_LOAD_TABLES_UNSUPPORTED", spec=bench.spec(cursor="id"), wire=wire)
    assert wire.counts["source_open"] == 0
    bench.run()  # without a cursor nobody looks for it


# -- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("X7", "G7")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_ctrl_c_at_any_effect_sends_nothing_more(
    sandbox: RunningSandbox, database: str, tmp_path: Path, after: bool
) -> None:
    bench = Appending(sandbox=sandbox, database=database, folder=tmp_path)
    bench.create()
    bench.provision()
    bench.write(1)
    recorded = Beside(at=-1)
    bench.run(spec=bench.spec(**EVERYTHING), wire=recorded)
    for at, effect in enumerate(recorded.effects):
        bench.ask(f"TRUNCATE TABLE {database}.t")
        bench.ask(f"ALTER TABLE {database}.dpone_source_state DELETE WHERE 1")

        def interrupts() -> None:
            raise KeyboardInterrupt

        wire = Beside(at=at, after=interrupts) if after else Beside(at=at, before=interrupts)
        with pytest.raises(KeyboardInterrupt):
            bench.run(spec=bench.spec(**EVERYTHING), wire=wire)
        assert len(wire.effects) == at + 1, f"something was sent after {effect}"
        appended = at > recorded.kinds.index("append") - (1 if after else 0)
        assert len(bench.ids()) == (5 if appended else 0)
        moved = at > recorded.kinds.index("source_state") - (1 if after else 0)
        assert (bench.mark(bench.spec(**EVERYTHING)) is not None) is moved


@pytest.mark.contract("F4")
def test_a_cancelled_append_stops_before_its_next_effect_and_is_not_retried_once_rows_are_there(
    bench: Appending,
) -> None:
    cancelled = False

    def check() -> None:
        if cancelled:
            raise DponeError("DPONE_CANCELLED")

    def cancel() -> None:
        nonlocal cancelled
        cancelled = True

    wire = On("append", cancel, after=True)
    error = bench.refused("DPONE_CANCELLED", spec=bench.spec(cursor="id"), wire=wire, check_cancelled=check)
    assert (error.boundary, error.target_commit, error.retryable) == ("post_commit", "proven", False)
    assert "may add the same rows" in error.next_step
    assert "source_state" not in wire.kinds


# -- the spool -------------------------------------------------------------------------------------------------------


def test_more_rows_than_memory_takes_go_over_the_disk_and_leave_nothing_there(
    bench: Appending, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(Spool.__init__, "__defaults__", (1000,))
    bench.write(1, rows=50_000)
    assert bench.run().inserted_rows == 50_000
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_a_failure_before_anything_was_sent(bench: Appending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpone_provider.load.spool.SpooledTemporaryFile", _Full)
    wire = CrashWire()
    error = bench.refused("DPONE_SOURCE_FAILED", wire=wire)
    assert ("TMPDIR" in error.next_step, wire.counts["append"]) == (True, 0)


class _Full:
    """A disk without room."""

    closed = False

    def __init__(self, **_: Any) -> None:
        pass

    def write(self, data: Any) -> int:
        raise OSError(28, "no space")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
