"""Every effect of a real load, crashed in every way, retried with the same identity (issue: crash enumeration).

The number of points comes from the recorder, so none can be left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import psutil
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import RunningSandbox
from tests.crash.wire import MODES, CrashWire, Died, Mode
from tests.loads import Bench

OLD, NEW = range(100, 105), range(200, 207)
WRITES = ("source_open", "insert", "exchange", "publish_first", "create_table")


@attrs.frozen(kw_only=True)
class Route:
    """Which load is crashed. ``first``: there is no table yet; ``target``: the live generation is observed."""

    name: str
    first: bool = False
    target: bool = False


ROUTES = (
    Route(name="first publication", first=True),
    Route(name="exchange"),
    Route(name="exchange and observation", target=True),
)


class Case:
    """One crash at one effect, then honest retries until success; holds the invariants at every moment."""

    def __init__(self, bench: Bench, route: Route) -> None:
        self.bench = bench
        self.route = route
        self.old: list[int] = []
        self.leftovers: tuple[str, ...] = ()

    def prepare(self) -> None:
        if not self.route.first:
            self.bench.write(OLD.start, len(OLD))
            self.bench.run("earlier")
            self.old = list(OLD)
        self.bench.write(NEW.start, len(NEW))

    def attempt(self, wire: CrashWire) -> str:
        """One attempt; what became of it. Checks what must hold for it."""
        proven = self.proven()
        before = self.bench.live()
        try:
            outcome = self.bench.run("later", spec=self.bench.spec(target=self.route.target), wire=wire)
        except Died:
            result = "died"
        except DponeError as error:
            result = self.failed(error, before)
        else:
            record = self.bench.record()
            assert (record.phase, record.owner) == ("COMPLETE", "")
            assert self.bench.live() == record.generation == outcome.generation
            self.leftovers = outcome.leftovers
            result = "success"
        assert self.bench.ids() in (self.old, list(NEW)), "readers must see exactly the old or exactly the new table"
        assert not readers(), "a child outlived its attempt"
        if proven:
            assert not {kind: wire.counts[kind] for kind in WRITES if wire.counts[kind]}
        return result

    def failed(self, error: DponeError, before: str | None) -> str:
        """A failure must be one that a retry can finish, and must not claim more than is true."""
        assert error.retryable, f"{error.code} is final, so the retry could not finish"
        assert error.target_commit != "proven" or self.bench.live() == self.bench.record().generation
        assert error.target_commit != "not_started" or self.bench.live() == before
        return error.code

    def proven(self) -> bool:
        """Whether the authority records a commit of the operation before this attempt."""
        record, _ = self.bench.slot()
        return record is not None and record.operation.run_id == "later" and record.phase in {"COMMITTED", "COMPLETE"}


def readers() -> list[int]:
    """Children of this process that observe."""
    return [child.pid for child in psutil.Process().children() if "dpone_provider.reader.child" in child.cmdline()]


def record_effects(bench: Bench, route: Route) -> CrashWire:
    case = Case(bench, route)
    case.prepare()
    wire = CrashWire()
    assert case.attempt(wire) == "success"
    return wire


def bench_of(sandbox: RunningSandbox, database: str, folder: Path, number: int) -> Bench:
    folder = folder / str(number)
    folder.mkdir()
    return Bench(sandbox=sandbox, database=database, folder=folder, table=f"t{number}")


def run_case(bench: Bench, route: Route, *, at: int, mode: Mode) -> dict[str, object]:
    case = Case(bench, route)
    case.prepare()
    wire = CrashWire(at=at, mode=mode)
    results = [case.attempt(wire)]
    publications = _publications(wire, bench)
    for _ in range(3):
        if results[-1] == "success":
            break
        wire_again = CrashWire()
        results.append(case.attempt(wire_again))
        publications += _publications(wire_again, bench)
    assert results[-1] == "success", results
    assert bench.ids() == list(NEW)
    if case.leftovers:  # the load succeeded, its cleaning did not, and it said so: a replay cleans
        assert case.attempt(CrashWire()) == "success"
    assert not [name for name in bench.private() if name.startswith(f"{bench.table}__")], "orphans"
    assert publications == 1, "exactly one applied publication"
    effect = wire.effects[at]
    return {"at": at, "effect": effect.kind, "what": effect.what, "mode": mode, "route": route.name, "results": results}


def _publications(wire: CrashWire, bench: Bench) -> int:
    """Switches of the live name that the server carried out."""
    return sum(effect.kind in {"exchange", "publish_first"} for effect in wire.applied)


QUICK = {  # the longest load, and the other way to publish, with the failure that is hardest to tell apart
    ("exchange and observation", "applied_not_acknowledged"),
    ("first publication", "applied_not_acknowledged"),
}
CASES = [
    pytest.param(
        route, mode, id=f"{route.name}-{mode}", marks=[] if (route.name, mode) in QUICK else [pytest.mark.slow]
    )
    for route in ROUTES
    for mode in MODES
]


@pytest.mark.contract("P1", "P2", "P3", "P5", "P6", "P7", "A3", "G3", "G5", "G6", "R12", "D2")
@pytest.mark.parametrize(("route", "mode"), CASES)
def test_a_crash_at_any_effect_is_finished_by_a_retry(
    sandbox: RunningSandbox, database: str, tmp_path: Path, mode: Mode, route: Route
) -> None:
    recorder = bench_of(sandbox, database, tmp_path, 0)
    recorder.provision()
    points = len(record_effects(recorder, route).effects)
    assert points >= 20
    measured = [
        run_case(bench_of(sandbox, database, tmp_path, at + 1), route, at=at, mode=mode) for at in range(points)
    ]
    assert len(measured) == points
    artifacts = Path("test_artifacts/declarative-replay-quality")
    artifacts.mkdir(parents=True, exist_ok=True)
    name = f"crash-{mode}-{route.name.replace(' ', '-')}.json"
    (artifacts / name).write_text(json.dumps({"points": points, "cases": measured}, indent=1), encoding="utf-8")
