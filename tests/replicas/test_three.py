"""One replica, two and three on real servers: what a load does on each, and a publication that stops on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.crash.wire import MODES, CrashWire
from tests.replicas.bench import PairBench, named
from tests.replicas.cases import Case, Ending, run_case
from tests.replicas.conftest import target_of
from tests.replicas.heart import beating
from tests.replicas.stage import PairStage
from tests.sandbox_fixture import FIRST, HOSTS, SECOND, THIRD, SandboxPair, ask
from tests.scenarios.stage import Cue

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CLUSTERS = {1: "alone", 2: "main", 3: "three"}


@pytest.fixture(params=[1, 2, 3], ids=lambda number: f"{number} replicas")
def any_bench(request: pytest.FixtureRequest, sandbox_trio: SandboxPair, tmp_path: Path) -> Iterator[PairBench]:
    """A target on so many of the three servers."""
    few = attrs.evolve(sandbox_trio, servers=sandbox_trio.servers[: request.param])
    with target_of(few, tmp_path, CLUSTERS[request.param]) as bench:
        yield bench


@pytest.fixture
def stage(sandbox_trio: SandboxPair, tmp_path: Path) -> Iterator[PairStage]:
    """A target on all three."""
    with target_of(sandbox_trio, tmp_path, CLUSTERS[3]) as bench:
        yield PairStage(bench)


def replicas_of(wire: CrashWire, kind: str, what: str = "") -> list[str]:
    """The replicas that were sent effects of a kind, in order."""
    return [effect.replica for effect in wire.effects if effect.kind == kind and what in effect.what]


@pytest.mark.contract("A1", "A2", "P1", "P4", "P5", "P7", "R8")
def test_a_load_is_admitted_claimed_staged_published_and_proven_on_every_replica(any_bench: PairBench) -> None:
    names = list(named(any_bench.pair))
    spec = any_bench.spec(target=True)
    for first, publication in ((100, "publish_first"), (200, "exchange")):
        any_bench.write(first)
        wire = CrashWire()
        outcome = any_bench.run(f"run {first}", spec=spec, wire=wire)
        for kind, what in (("catalog_read", "macro"), ("catalog_read", "engine of a database"), ("authority_read", "")):
            assert set(replicas_of(wire, kind, what)) == set(names), f"{kind} {what} was not asked of every replica"
        for kind in ("create_table", publication):
            assert replicas_of(wire, kind) == names
        assert wire.counts["insert"] == 1
        assert any_bench.lives() == (outcome.generation,) * len(names)
        assert any_bench.each() == [list(range(first, first + 5))] * len(names)
        assert any_bench.leftovers() == []
        record = any_bench.record()
        assert (record.phase, record.owner, record.replicas) == ("COMPLETE", "", tuple(names))
    wire = CrashWire()
    assert any_bench.run("run 200", spec=spec, wire=wire).replayed
    assert not {kind for kind in ("source_open", "insert", "exchange", "create_table") if wire.counts[kind]}


@pytest.mark.contract("P3", "P4", "P7")
@pytest.mark.parametrize("stops_at", [2, 3])
def test_a_publication_that_stops_at_one_of_three_resumes_there(stage: PairStage, stops_at: int) -> None:
    stage.publish()
    stage.attempt("later", Cue("exchange", nth=stops_at, fate="die")).expect("died")
    generation = stage.bench.record().generation
    assert [live == generation for live in stage.bench.lives()] == [number < stops_at for number in (1, 2, 3)]
    stage.attempt("successor", stale_after_ms=0).expect("REPLAY_QUALITY_EVIDENCE_INCOMPLETE").published_nothing()
    took = stage.attempt("later").expect("success").read_no_source()
    rest = list(HOSTS[stops_at - 1 :])
    assert [effect.replica for effect in took.wire.sent if effect.kind == "exchange"] == rest
    stage.settled()
    assert stage.switches == 2


@pytest.mark.contract("A8", "P3", "P4", "P5", "P6", "P7")
@pytest.mark.parametrize("ending", ["retry", "successor"])
def test_a_switch_whose_answer_is_lost_is_finished_on_each_of_three(stage: PairStage, ending: Ending) -> None:
    def table(number: int) -> PairBench:
        folder = stage.bench.folder / str(number)
        folder.mkdir()
        return attrs.evolve(stage.bench, folder=folder, table=f"t{number}")

    case, wire = Case(table(0)), CrashWire()
    case.prepare()
    assert case.attempt("later", wire) == "success"
    ats = [number for number, effect in enumerate(wire.effects) if effect.kind == "exchange"]
    assert [wire.effects[at].replica for at in ats] == [FIRST, SECOND, THIRD]
    with beating() as heart:
        modes = MODES if ending == "retry" else MODES[1:3]
        for number, (at, mode) in enumerate(((at, mode) for at in ats for mode in modes), 1):
            run_case(table(number), heart, at=at, mode=mode, ending=ending)


def elsewhere(stage: PairStage) -> None:
    """The third replica's authority is of another path."""
    third, name = stage.bench.pair.servers[2], f"{stage.bench.database}.dpone_replay_authority"
    create = ask(third, f"SHOW CREATE TABLE {name}")[0][0]
    ask(third, f"DROP TABLE {name} SYNC")
    ask(third, create.replace("/dpone/", "/elsewhere/"))


def live_there_alone(stage: PairStage) -> None:
    """The third replica alone has a live table."""
    for server in stage.bench.pair.servers[:2]:
        ask(server, f"DROP TABLE {stage.bench.database}.t SYNC")


def ordinary(stage: PairStage) -> None:
    """The third replica's live table is of an engine that is not admitted."""
    name = f"{stage.bench.database}.t"
    ask(stage.bench.pair.servers[2], f"DROP TABLE {name} SYNC")
    ask(stage.bench.pair.servers[2], f"CREATE TABLE {name} (id UInt64, name String) ENGINE = Log")


@pytest.mark.contract("A1", "A5", "P4")
@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (elsewhere, "REPLAY_AUTHORITY_UNSUPPORTED"),
        (live_there_alone, "TARGET_UNSUPPORTED"),
        (ordinary, "TARGET_UNSUPPORTED"),
    ],
)
def test_what_is_wrong_on_the_third_of_three_refuses_the_load_before_its_source(
    stage: PairStage, spoil: Callable[[PairStage], None], code: str
) -> None:
    stage.publish()
    spoil(stage)
    before = stage.bench.lives()
    stage.attempt("later").expect(code).read_no_source().published_nothing()
    assert stage.bench.lives() == before
    assert stage.bench.slot()[0] is None
