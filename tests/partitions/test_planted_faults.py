"""The tests find a transfer whose rules were taken away: one planted fault, one test that must fail.

Each fault is switched on in this process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse import partitions
from dpone_provider.errors import DponeError
from dpone_provider.load import bounds, judging, replacing, resume
from dpone_provider.load.moving import Mover
from dpone_provider.load.own_tables import OwnTables
from dpone_provider.load.partitioned import PartitionedCoordinator
from dpone_provider.load.replacing import PartitionReplaceCoordinator
from dpone_provider.load.transfer import Transfer
from dpone_provider.native.artifact import ArtifactStore
from dpone_provider.native.checkpoint import Checkpoint, Ledger
from dpone_provider.native.journal import CheckpointJournal
from dpone_provider.native.scope import NativeTransferQualityScope
from dpone_provider.replay.cleanup import Cleaned
from tests.partitions import test_full_refresh as whole
from tests.partitions import test_replace as single
from tests.partitions import test_resume as resumed
from tests.partitions.bench import Parts

Plant = Callable[[pytest.MonkeyPatch], None]
CAUGHT = (AssertionError, pytest.fail.Exception, DponeError)


def always_loads_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NativeTransferQualityScope, "resume_only", property(lambda self: False))
    patch.setattr(PartitionedCoordinator, "admit", _loads)


def _loads(self: Any, execution: Any) -> None:
    self._transfer = made = self._begin(execution)
    made.active = made.partitions
    self._path = self._loads(made, execution)
    self._path.admit(execution)


def rewrites_committed_checkpoints(patch: pytest.MonkeyPatch) -> None:
    load = resume.ResumeCoordinator.load

    def rewriting(self: Any, execution: Any) -> Any:
        self._transfer.committed(self._transfer.partitions)
        return load(self, execution)

    patch.setattr(resume.ResumeCoordinator, "load", rewriting)


def lets_a_failure_undo_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "may", lambda self, partition_id, state: True)

    def failed(self: Transfer, error: DponeError, standing: Any) -> None:
        for each in self.partitions:
            self._fail(each, error)

    patch.setattr(Transfer, "failed", failed)


def publishes_before_acceptance(patch: pytest.MonkeyPatch) -> None:
    judge = judging.judge

    def early(execution: Any, made: Transfer, snapshots: Any, boundary: Any) -> Any:
        receipt = judge(execution, made, snapshots, boundary)
        if made.scope.resume_only:
            made.publish(boundary, receipt.report, {}, 1)
        return receipt

    patch.setattr(resume, "judge", early)


def takes_a_missing_count_for_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoint, "rows", property(lambda self: self.loaded_rows or 0))


def counts_a_reactivated_partition_twice(patch: pytest.MonkeyPatch) -> None:
    project = NativeTransferQualityScope._with_committed

    def twice(self: Any, current: Any, ledger: Ledger) -> int | None:
        return (project(self, current, ledger) or 0) + sum(ledger.latest[each].rows or 0 for each in self.reactivated)

    patch.setattr(NativeTransferQualityScope, "_with_committed", twice)


def counts_this_attempt_alone(patch: pytest.MonkeyPatch) -> None:
    def alone(self: Any, current: dict[str, Any], ledger: Ledger) -> int | None:
        return sum(current[each] for each in self.active)

    patch.setattr(NativeTransferQualityScope, "_with_committed", alone)


def keeps_commits_after_it_looked_at_the_target(patch: pytest.MonkeyPatch) -> None:
    target = judging.target_snapshot
    kept: list[Any] = []

    def late(self: Transfer, parts: Iterable[Any]) -> None:
        kept.append((self, tuple(parts)))

    commit = Transfer.committed

    def looks(*arguments: Any) -> Any:
        found = target(*arguments)
        for made, parts in kept:
            commit(made, parts)
        return found

    patch.setattr(Transfer, "committed", late)
    patch.setattr(replacing, "target_snapshot", looks)


def trusts_any_artefact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ArtifactStore, "intact", lambda self, partition_id, artifact: True)


def reads_everything_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transfer, "reusable", lambda self, partition: None)


def takes_no_lock(patch: pytest.MonkeyPatch) -> None:
    opened = CheckpointJournal.open.__func__  # type: ignore[attr-defined]

    class Unlocked:
        def __init__(self, files: Any) -> None:
            self._files = files

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

        def lock(self, path: Any) -> Any:
            return self._files.open_append(path)

    patch.setattr(
        CheckpointJournal, "open", classmethod(lambda cls, folder, files: opened(cls, folder, Unlocked(files)))
    )


def lets_any_key_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounds.partitions, "admit_key", lambda *arguments, **options: None)


def does_not_look_beyond_the_bounds(patch: pytest.MonkeyPatch) -> None:
    look = partitions.staged_partitions
    patch.setattr(partitions, "staged_partitions", lambda *given: attrs.evolve(look(*given), outside=0))
    patch.setattr(partitions, "live_outside", lambda *given: 0)
    patch.setattr(Transfer, "loaded", _unchecked)


def takes_rows_of_others_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partitions, "live_outside", lambda *given: 0)


def lets_files_share_a_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionReplaceCoordinator, "_require_apart", lambda self: None)


def _unchecked(self: Transfer, partition: Any, rows: int | None) -> None:
    self._mark(partition, "loaded", loaded_rows=rows)


def does_not_count_what_was_staged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transfer, "loaded", _unchecked)


def leaves_emptied_partitions_alone(patch: pytest.MonkeyPatch) -> None:
    replace = partitions.replace_partition

    def only_full(*given: Any, empty: bool = False) -> None:
        if not empty:
            replace(*given)

    patch.setattr(partitions, "replace_partition", only_full)


def keeps_artefacts_that_a_gate_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transfer, "_forget", lambda self: None)
    patch.setattr(Transfer, "_fail", lambda self, partition, error: None)


def leaves_private_tables_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OwnTables, "drop", lambda self: Cleaned())


def reads_the_source_for_every_partition(patch: pytest.MonkeyPatch) -> None:
    move = Mover.move

    def all_of_them(self: Mover, *given: Any) -> None:
        self._transfer.reusable = lambda partition: None  # type: ignore[method-assign]
        move(self, *given)

    patch.setattr(Mover, "move", all_of_them)


Test = Callable[[Parts], None]


def of(test: Callable[..., None], *given: Any) -> Test:
    """A test that wants the bench alone."""
    return lambda bench: test(bench, *given)


def among_old_rows(test: Callable[..., None], *given: Any) -> Test:
    """A test that wants a table of old rows."""
    return lambda bench: test(bench, bench.replacing(), *given)


FAULTS: tuple[tuple[Plant, Test], ...] = (
    (
        always_loads_again,
        of(resumed.test_all_skipped_resume_evaluates_matching_committed_counts_and_remains_sink_free, "full_refresh"),
    ),
    (rewrites_committed_checkpoints, of(resumed.test_resume_failure_rewrites_no_committed_checkpoint, "full_refresh")),
    (
        lets_a_failure_undo_a_commit,
        of(resumed.test_resume_failure_rewrites_no_committed_checkpoint, "partition_replace"),
    ),
    (publishes_before_acceptance, of(resumed.test_all_skipped_resume_does_not_publish_success_before_acceptance)),
    (
        takes_a_missing_count_for_zero,
        of(resumed.test_a_committed_checkpoint_without_a_count_makes_the_sum_unknown_never_less),
    ),
    (
        counts_a_reactivated_partition_twice,
        of(whole.test_mixed_full_refresh_reactivates_and_counts_each_partition_once),
    ),
    (
        counts_this_attempt_alone,
        among_old_rows(single.test_a_retry_with_three_of_four_committed_reads_only_one_partition),
    ),
    (
        keeps_commits_after_it_looked_at_the_target,
        of(resumed.test_checkpoints_are_durable_before_gates_capture_and_report, "partition_replace"),
    ),
    (trusts_any_artefact, of(whole.test_an_artefact_of_other_rows_is_not_used)),
    (reads_everything_again, of(whole.test_a_retry_reads_from_artefacts_what_an_earlier_attempt_has_exported)),
    (
        reads_the_source_for_every_partition,
        among_old_rows(single.test_a_retry_with_an_intact_artefact_does_not_read_the_source),
    ),
    (takes_no_lock, of(whole.test_two_attempts_at_once_are_one_too_many)),
    (lets_any_key_do, of(single.test_a_key_that_does_not_match_is_refused_before_anything_is_made)),
    (
        does_not_look_beyond_the_bounds,
        among_old_rows(single.test_rows_beyond_the_bounds_of_their_partition_are_refused),
    ),
    (
        takes_rows_of_others_away,
        among_old_rows(single.test_rows_of_the_target_that_would_go_with_another_partition_are_refused),
    ),
    (lets_files_share_a_partition, among_old_rows(single.test_files_that_share_a_partition_of_the_target_are_refused)),
    (does_not_count_what_was_staged, among_old_rows(single.test_another_number_of_rows_than_was_sent_is_refused)),
    (leaves_emptied_partitions_alone, among_old_rows(single.test_a_partition_that_has_no_rows_any_more_is_emptied)),
    (
        keeps_artefacts_that_a_gate_refused,
        of(whole.test_a_gate_that_fails_before_the_commit_leaves_failed_with_its_code_and_no_artefact),
    ),
    (
        leaves_private_tables_behind,
        among_old_rows(single.test_an_interrupt_between_two_replacements_leaves_no_table_and_a_retry_does_the_rest),
    ),
)


@pytest.mark.contract("N2", "N3", "N4", "N5", "N6", "N7")
@pytest.mark.parametrize(("plant", "test"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_planted_fault_is_found(plant: Plant, test: Test, bench: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test passes in the product as it is, and fails with the fault."""
    plant(monkeypatch)
    with pytest.raises(CAUGHT):
        test(bench)
