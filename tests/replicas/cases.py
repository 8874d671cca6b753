"""One crash at one effect of a load of two replicas, and what must hold whatever comes then."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import attrs

from dpone_provider.errors import DponeError
from tests.crash.wire import CrashWire, Died, Mode
from tests.replicas.bench import PairBench, named, servers
from tests.replicas.heart import Heart
from tests.sandbox_fixture import ask
from tests.scenarios.stage import Unmet

OLD, NEW, NEXT = range(100, 105), range(200, 207), range(300, 304)
SWITCHES = ("exchange", "publish_first")
FILLS = ("source_open", "insert", "create_table")
Ending = Literal["retry", "successor"]
HICCUPS = {"DPONE_SERVER_UNREACHABLE", "DPONE_STAGING_FAILED", "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"}
"""What an honest attempt may meet, but only when the machine was measured to stand still; a retry gets past it."""


@attrs.define
class Case:
    """A target on two servers. ``first``: there is no table yet; ``target``: the live generation is observed."""

    bench: PairBench
    first: bool = False
    target: bool = False
    heart: Heart = attrs.field(factory=Heart)
    results: list[str] = attrs.field(factory=list)
    still: list[float] = attrs.field(factory=list)
    applied: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    def prepare(self) -> None:
        """The live table, as somebody made it, and the source of ``later``."""
        if not self.first:
            for server in servers(self.bench.pair):
                rows = f"SELECT toUInt64({OLD.start} + number) AS id, concat('n', toString(id)) AS name FROM numbers(5)"
                name = f"{self.bench.database}.{self.bench.table}"
                ask(server, f"CREATE TABLE {name} ENGINE = MergeTree ORDER BY id AS {rows}")

    def attempt(self, run_id: str, wire: CrashWire, **around: Any) -> str:
        """One attempt; its result. Checks what must hold for it."""
        rows = NEW if run_id == "later" else NEXT
        self.bench.write(rows.start, len(rows))
        proven, before = self.proven(run_id), self.bench.lives()
        self.heart.restart()
        try:
            self.bench.run(run_id, spec=self.bench.spec(target=self.target), wire=wire, **around)
            result = "success"
        except Died:
            result = "died"
        except DponeError as error:
            result = self.failed(error, before)
        for effect in wire.applied:
            if effect.kind in SWITCHES:
                self.applied[run_id, effect.replica] += 1
        if self.heart.stood_still:
            self.still.append(round(self.heart.longest, 1))
        self.results.append(f"{run_id}: {result.removeprefix('DPONE_')}")
        self.hold(wire, proven=proven)
        if result == "success":
            record = self.bench.record()
            assert (record.phase, record.owner) == ("COMPLETE", "")
            assert set(self.bench.lives()) == {record.generation}, "success, and not live everywhere"
            assert all(ids == list(rows) for ids in self.bench.each())
        return result

    def failed(self, error: DponeError, before: tuple[str | None, ...]) -> str:
        """A failure must be one that a retry can finish, and must not claim more than is true."""
        assert error.retryable, f"{error.code} is final, so the retry could not finish"
        lives = self.bench.lives()
        assert error.target_commit != "proven" or set(lives) == {self.bench.record().generation}
        assert error.target_commit != "not_started" or lives == before
        return error.code

    def hold(self, wire: CrashWire, *, proven: bool) -> None:
        """What must hold at every moment."""
        possible = [list(rows) for rows in (() if self.first else (OLD,)) or ()] + [list(NEW), list(NEXT)]
        for ids in self.bench.each():
            assert ids in possible or (self.first and ids == []), "neither the old nor a new table"
        assert max(self.applied.values(), default=0) <= 1, "a replica was switched twice by one operation"
        if proven:
            assert not {kind: wire.counts[kind] for kind in (*FILLS, *SWITCHES) if wire.counts[kind]}

    def proven(self, run_id: str) -> bool:
        """Whether the authority records a commit of the operation before this attempt."""
        record, _ = self.bench.slot()
        return record is not None and record.operation.run_id == run_id and record.phase in {"COMMITTED", "COMPLETE"}

    def until_success(self, run_id: str) -> None:
        """One honest attempt; more only where the machine stood still."""
        for _ in range(4):
            result = self.attempt(run_id, CrashWire())
            if result == "success":
                return
            self.forgive(result)
        raise AssertionError(f"{run_id} is never finished: {self.results}")

    def forgive(self, result: str) -> None:
        """An honest attempt that did not succeed: only a machine that stood still explains it."""
        assert result in HICCUPS, f"an honest attempt ended as {result}"
        assert self.heart.stood_still, f"an honest attempt ended as {result}, and the machine did not stand still"

    def competing(self) -> None:
        """A successor at once, before the retry; then whatever may still be finished is, and the successor last."""
        record, _ = self.bench.slot()
        mine = record is not None and record.operation.run_id == "later"
        blocking = mine and record is not None and record.phase in {"DISPATCHING", "COMMITTED"}
        result = self.attempt("next", CrashWire(), stale_after_ms=-1)
        if blocking:
            assert result == "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
            self.until_success("later")
        elif result != "success":
            self.forgive(result)
        if result != "success":
            self.until_success("next")

    def cleaned(self) -> None:
        """Nothing is left over: a successor sweeps for the operation before it, a replay for its own."""
        record = self.bench.record()
        if self.bench.leftovers() and record.operation.run_id == "later":
            self.until_success("later")
        assert self.bench.leftovers() == [], "orphans"


def run_case(bench: PairBench, heart: Heart, *, at: int, mode: Mode, ending: Ending, **route: bool) -> dict[str, Any]:
    """Crash ``later`` at effect ``at``, end the story, and say what was seen."""
    case = Case(bench, heart=heart, **route)
    case.prepare()
    wire = CrashWire(at=at, mode=mode)
    result = case.attempt("later", wire)
    if at >= len(wire.effects):
        case.forgive(result)
        raise Unmet(f"the attempt ended before effect {at}: {case.results}")
    if ending == "successor":
        case.competing()
    elif result != "success":
        case.until_success("later")
    case.cleaned()
    if ending == "retry":
        once = {("later", replica): 1 for replica in named(bench.pair)}
        assert case.applied == once, "exactly one publication a replica"
    effect = wire.effects[at]
    told = {"at": at, "effect": effect.kind, "what": effect.what, "replica": effect.replica}
    switches = {f"{run} {replica}": count for (run, replica), count in sorted(case.applied.items())}
    still = {"machine_stood_still_seconds": case.still} if case.still else {}
    return {**told, "results": case.results, "switches": switches, **still}
