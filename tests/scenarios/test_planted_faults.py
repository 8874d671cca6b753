"""The scenarios find a product whose rules were taken away: one planted fault, one scenario that must break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse.authority_store import TABLE, ClickHouseReplayQualityStore
from dpone_provider.quality.gates import QualityGateReport
from dpone_provider.replay import claim, cleanup
from dpone_provider.replay import publication as do
from dpone_provider.replay.claim import Claim, Claimant, Refused
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import CatalogFacts, Expect, StoredRow
from dpone_provider.replay.record import AuthorityRecord, Found
from dpone_provider.replay.tenure import Tenure, Uncertain
from dpone_provider.replay.write import SlotAuthority, Verdict, Written
from dpone_provider.wire import Effect
from tests.scenarios import test_failures as failures
from tests.scenarios import test_fences as fences
from tests.scenarios import test_interrupts as interrupts
from tests.scenarios import test_proofs as proofs
from tests.scenarios import test_takeovers as takeovers
from tests.scenarios import test_windows as windows
from tests.scenarios import test_writes as writes
from tests.scenarios.stage import Stage

Plant = Callable[[pytest.MonkeyPatch], None]

# -- publication -----------------------------------------------------------------------------------------------------


def finds_by_recorded_name(patch: pytest.MonkeyPatch) -> None:
    """The generation is looked for under the name that the record knows."""

    def standing(record: AuthorityRecord, replica: str, facts: CatalogFacts) -> Any:
        live = facts.live.uuid if facts.live is not None else None
        if live == record.generation:
            return do.Proven()
        name = record.candidates[replica]
        there = any((table.name, table.uuid) == (name, record.generation) for table in facts.private)
        return do.NotApplied(name) if there and live == record.predecessor[replica] else do.Diverged()

    patch.setattr(do, "standing", standing)


def believes_its_fence(patch: pytest.MonkeyPatch) -> None:
    """The new name is not checked after a fence."""

    def not_applied(record: AuthorityRecord, progress: do.Progress, replica: str, name: str) -> Any:
        fenced = progress.fenced.get(replica)
        if replica in progress.resent:
            return do.Stop("not_applied")
        if fenced is None:
            return do.Fence(replica, name, record.operation.candidate(record.epoch + 1))
        if record.candidates[replica] != fenced:
            return do.Readdress(replica, fenced)
        return do.Send(replica, fenced, first=record.predecessor[replica] is None)

    patch.setattr(do, "_not_applied", not_applied)


def sends_again_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """A statement that was not applied is sent again under the same name."""

    def not_applied(record: AuthorityRecord, progress: do.Progress, replica: str, name: str) -> Any:
        if replica in progress.sent:
            return do.Stop("not_applied")
        return do.Send(replica, name, first=record.predecessor[replica] is None)

    patch.setattr(do, "_not_applied", not_applied)


def believes_an_acknowledged_switch(patch: pytest.MonkeyPatch) -> None:
    """COMMITTED without a look into the catalog."""
    dispatching = do._dispatching

    def decide(record: AuthorityRecord, progress: do.Progress) -> Any:
        return do.Commit() if progress.sent >= set(record.replicas) else dispatching(record, progress)

    patch.setattr(do, "_dispatching", decide)


# -- cleaning --------------------------------------------------------------------------------------------------------


def cleaning(patch: pytest.MonkeyPatch, **changes: Any) -> None:
    clean = Cleaner.clean
    patch.setattr(Cleaner, "clean", lambda self, replica, **rule: clean(self, replica, **{**rule, **changes}))


def sweeps_every_epoch(patch: pytest.MonkeyPatch) -> None:
    cleaning(patch, below=10**18)


def sweeps_what_the_row_holds(patch: pytest.MonkeyPatch) -> None:
    cleaning(patch, keep=())


def cleans_up_to_its_own_epoch_only(patch: pytest.MonkeyPatch) -> None:
    """A late fence of its own moves the predecessor one epoch higher."""
    clean = Cleaner.clean
    patch.setattr(
        Cleaner,
        "clean",
        lambda self, replica, *, below, **rule: clean(self, replica, below=below - 1, **rule),
    )


def drops_without_checking_the_uuid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cleanup, "_holds", lambda facts, name, uuid: True)


def drops_whatever_has_its_prefix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Operation, "marks", lambda self, comment: True)


def does_not_know_its_trash(patch: pytest.MonkeyPatch) -> None:
    known = Operation.epoch_of
    patch.setattr(Operation, "epoch_of", lambda self, name: None if name[-33:-32] == "x" else known(self, name))


def uses_a_name_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Operation, "candidate", lambda self, epoch: f"{self.private_prefix}0")


# -- the slot --------------------------------------------------------------------------------------------------------


def drops_its_staging_when_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tenure, "lost_beyond", lambda self, generation: True)


def drops_its_staging_while_a_write_is_under_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tenure, "unsealed", property(lambda self: self.record.phase == "CLAIMED"))


def never_refreshes_its_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tenure, "keep_alive", lambda self: None)


def believes_an_acknowledged_write(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is taken for written."""
    write = SlotAuthority.write

    def believed(self: SlotAuthority, record: AuthorityRecord, on: Found, **options: Any) -> Written:
        written = write(self, record, on, **options)
        if written.verdict is not Verdict.UNKNOWN:
            return written
        return Written(verdict=Verdict.VERIFIED, found=attrs.evolve(on, record=record, version=on.version + 1))

    patch.setattr(SlotAuthority, "write", believed)


