"""What two replicas add to the scenarios of protocol 9, and those of one server that hold on two word for word.

In an imported scenario every cue meets the first replica, and both must end well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.spreading import Replication
from dpone_provider.wire import DirectWire, Effect
from tests.replicas.bench import PairBench, copied, dialled
from tests.replicas.stage import PairStage
from tests.sandbox_fixture import FIRST, SECOND, ask
from tests.scenarios.stage import Cue, Took, published
from tests.scenarios.test_fences import (
    test_a_late_exchange_and_a_late_fence_make_at_most_one_swap as test_a_late_exchange_and_a_late_fence,  # noqa: F401
)
from tests.scenarios.test_takeovers import (
    test_a_crash_inside_the_sweep_is_swept_by_the_next_attempt as test_a_crash_inside_the_sweep,  # noqa: F401
)
from tests.scenarios.test_takeovers import (
    test_an_attempt_that_paused_after_its_permit_drops_nothing_that_the_row_holds as test_a_pause_after_the_permit,  # noqa: F401
)
from tests.scenarios.test_windows import (
    test_a_held_guard_makes_a_successor_wait_until_it_is_stale as test_a_held_guard,  # noqa: F401
)
from tests.scenarios.test_windows import (
    test_a_stale_claim_is_superseded_and_its_operation_may_start_again as test_a_stale_claim,  # noqa: F401
)

T = TypeVar("T")


def sent(took: Took, kind: str) -> list[str]:
    """The replicas that got a statement of a kind."""
    return [effect.replica for effect in took.wire.sent if effect.kind == kind]


@pytest.mark.contract("P3", "P4", "P7")
def test_a_partial_publication_resumes_and_the_proven_replica_gets_no_statement(stage: PairStage) -> None:
    """Scenario 6: the first replica is proven, the second got nothing; it is fenced and sent one statement."""
    stage.publish()
    stage.attempt("later", Cue("exchange", nth=2, fate="die")).expect("died")
    assert stage.bench.live() != stage.bench.second.live() in stage.bench.record().predecessor.values()
    took = stage.attempt("later").expect("success").read_no_source()
    assert (sent(took, "exchange"), sent(took, "rename")[0]) == ([SECOND], SECOND)
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("P3", "P6")
def test_a_kill_between_a_fence_and_its_record_is_finished_by_uuid(stage: PairStage) -> None:
    """Scenario 1, on the second replica while the first is proven."""
    stage.publish()
    stage.attempt("later", Cue("exchange", nth=2, fate="hold_die")).expect("died")
    stage.attempt("later", Cue("rename", fate="apply_die")).expect("died")
    took = stage.attempt("later").expect("success").read_no_source()
    assert sent(took, "exchange") == [SECOND]
    stage.settled()


@pytest.mark.contract("P2", "A8")
def test_a_permit_that_slept_through_a_successor_changes_nothing_anywhere(stage: PairStage) -> None:
    """Scenario 5: both late statements name tables that are gone."""
    stage.publish()

    def meanwhile() -> None:
        stage.attempt("later").expect("success").read_no_source()
        stage.attempt("successor", Cue("exchange", fate="die")).expect("died")

    sleeper = stage.attempt("later", Cue("exchange", before=meanwhile)).expect("REPLAY_FENCED")
    assert [(effect.replica, code) for effect, code in sleeper.wire.refused] == [(FIRST, 60), (SECOND, 60)]
    assert stage.switches == 2
    stage.attempt("successor").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("P4")
def test_a_table_that_is_live_on_one_replica_only_is_refused_before_the_source(stage: PairStage) -> None:
    """Scenario 8. Different live UUIDs, as every other test here has them, are admitted."""
    published(stage.bench.second)
    took = stage.attempt("later").expect("TARGET_UNSUPPORTED")
    took.read_no_source().published_nothing()
    assert stage.bench.slot()[0] is None
    assert stage.bench.lives()[0] is None


@pytest.mark.contract("P3", "P4", "G4")
def test_a_proven_publication_that_one_replica_loses_again_fails_and_is_never_sent_twice(stage: PairStage) -> None:
    """B5 on the second replica, after COMMITTED."""
    stage.publish()
    before = stage.bench.second.live()

    def lose() -> None:
        name = stage.candidate(1)
        ask(stage.bench.pair.second, f"EXCHANGE TABLES {stage.bench.database}.t AND {stage.bench.database}.{name}")

    took = stage.attempt("later", Cue("authority_cas", "COMMITTED", after=lose))
    took.expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")
    assert sent(took, "exchange") == [FIRST, SECOND]
    assert took.error is not None
    assert took.error.target_commit == "unknown"
    assert stage.bench.record().phase == "FAILED"
    assert stage.bench.second.live() == before


@pytest.mark.contract("P4", "P6")
def test_a_replica_that_does_not_answer_stops_a_partial_publication_with_the_truth(stage: PairStage) -> None:
    """B2: no statement for the proven one, nothing claimed of the silent one; the next attempt finishes."""
    stage.publish()
    stage.attempt("later", Cue("exchange", nth=2, fate="die")).expect("died")
    addresses = dialled(stage.bench.pair).replica_addresses
    deaf = attrs.evolve(dialled(stage.bench.pair), replica_addresses=(addresses[0], (SECOND, "127.0.0.1", 1)))
    took = stage.attempt("later", endpoint=deaf).expect("SERVER_UNREACHABLE").read_no_source().published_nothing()
    assert took.error is not None
    assert took.error.retryable
    assert took.error.target_commit is None
    stage.attempt("successor").expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").read_no_source().published_nothing()
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@attrs.define
class Moving:
    """A wire on which the inventory's later answers name another address."""

    wire: DirectWire = attrs.field(factory=DirectWire)
    reads: int = 0

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        answer = self.wire.send(effect, call)
        if effect.what == "inventory of the cluster":
            self.reads += 1
            if self.reads > 1:
                return [(row[0], "10.0.0.9", *row[2:]) for row in answer]  # type: ignore[attr-defined, return-value]
        return answer


