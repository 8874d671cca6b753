"""Every effect of a load of two replicas, crashed in every way; then a retry, or a successor that competes.

The number of points comes from the recorder, so none can be left out. What is measured is written down (D2).
"""

from __future__ import annotations

import contextlib
from typing import Any

import attrs
import pytest

from tests.crash.wire import MODES, CrashWire, Mode
from tests.replicas import matrix
from tests.replicas.bench import PairBench
from tests.replicas.cases import Case, Ending, run_case
from tests.replicas.heart import Heart, beating
from tests.sandbox_fixture import FIRST, SECOND
from tests.scenarios.stage import Unmet


def table(bench: PairBench, number: int) -> PairBench:
    folder = bench.folder / str(number)
    folder.mkdir()
    return attrs.evolve(bench, folder=folder, table=f"t{number}")


def points(bench: PairBench, **route: bool) -> int:
    """How many effects an honest load has."""
    case, wire = Case(bench, **route), CrashWire()
    case.prepare()
    assert case.attempt("later", wire) == "success"
    assert len(wire.effects) >= 40
    return len(wire.effects)


def met(bench: PairBench, heart: Heart, at: int, **told: Any) -> dict[str, Any]:
    """A case whose crash came to pass: an attempt can end before it only where the machine stood still."""
    for again in range(3):
        with contextlib.suppress(Unmet):
            return run_case(table(bench, at + 1 + 1_000 * again), heart, at=at, **told)
    raise AssertionError(f"effect {at} is never met")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.contract("A8", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "A3", "G3", "G5", "G6", "D2")
@pytest.mark.parametrize(("route", "mode", "ending"), matrix.STUDIES, ids=lambda word: str(word).replace(" ", "_"))
def test_a_crash_at_any_effect_is_finished(bench: PairBench, route: str, mode: Mode, ending: Ending) -> None:
    """Every case is run and written down, a violation too; then there must be none."""
    flags = matrix.ROUTES[route]
    told = {"route": route, "mode": mode, "ending": ending, "points": points(table(bench, 0), **flags)}
    cases: list[dict[str, Any]] = []
    with beating() as heart:
        for at in range(told["points"]):
            try:
                cases.append(met(bench, heart, at, mode=mode, ending=ending, **flags))
            except AssertionError as violation:
                cases.append({"at": at, "violation": str(violation).splitlines()[0]})
            matrix.keep(told, cases)
    assert [case for case in cases if "violation" in case] == []


@pytest.mark.contract("A8", "P3", "P4", "P6", "P7")
@pytest.mark.parametrize("ending", ["retry", "successor"])
def test_a_switch_whose_answer_is_lost_is_finished_on_each_replica(bench: PairBench, ending: Ending) -> None:
    """The cases of the study that matter most."""
    wire = CrashWire()
    case = Case(table(bench, 0))
    case.prepare()
    assert case.attempt("later", wire) == "success"
    ats = [number for number, effect in enumerate(wire.effects) if effect.kind == "exchange"]
    assert [wire.effects[at].replica for at in ats] == [FIRST, SECOND]
    with beating() as heart:
        for number, (at, mode) in enumerate((at, mode) for at in ats for mode in MODES):
            run_case(table(bench, number + 1), heart, at=at, mode=mode, ending=ending)
