"""partition_replace: each partition in the place of the live one; a retry does what is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.wire import DirectWire, Effect, StatementFailed
from tests.partitions.bench import Moving, Parts
from tests.partitions.disk import committed
from tests.partitions.test_full_refresh import EVERYTHING, lost
from tests.paths.wires import On


class Nth(DirectWire):
    """Loses the answer to the nth replacement, which was applied or was not."""

    def __init__(self, nth: int, *, applied: bool) -> None:
        super().__init__()
        self._nth, self._applied = nth, applied

    def send(self, effect: Effect, call: Callable[[], Any]) -> Any:
        here = effect.kind == "replace_partition" and self.counts["replace_partition"] + 1 == self._nth
        if here and not self._applied:
            super().send(effect, lambda: None)
        if here:
            if self._applied:
                super().send(effect, call)
            raise StatementFailed(None)
        return super().send(effect, call)


@pytest.fixture
def replace(bench: Parts) -> Callable[..., Any]:
    return bench.replacing()


@pytest.mark.contract("N2", "N5", "N6")
def test_planned_partitions_are_replaced_and_no_other(bench: Parts, replace: Callable[..., Any]) -> None:
    bench.ask(f"ALTER TABLE {bench.database}.s DELETE WHERE id = 7 SETTINGS mutations_sync = 2")
    outcome = bench.run(spec=replace(acceptance=EVERYTHING))
    assert bench.ids() == [each for each in range(100) if each != 7]
    olds = bench.ask(f"SELECT min(id) FROM {bench.database}.t WHERE name = 'old'")
    assert olds == [(40,)]
    assert (outcome.extracted_rows, outcome.inserted_rows) == (39, 39)
    shots = {side: (shot["row_count"], shot["null_counts"]) for side, shot in outcome.acceptance.items()}
    assert shots == {"source": (39, {"name": 8}), "target": (39, {"name": 8})}
    assert set(bench.states().values()) == {"committed"}
    assert bench.report() is not None
    assert (bench.private(), bench.artefacts()) == ([], [])


def test_a_partition_that_has_no_rows_any_more_is_emptied(bench: Parts, replace: Callable[..., Any]) -> None:
    bench.ask(f"ALTER TABLE {bench.database}.s DELETE WHERE id >= 10 AND id < 20 SETTINGS mutations_sync = 2")
    bench.run(spec=replace())
    assert bench.ids() == [*range(10), *range(20, 100)]


@pytest.mark.contract("N2", "N4")
def test_a_retry_with_three_of_four_committed_reads_only_one_partition(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=replace(), wire=Nth(4, applied=False))
    assert sorted(bench.states().values()) == ["committed", "committed", "committed", "loaded"]
    for path in bench.artefacts():
        path.unlink()
    wire = DirectWire()
    outcome = bench.run(spec=replace(acceptance=EVERYTHING), wire=wire)
    assert outcome.extracted_rows == 10
    assert (wire.counts["insert"], wire.counts["replace_partition"]) == (1, 1)
    assert {side: shot["row_count"] for side, shot in outcome.acceptance.items()} == {"source": 40, "target": 40}
    scope = outcome.document()["result"]["details"]["quality_scope"]
    counts = ("planned_count", "active_count", "skipped_committed_count", "reactivated_count")
    assert [scope[name] for name in counts] == [4, 1, 3, 0]
    assert bench.ask(f"SELECT count() FROM {bench.database}.t WHERE name = 'old'") == [(60,)]


def test_a_retry_with_an_intact_artefact_does_not_read_the_source(bench: Parts, replace: Callable[..., Any]) -> None:
    bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=replace(), wire=Nth(4, applied=False))
    wire = Moving()
    bench.run(spec=replace(), wire=wire, notify=wire.told)
    assert (wire.counts["source_open"], wire.counts["replace_partition"]) == (0, 1)


@pytest.mark.contract("N5", "X7")
def test_a_replacement_that_was_not_done_costs_a_retry_and_counts_nothing_twice(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    error = bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=replace(), wire=Nth(2, applied=False))
    assert (error.target_commit, error.retryable, error.boundary) == ("unknown", True, "post_commit")
    assert bench.private() == []
    bench.run(spec=replace())
    assert (bench.ids(), bench.ask(f"SELECT count() FROM {bench.database}.t WHERE name = 'old'")) == (
        list(range(100)),
        [(60,)],
    )


@pytest.mark.contract("P3")
def test_a_lost_answer_is_decided_by_the_catalog(bench: Parts, replace: Callable[..., Any]) -> None:
    wire = Nth(2, applied=True)
    bench.run(spec=replace(), wire=wire)
    assert (wire.counts["replace_partition"], len(bench.ids())) == (4, 100)
    assert set(bench.states().values()) == {"committed"}


def test_a_first_replacement_that_the_user_may_not_make_changes_nothing(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    error = bench.refused("DPONE_SERVER_REFUSED", spec=replace(), wire=On("replace_partition", lost(497)))
    assert (error.target_commit, error.retryable) == ("not_started", False)
    assert error.context["failure_context"]["checkpoint_state"] == "not_advanced"


@pytest.mark.contract("N7")
def test_gates_run_over_the_workload_before_anything_is_replaced(bench: Parts, replace: Callable[..., Any]) -> None:
    wire = DirectWire()
    gates = ({"id": "some", "type": "min_rows", "threshold": 41},)
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=replace(gates=gates), wire=wire)
    assert (error.boundary, wire.counts["replace_partition"], bench.private()) == ("pre_commit", 0, [])


def test_a_checkpoint_that_is_not_durable_ends_it_and_a_retry_replaces_again(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    bench.refused("DPONE_TRANSFER_CHECKPOINT", spec=replace(), files=committed(2))
    wire = DirectWire()
    bench.run(spec=replace(), wire=wire)
    assert wire.counts["replace_partition"] == 3
    assert len(bench.ids()) == 100


def test_a_key_that_does_not_match_is_refused_before_anything_is_made(bench: Parts) -> None:
    wire = DirectWire()
    partitions = {"range": {"column": "id", "size": 7}}
    bench.refused("DPONE_PARTITION_KEY", spec=bench.spec("partition_replace", partitions=partitions), wire=wire)
    assert (wire.counts["create_table"], wire.counts["insert"]) == (0, 0)


def test_without_a_table_there_is_nothing_to_replace(bench: Parts) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    bench.refused("DPONE_TARGET_UNSUPPORTED", spec=bench.spec("partition_replace"))


def test_rows_beyond_the_bounds_of_their_partition_are_refused(bench: Parts, replace: Callable[..., Any]) -> None:
    seen: list[str] = []

    def somebody() -> None:
        seen.extend(bench.private() if not seen else [])
        bench.ask(f"INSERT INTO {bench.database}.{seen[0]} VALUES (77, 'theirs')")

    error = bench.refused("DPONE_PARTITION_KEY", spec=replace(), wire=On("insert", somebody, after=True))
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")
    assert bench.ask(f"SELECT count() FROM {bench.database}.t WHERE name = 'old'") == [(100,)]


def test_rows_of_the_target_that_would_go_with_another_partition_are_refused(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    bench.ask(f"INSERT INTO {bench.database}.t VALUES (-5, 'old')")
    bench.refused("DPONE_PARTITION_KEY", spec=replace())
    assert -5 in bench.ids()


@pytest.mark.contract("N3")
def test_another_number_of_rows_than_was_sent_is_refused(bench: Parts, replace: Callable[..., Any]) -> None:
    def somebody() -> None:
        for name in bench.private():
            bench.ask(f"INSERT INTO {bench.database}.{name} SELECT min(id), 'theirs' FROM {bench.database}.{name}")

    bench.refused("DPONE_STAGED_COUNT_MISMATCH", spec=replace(gates=()), wire=On("insert", somebody, after=True))
    assert bench.ask(f"SELECT count() FROM {bench.database}.t WHERE name = 'old'") == [(100,)]


def test_files_that_share_a_partition_of_the_target_are_refused(bench: Parts, replace: Callable[..., Any]) -> None:
    csv(bench, 0, range(5))
    csv(bench, 1, range(5, 15))
    spec = replace(source=FILES, partitions={"file": True})
    error = bench.refused("DPONE_PARTITION_KEY", spec=spec)
    assert (error.boundary, error.target_commit) == ("pre_commit", "not_started")
    assert len(bench.ids()) == 100


def test_files_replace_the_partitions_that_they_hold(bench: Parts, replace: Callable[..., Any]) -> None:
    csv(bench, 0, range(5))
    csv(bench, 1, range(10, 15))
    spec = replace(source=FILES, partitions={"file": True}, acceptance=EVERYTHING)
    outcome = bench.run(spec=spec)
    assert bench.ids() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, *range(20, 100)]
    assert outcome.acceptance["target"]["row_count"] == 10
    wire = DirectWire()
    again = bench.run(spec=spec, wire=wire)
    assert (again.replayed, again.acceptance["target"]["row_count"], wire.counts["insert"]) == (True, 10, 0)


def test_files_of_a_broken_attempt_are_all_staged_again(bench: Parts, replace: Callable[..., Any]) -> None:
    csv(bench, 0, range(5))
    csv(bench, 1, range(10, 15))
    spec = replace(source=FILES, partitions={"file": True})
    bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=spec, wire=Nth(2, applied=False))
    csv(bench, 1, range(15))
    for path in bench.artefacts():
        path.unlink()
    bench.refused("DPONE_PARTITION_KEY", spec=spec)
    assert len(bench.ids()) == 95


FILES = {"type": "file", "format": "csv", "path": "part*.csv"}


def csv(bench: Parts, number: int, ids: Any) -> None:
    path: Path = bench.folder / f"part{number}.csv"
    path.write_text("id,name\n" + "".join(f"{each},n\n" for each in ids))


def test_a_list_replaces_its_values_alone(bench: Parts) -> None:
    bench.ask(f"DROP TABLE {bench.database}.t SYNC")
    bench.ask(
        f"CREATE TABLE {bench.database}.t (id Int64, name Nullable(String)) ENGINE = MergeTree PARTITION BY id "
        "ORDER BY id"
    )
    bench.ask(f"INSERT INTO {bench.database}.t SELECT number, 'old' FROM numbers(50)")
    partitions = {"list": {"column": "id", "values": [3, 7, 99]}}
    outcome = bench.run(spec=bench.spec("partition_replace", partitions=partitions, acceptance=EVERYTHING))
    assert bench.ask(f"SELECT id FROM {bench.database}.t WHERE name = 'n' ORDER BY id") == [(3,), (7,)]
    assert {side: shot["row_count"] for side, shot in outcome.acceptance.items()} == {"source": 2, "target": 2}


def test_an_interrupt_between_two_replacements_leaves_no_table_and_a_retry_does_the_rest(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    seen: list[int] = []

    def interrupt() -> None:
        if seen and seen[-1] == 2:
            raise KeyboardInterrupt

    def notify(step: str, facts: dict[str, Any]) -> None:
        if step == "replace":
            seen.append(facts["partition"])

    with pytest.raises(KeyboardInterrupt):
        bench.run(spec=replace(), notify=notify, check_cancelled=interrupt)
    assert bench.private() == []
    assert sorted(bench.states().values()) == ["committed", "committed", "loaded", "loaded"]
    wire = DirectWire()
    bench.run(spec=replace(), wire=wire)
    assert wire.counts["replace_partition"] == 2


@pytest.mark.contract("X7")
def test_a_cleanup_that_fails_is_recorded_and_neither_fails_the_load_nor_hides_its_error(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    outcome = bench.run(spec=replace(), wire=On("drop", lost(241)))
    assert len(outcome.leftovers) == 4
    assert outcome.load_steps[-1]["error_code"] == "cleanup_incomplete"
    assert bench.report() is not None
    bench.fill(40, 50)

    class Both(Nth):
        def send(self, effect: Effect, call: Callable[[], Any]) -> Any:
            if effect.kind == "drop":
                raise StatementFailed(241)
            return super().send(effect, call)

    bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=replace(), wire=Both(1, applied=False))
    bench.run(spec=replace())
    assert bench.private() == [], "the next attempt sweeps what is left"
    assert len(bench.ids()) == 100


@pytest.mark.contract("O4")
def test_a_failure_does_not_say_that_the_table_is_as_it_was_when_an_earlier_attempt_replaced_some_of_it(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    bench.refused("DPONE_PUBLICATION_UNCERTAIN", spec=replace(), wire=Nth(3, applied=False))
    strict = replace(gates=({"id": "some", "type": "min_rows", "threshold": 41},))
    error = bench.refused("DPONE_QUALITY_GATES_FAILED", spec=strict)
    assert (error.target_commit, error.boundary) == ("unknown", "pre_commit")
    assert error.context["attempts"] == 2
    assert sorted(bench.states().values()) == ["committed", "committed", "failed", "failed"]


def test_a_table_that_a_statement_before_the_load_altered_is_looked_at_again(
    bench: Parts, replace: Callable[..., Any]
) -> None:
    bench.run(spec=replace(pre_sql=[f"ALTER TABLE {bench.database}.t MODIFY COLUMN name Nullable(FixedString(3))"]))
    assert len(bench.ids()) == 100