def writes_without_a_version(patch: pytest.MonkeyPatch) -> None:
    """The CAS demands nothing of the row that it replaces."""

    def update(self: ClickHouseReplayQualityStore, row: StoredRow, expect: Expect) -> None:
        columns = ("operation_id", "phase", "owner", "record", "record_sha256")
        changes = ", ".join(f"{name} = {{{name}:String}}" for name in columns)
        sql = (
            f"ALTER TABLE `{self._database}`.{TABLE} UPDATE {changes} WHERE target_key = {{target_key:String}} "
            "SETTINGS keeper_map_strict_mode=1"
        )
        effect = Effect(kind="authority_cas", what=f"move the slot to {row.phase}", replica=self._first)
        self._clients[self._first].command(effect, sql, attrs.asdict(row))

    patch.setattr(ClickHouseReplayQualityStore, "update", update)


def takes_an_unseen_release_for_done(patch: pytest.MonkeyPatch) -> None:
    write = Tenure.write

    def hopeful(self: Tenure, record: AuthorityRecord, *, final: bool = False) -> None:
        try:
            write(self, record, final=final)
        except Uncertain:
            if not final:
                raise

    patch.setattr(Tenure, "write", hopeful)


# -- windows ---------------------------------------------------------------------------------------------------------


def foreign(patch: pytest.MonkeyPatch, seen: Callable[[AuthorityRecord], AuthorityRecord]) -> None:
    """Decide about another operation's row as if it were another row."""
    decide = claim._foreign
    patch.setattr(claim, "_foreign", lambda record, found, me: decide(seen(record), found, me))


def gives_a_dispatched_slot_away_by_time(patch: pytest.MonkeyPatch) -> None:
    foreign(patch, lambda record: attrs.evolve(record, phase="PREPARED"))


def ignores_a_held_guard(patch: pytest.MonkeyPatch) -> None:
    foreign(patch, lambda record: attrs.evolve(record, owner=""))


def forgets_ended_operations(patch: pytest.MonkeyPatch) -> None:
    decide = claim._foreign

    def forgetful(record: AuthorityRecord, found: Found, me: Claimant) -> Claim | Refused:
        decision = decide(record, found, me)
        if isinstance(decision, Claim):
            return attrs.evolve(decision, record=attrs.evolve(decision.record, ended=()))
        return decision

    patch.setattr(claim, "_foreign", forgetful)


def succeeds_a_failed_record_without_its_archive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotAuthority, "archive", lambda self, record, key: True)


def takes_an_acknowledged_archive_for_kept(patch: pytest.MonkeyPatch) -> None:
    archive = SlotAuthority.archive
    patch.setattr(SlotAuthority, "archive", lambda self, record, key: archive(self, record, key) or True)


# -- proofs ----------------------------------------------------------------------------------------------------------


def believes_the_sealed_report(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QualityGateReport, "same_as", lambda self, other: True)


def reserves_no_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AuthorityRecord, "reserve", lambda self, capsule: None)


