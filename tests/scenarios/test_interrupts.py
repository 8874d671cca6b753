"""Ctrl-C, a task timeout or on_kill at every effect of a load, before and after the server carried it out (G7, B16)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import attrs
import pytest

from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import Effect
from tests.loads import Bench
from tests.scenarios.stage import Cue, Stage, published

T = TypeVar("T")
Side = Literal["before", "after"]
READS = ("authority_read", "catalog_read", "query", "source_open", "source_read")
LATER = ("rename", "drop", "authority_cas", "catalog_read", "authority_read")  # of giving up an unsealed staging


@attrs.define
class InterruptingWire:
    """Raises ``KeyboardInterrupt`` at effect number ``at``; the process lives on and may still send."""

    at: int = -1
    side: Side = "before"
    effects: list[Effect] = attrs.field(factory=list)
    raised: int = 0

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        number = len(self.effects)
        self.effects.append(effect)
        if number == self.at and self.side == "before":
            self._interrupt()
        answer = call()
        if number == self.at:
            self._interrupt()
        return answer

    def _interrupt(self) -> NoReturn:
        self.raised = len(self.effects)
        raise KeyboardInterrupt

    @property
    def later(self) -> list[Effect]:
        """What was sent after the interrupt."""
        return self.effects[self.raised :]


@pytest.mark.contract("G7", "P5", "P6")
@pytest.mark.parametrize("side", ["before", "after"])
def test_an_interrupt_at_any_effect_leaves_the_old_or_the_new_table_and_nothing_else(
    sandbox: RunningSandbox, database: str, tmp_path: Path, side: Side
) -> None:
    """The interrupt comes out as itself; nothing that the row holds is dropped; a retry finishes without leftovers."""
    recorder = bench_of(sandbox, database, tmp_path, 0)
    recorder.provision()
    published(recorder)
    wire = InterruptingWire()
    recorder.run("later", wire=wire)
    for at, effect in enumerate(wire.effects):
        if side == "after" and effect.kind in READS:
            continue  # the same as before the next one
        bench = bench_of(sandbox, database, tmp_path, at + 1)
        published(bench)
        meet(bench, InterruptingWire(at=at, side=side))


def bench_of(sandbox: RunningSandbox, database: str, folder: Path, number: int) -> Bench:
    folder = folder / str(number)
    folder.mkdir()
    return Bench(sandbox=sandbox, database=database, folder=folder, table=f"t{number}")


def meet(bench: Bench, wire: InterruptingWire) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench.run("later", wire=wire)
    where = f"{wire.side} {wire.at} {wire.effects[wire.at]}"
    record, _ = bench.slot()
    phase = record.phase if record is not None else "none"
    assert bench.ids() in (list(range(100, 105)), list(range(200, 207))), where
    later = wire.later
    assert all(effect.kind in LATER for effect in later), (where, later)
    private = [name for name in bench.private() if name.startswith(f"{bench.table}__")]
    if phase in {"PREPARED", "DISPATCHING"}:
        assert not later, (where, later)
        assert len(private) == 1, f"{where}: the generation that the row holds is gone"
    retry = InterruptingWire()
    outcome = bench.run("later", wire=retry)
    if phase not in {"none", "CLAIMED", "REJECTED"}:
        assert outcome.extracted_rows == 0, where
    assert bench.ids() == list(range(200, 207)), where
    if outcome.leftovers:
        bench.run("later")
    assert not [name for name in bench.private() if name.startswith(f"{bench.table}__")], where


@pytest.mark.contract("G7", "P7")
def test_an_interrupt_before_the_seal_is_read_back_keeps_the_generation(stage: Stage) -> None:
    """The seal may have been applied: its generation is not dropped, and the next attempt reads no source."""
    stage.publish()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.attempt("later", Cue("authority_cas", "PREPARED", after=interrupt))
    stage.attempt("later").expect("success").read_no_source()
    stage.settled()
