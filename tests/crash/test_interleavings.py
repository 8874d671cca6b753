"""Two attempts of one operation and a successor beside them, in random order, with lost answers and deaths (A8,.

B14).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpone_provider.runtime.compose import operation_of
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import Effect
from tests.crash.turns import Actor, Stage
from tests.loads import Bench

SEEDS = range(int(os.environ.get("DPONE_INTERLEAVINGS", "200")))
GROUPS = 8
QUICK_GROUPS = 2
PUBLISHING = {"exchange", "publish_first", "rename", "drop"}


class Watch:
    """What every turn must keep true: no generation comes back, none is published twice, at most one an operation."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.lived: list[str | None] = [bench.live()]

    def look(self, actor: Actor, effect: Effect) -> None:
        if effect.kind not in PUBLISHING:
            return
        live = self.bench.live()
        if live == self.lived[-1]:
            return
        assert live is not None, "the live table vanished"
        assert live not in self.lived, "an old generation came back"
        self.lived.append(live)


def play(bench: Bench, seed: int) -> None:
    first = seed % 3 == 0
    if not first:
        bench.write(100)
        bench.run("earlier")
    bench.write(200, 7)
    watch = Watch(bench)
    stage = Stage(seed, after=watch.look, faults=seed % 5)

    def attempt(run_id: str, **around: int) -> object:
        return lambda actor: bench.run(run_id, wire=actor, **around)

    stage.play(
        [
            Actor(name="one", body=attempt("later")),  # type: ignore[arg-type]
            Actor(name="two", body=attempt("later")),  # type: ignore[arg-type]
            Actor(name="successor", body=attempt("successor", stale_after_ms=seed % 2 * 3_600_000)),  # type: ignore[arg-type]
        ]
    )
    ended: dict[str, str] = {}
    for _ in range(4):  # honest retries finish everything; who was superseded or succeeded may only be told so
        for run_id in ("later", "successor"):
            last = Actor(name=f"retry of {run_id}", body=attempt(run_id, stale_after_ms=0))  # type: ignore[arg-type]
            Stage(seed, after=watch.look, faults=0).play([last])
            ends = {"success", "DPONE_REPLAY_WINDOW_ENDED", "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"}
            assert last.result in ends, (seed, last.result, stage.turns)
            ended[run_id] = last.result
    record = bench.record()
    assert (record.phase, record.owner) == ("COMPLETE", "")
    assert bench.live() == record.generation == watch.lived[-1]
    assert bench.ids() == list(range(200, 207))
    assert len(watch.lived) <= 3, "at most one generation an operation"
    for run_id, result in ended.items():  # whose window has ended cannot sweep any more; nobody else may
        prefix = operation_of(bench.spec(), bench.identity(run_id)).private_prefix
        orphans = [name for name in bench.private() if name.startswith(prefix)]
        assert result == "DPONE_REPLAY_WINDOW_ENDED" or not orphans, (seed, orphans, stage.turns)


@pytest.mark.contract("A8", "A3", "P2", "P5", "P6", "G6")
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=[pytest.mark.slow] if group >= QUICK_GROUPS else []) for group in range(GROUPS)]
)
def test_random_interleavings_keep_every_invariant(
    sandbox: RunningSandbox, database: str, tmp_path: Path, group: int
) -> None:
    provisioned = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    provisioned.provision()
    for seed in SEEDS[group::GROUPS]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        play(Bench(sandbox=sandbox, database=database, folder=folder, table=f"t{seed}"), seed)