def the_bound(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patch:
        proofs.test_a_record_that_could_outgrow_its_bound_is_refused_before_its_permit(stage, patch)


PLANTED: list[tuple[Plant, Callable[..., None], tuple[Any, ...]]] = [
    (finds_by_recorded_name, fences.test_a_kill_between_the_fence_and_its_record_is_finished_by_the_next_attempt, ()),
    (believes_its_fence, fences.test_a_late_exchange_and_a_late_fence_make_at_most_one_swap, ("exchange first",)),
    (sends_again_without_a_fence, fences.test_a_permit_that_slept_through_a_publication_cannot_swap_it_back, ()),
    (
        believes_an_acknowledged_switch,
        fences.test_an_acknowledged_exchange_that_did_nothing_is_seen_fenced_and_sent_once_more,
        (),
    ),
    (cleans_up_to_its_own_epoch_only, fences.test_cleanup_finds_the_predecessor_that_its_own_late_fence_moved, ()),
    (sweeps_every_epoch, takeovers.test_an_attempt_that_paused_after_its_claim_does_not_sweep_a_later_generation, ()),
    (
        sweeps_what_the_row_holds,
        takeovers.test_an_attempt_that_paused_after_its_seal_drops_nothing_that_the_row_holds,
        (),
    ),
    (
        drops_its_staging_when_fenced,
        takeovers.test_an_attempt_that_paused_after_its_seal_drops_nothing_that_the_row_holds,
        (),
    ),
    (
        drops_its_staging_when_fenced,
        takeovers.test_a_seal_outrun_by_more_writes_than_the_history_holds_is_not_taken_for_unapplied,
        (),
    ),
    (drops_without_checking_the_uuid, takeovers.test_a_table_that_took_a_listed_name_is_not_dropped, ()),
    (
        drops_without_checking_the_uuid,
        failures.test_a_late_exchange_of_the_plain_route_drops_nothing_that_was_live,
        ("rename",),
    ),
    (
        drops_whatever_has_its_prefix,
        takeovers.test_a_table_that_an_unmanaged_writer_made_live_is_swapped_out_and_never_dropped,
        (),
    ),
    (
        drops_whatever_has_its_prefix,
        failures.test_a_foreign_table_under_the_private_prefix_is_left_alone_and_reported,
        ("below",),
    ),
    (
        does_not_know_its_trash,
        takeovers.test_a_crash_between_the_trash_name_and_the_drop_is_cleaned_by_the_next_attempt,
        (),
    ),
    (uses_a_name_twice, takeovers.test_a_late_insert_of_a_discarded_staging_lands_nowhere, ()),
    (never_refreshes_its_claim, takeovers.test_a_staging_longer_than_the_stale_bound_is_not_superseded, ()),
    (
        believes_an_acknowledged_write,
        writes.test_a_write_that_is_not_seen_is_unknown_whatever_was_acknowledged,
        ("dispatching", "hold_ok"),
    ),
    (writes_without_a_version, writes.test_a_write_that_lands_after_a_takeover_changes_nothing, ("dispatching",)),
    (
        takes_an_unseen_release_for_done,
        proofs.test_an_unseen_last_write_is_never_a_success_and_its_outcome_is_read_later,
        (2,),
    ),
    (
        gives_a_dispatched_slot_away_by_time,
        windows.test_time_never_gives_a_dispatched_slot_to_a_successor,
        ("COMMITTED",),
    ),
    (ignores_a_held_guard, windows.test_a_held_guard_makes_a_successor_wait_until_it_is_stale, ()),
    (forgets_ended_operations, windows.test_a_held_guard_makes_a_successor_wait_until_it_is_stale, ()),
    (
        succeeds_a_failed_record_without_its_archive,
        windows.test_of_two_successors_of_a_failed_record_one_gets_the_slot,
        (),
    ),
    (
        takes_an_acknowledged_archive_for_kept,
        windows.test_a_failed_record_is_archived_before_it_is_succeeded,
        ("hold_ok",),
    ),
    (
        drops_its_staging_while_a_write_is_under_way,
        interrupts.test_an_interrupt_before_the_seal_is_read_back_keeps_the_generation,
        (),
    ),
    (
        believes_the_sealed_report,
        proofs.test_a_consistently_tampered_proof_of_a_committed_load_fails_it,
        (proofs.better_report,),
    ),
    (reserves_no_room, the_bound, ()),
]


@pytest.mark.parametrize(
    ("plant", "scenario", "arguments"),
    PLANTED,
    ids=[f"{plant.__name__}-{number}" for number, (plant, *_) in enumerate(PLANTED)],
)
def test_a_planted_fault_is_found(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    scenario: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    """The scenario breaks on its own assertion; a scenario that merely did not come to pass raises ``Unmet``."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        scenario(stage, *arguments)
