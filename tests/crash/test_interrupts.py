"""Ctrl-C at every effect of a real load: the live table is old or new, and nothing is left behind (B16)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import Effect
from tests.crash.test_every_effect import NEW, OLD, bench_of
from tests.crash.wire import CrashWire
from tests.loads import Bench

T = TypeVar("T")


@attrs.define
class InterruptWire:
    """Ctrl-C arrives just before, or just after, effect number ``at``; the process lives on and may clean up."""

    at: int
    after: bool
    number: int = 0

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        number, self.number = self.number, self.number + 1
        if number != self.at:
            return call()
        if self.after:
            call()
        raise KeyboardInterrupt


def prepared(bench: Bench, durable: bool) -> None:
    bench.write(OLD.start, len(OLD))
    bench.run("earlier", spec=bench.spec(durable=durable))
    bench.write(NEW.start, len(NEW))


@pytest.mark.contract("P6", "P8")
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_ctrl_c_at_any_effect_leaves_nothing_behind(
    sandbox: RunningSandbox, database: str, tmp_path: Path, after: bool, durable: bool
) -> None:
    counted = bench_of(sandbox, database, tmp_path, 0)
    counted.provision()
    prepared(counted, durable)
    recorder = CrashWire()
    counted.run("later", spec=counted.spec(durable=durable), wire=recorder)
    for at in range(len(recorder.effects)):
        bench = bench_of(sandbox, database, tmp_path, at + 1)
        prepared(bench, durable)
        with pytest.raises(KeyboardInterrupt):
            bench.run("later", spec=bench.spec(durable=durable), wire=InterruptWire(at=at, after=after))
        assert bench.ids() in (list(OLD), list(NEW))
        where = f"effect {at}: {recorder.effects[at].what}"
        left = [name for name in bench.private() if name.startswith(f"{bench.table}__")]
        if durable:
            record = bench.record()
            held = {record.generation, *record.predecessor.values()} if record.operation.run_id == "later" else set()
            in_flight = any("PREPARED" in effect.what for effect in recorder.effects[at - 1 : at + 1])
            assert not left or held - {None} or in_flight, f"{where}: {left}"  # only what the slot may still answer for
        bench.run("later", spec=bench.spec(durable=durable))
        assert bench.ids() == list(NEW), where
        left = [name for name in bench.private() if name.startswith(f"{bench.table}__")]
        assert not left, f"{where}: {left}"
