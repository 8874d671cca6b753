"""Every effect of an append, crashed in every way, then run again: no row is lost, and no claim is more than true.

An append that died after its rows arrived and before the mark moved adds them again: that, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import Effect, StatementFailed
from tests.crash.wire import MODES, CrashWire, Died, Mode
from tests.paths.bench import GATES, Appending, acceptance

T = TypeVar("T")
OLD, NEW = range(1, 6), range(6, 11)
KINDS = {"append", "load_step", "source_state", "hook", "source_open", "source_read", "query", "catalog_read"}


class AppendWire(CrashWire):
    """A source that breaks off says so in its own words."""

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        try:
            return super().send(effect, call)
        except StatementFailed:
            if effect.kind in ("source_open", "source_read"):
                raise DponeError("DPONE_SOURCE_FAILED") from None
            raise


class Case:
    """A table with the old rows and their mark; the new rows wait in the source."""

    def __init__(self, bench: Appending) -> None:
        self.bench = bench

    def prepare(self) -> None:
        for name in ("t", "ran"):
            self.bench.ask(f"TRUNCATE TABLE {self.bench.database}.{name}")
        self.bench.ask(f"ALTER TABLE {self.bench.database}.dpone_source_state DELETE WHERE 1")
        self.bench.write(OLD.start, len(OLD))
        self.bench.run("earlier", spec=self.spec)
        self.bench.ask(f"TRUNCATE TABLE {self.bench.database}.ran")
        self.bench.write(OLD.start, len(OLD) + len(NEW))

    @property
    def spec(self) -> LoadSpec:
        hooks = {
            f"{when}_sql": (f"INSERT INTO {self.bench.database}.ran VALUES ('{when}')",) for when in ("pre", "post")
        }
        return self.bench.spec(cursor="id", gates=GATES[:1], acceptance=acceptance(), **hooks)  # type: ignore[arg-type]

    @property
    def arrived(self) -> int:
        """How often the new rows are in the table; all of them equally often."""
        counted = Counter(self.bench.ids())
        assert set(counted) >= set(OLD)
        assert all(counted[number] == 1 for number in OLD), "what was read before is not read again"
        (times,) = {counted[number] for number in NEW}
        return times

    @property
    def moved(self) -> bool:
        mark = self.bench.mark(self.spec)
        assert mark is not None
        return mark.value == f"number:{NEW[-1]}"

    def hooks(self, when: str) -> int:
        return len(self.bench.ask(f"SELECT 1 FROM {self.bench.database}.ran WHERE name = '{when}'"))

    def attempt(self, wire: CrashWire) -> DponeError | None:
        """One attempt, with what must hold after it; its error, or None for a success or a death."""
        try:
            outcome = self.bench.run("later", spec=self.spec, wire=wire)
        except Died:
            return None
        except DponeError as error:
            self.truthful(error)
            return error
        assert (self.arrived > 0, self.moved, outcome.target_commit) == (True, True, "proven")
        return None

    def truthful(self, error: DponeError) -> None:
        claimed, arrived = error.target_commit, self.arrived
        assert claimed != "not_started" or not arrived, error
        assert claimed != "proven" or arrived, error
        assert not error.retryable or not arrived or self.moved, f"a retry would add the rows again: {error}"


@pytest.mark.contract("X4", "X7", "A4", "Q5")
@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[] if mode == "applied_not_acknowledged" else [pytest.mark.slow]) for mode in MODES],
)
def test_a_crash_at_any_effect_of_an_append_loses_no_row_and_claims_no_more_than_is_true(
    sandbox: RunningSandbox, database: str, tmp_path: Path, mode: Mode
) -> None:
    bench = Appending(sandbox=sandbox, database=database, folder=tmp_path)
    bench.create()
    bench.provision()
    bench.ask(f"CREATE TABLE {database}.ran (name String) ENGINE = MergeTree ORDER BY name")
    case = Case(bench)
    case.prepare()
    recorder = AppendWire()
    case.attempt(recorder)
    assert {effect.kind for effect in recorder.effects} >= KINDS
    for at, effect in enumerate(recorder.effects):
        case.prepare()
        error = case.attempt(AppendWire(at=at, mode=mode))
        arrived, moved, where = case.arrived, case.moved, f"{at} {effect.kind} ({effect.what}): {error}"
        assert arrived <= 1, where
        assert arrived or not moved, f"the mark moved without the rows: {where}"
        assert case.hooks("post") <= moved, f"a post hook before the end: {where}"
        assert case.attempt(AppendWire()) is None, where
        assert case.arrived == (arrived if moved else arrived + 1), where