@pytest.mark.contract("A5")
def test_an_inventory_that_changes_between_claim_and_permit_blocks_the_publication(stage: PairStage) -> None:
    stage.publish()
    live = stage.bench.lives()
    with pytest.raises(DponeError, match="inventory of the cluster changed") as caught:
        stage.bench.run("later", wire=Moving())
    assert caught.value.target_commit == "not_started"
    assert (stage.bench.record().phase, stage.bench.lives()) == ("PREPARED", live)
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()


@pytest.mark.contract("A1")
def test_an_authority_of_another_path_on_one_replica_is_refused(stage: PairStage) -> None:
    stage.publish()
    name = f"{stage.bench.database}.dpone_replay_authority"
    create = ask(stage.bench.pair.second, f"SHOW CREATE TABLE {name}")[0][0]
    ask(stage.bench.pair.second, f"DROP TABLE {name} SYNC")
    ask(stage.bench.pair.second, create.replace("/dpone/", "/elsewhere/"))
    took = stage.attempt("later").expect("REPLAY_AUTHORITY_UNSUPPORTED").read_no_source()
    assert took.error is not None
    assert f"on replica {SECOND}" in took.error.message


@pytest.mark.contract("P8")
def test_a_replica_that_does_not_get_the_rows_lets_nothing_be_published(stage: PairStage) -> None:
    stage.publish()
    live = stage.bench.lives()
    idle = copied(stage.bench.pair, spread=lambda database, table: None, within=0.5)
    took = stage.attempt("later", replication=idle).expect("STAGED_COUNT_MISMATCH").published_nothing()
    assert took.error is not None
    assert f"replica {SECOND} holds 0" in took.error.message
    assert (stage.bench.lives(), stage.bench.leftovers()) == (live, [])
    stage.attempt("later").expect("success")
    stage.settled()


@pytest.mark.contract("P8")
def test_a_replicated_generation_that_stays_read_only_lets_nothing_be_published(bench: PairBench) -> None:
    """The real engine, which stays read-only on servers without a listener for data replication. No row is sent."""
    bench.write(100, 0)
    spec = bench.spec(gates=[{"id": "rows", "type": "row_count_reconciliation"}])
    with pytest.raises(DponeError, match=f"Replica {FIRST} is read-only") as caught:
        bench.run("r1", spec=spec, replication=Replication(within=1.0))
    assert (caught.value.code, caught.value.retryable) == ("DPONE_STAGING_FAILED", True)
    assert (bench.lives(), bench.leftovers()) == ((None, None), [])
    assert bench.record().phase == "REJECTED"
