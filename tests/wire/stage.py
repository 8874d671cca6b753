"""One target, loaded over proxies: an attempt with a fault, then honest ones; and what must hold for each.

A case leaves the table loaded and released, so the next case starts from there with other rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.manifest.spec import ClickHouseSource, LoadSpec
from dpone_provider.replay.target_reader import BUDGET_SECONDS
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire
from tests.loads import Bench, endpoint_of
from tests.wire.faults import Fault
from tests.wire.readers import Reader
from tests.wire.statements import Statement
from tests.wire.task import TaskTimeout, timeout_after
from tests.wire.wires import Wires, wires_to
from tests.wirelab import Rule, TcpProxy

ROWS = 5
PATIENCE = (0.5, 8.0)
"""Socket timeouts of the faulty attempt (over HTTP at least 1 s); the second where the first was not enough to get
as far as the statement."""
OBSERVE = 1.5
"""Seconds that the faulty attempt's observation may take."""
LIMIT = 0.8
"""Seconds from the fault to the task's timeout: no socket timeout sees a drip."""
LONG = 60.0
"""The same where a deadline ends the wait, or nothing has to."""
LANDING = 0.5
"""Seconds until a statement that nobody waits for has surely been dealt with."""
RETRIES = 3


@attrs.frozen(kw_only=True)
class Attempt:
    """How one attempt ended: "success", an error's code, or "timeout"."""

    result: str
    outcome: LoadOutcome | None = None
    error: DponeError | None = None


@attrs.define
class Stage:
    """One target of a database and its loads, one after another."""

    bench: Bench
    reader: Reader
    loads: int = 0
    observed: bool = False

    @property
    def old(self) -> list[int]:
        """The rows that were there before this load."""
        return self._ids(self.loads - 1) if self.loads > 1 else []

    @property
    def new(self) -> list[int]:
        return self._ids(self.loads)

    @staticmethod
    def _ids(load: int) -> list[int]:
        return list(range(load * 10, load * 10 + ROWS))

    def begin(self, *, observed: bool = False) -> None:
        """The next operation, with rows of its own. ``observed``: its live generation is looked at by a child."""
        self.loads += 1
        self.observed = observed
        self.reader.expect(self.old, self.new)

    def honest(self) -> Attempt:
        """An attempt over sound wires."""
        with wires_to(endpoint_of(self.bench.sandbox)) as wires:
            return self._checked(wires, Rule("delay"), 0, BUDGET_SECONDS)

    def faulty(self, statement: Statement, fault: Fault, patience: float) -> tuple[Attempt, Rule]:
        """An attempt with one fault at one statement."""
        base = endpoint_of(self.bench.sandbox, connect_timeout=patience, receive_timeout=patience)
        with wires_to(base) as wires:
            if statement.fence:
                wires.native.rule("refuse", match=b"EXCHANGE TABLES")
            where = {"match": statement.match, "once_seen": statement.after, "skip": statement.nth}
            rule = fault.on(wires.of(statement), over_http=statement.plane != "native", **where)
            limit = LONG if statement.child or fault.harmless else LIMIT
            ended = self._checked(wires, rule, limit, max(patience, OBSERVE))
            if fault.late:
                _land(rule, wires.of(statement))
            return ended, rule

    def _spec(self) -> LoadSpec:
        """A load of this operation's rows out of ClickHouse."""
        first = self.loads * 10
        rows = f"SELECT number AS id, concat('n', toString(number)) AS name FROM numbers({first}, {ROWS})"
        spec = self.bench.spec(target=self.observed)
        return attrs.evolve(spec, source=ClickHouseSource(connection_ref="source", query=rows))

    def _checked(self, wires: Wires, rule: Rule, limit: float, observe: float) -> Attempt:
        before, wire = self.bench.live(), DirectWire()
        with timeout_after(rule.fired, limit):
            ended = self._run(wires, Surroundings(wire=wire, observe_within=observe))
        assert wires.twice() == []
        assert wires.unasked(wire.counts) == []
        self._truthful(ended, before)
        return ended

    def _run(self, wires: Wires, around: Surroundings) -> Attempt:
        identity = self.bench.identity(f"r{self.loads}")
        try:
            outcome = run_load(self._spec(), identity, wires, around)
        except TaskTimeout:
            return Attempt(result="timeout")
        except DponeError as error:
            return Attempt(result=error.code, error=error)
        return Attempt(result="success", outcome=outcome)

    def _truthful(self, ended: Attempt, before: str | None) -> None:
        """Success only with everything done; a failure claims no more than is true; readers see old or new."""
        assert self.bench.ids() in (self.old, self.new)
        if ended.outcome is not None:
            record = self.bench.record()
            assert (record.phase, record.owner) == ("COMPLETE", "")
            assert self.bench.live() == record.generation == ended.outcome.generation
            assert self.bench.ids() == self.new
        if ended.error is not None:
            claimed = ended.error.target_commit
            assert claimed != "proven" or self.bench.live() == self.bench.record().generation
            assert claimed != "not_started" or self.bench.live() == before


def _land(rule: Rule, proxy: TcpProxy) -> None:
    """Let what is held back arrive, and wait until the server has dealt with it."""
    before, until = proxy.server_bytes, time.monotonic() + LANDING
    rule.release()
    while proxy.server_bytes == before and time.monotonic() < until:
        time.sleep(0.01)


def run_case(stage: Stage, statement: Statement, fault: Fault) -> dict[str, Any]:
    """One fault at one statement, then honest retries; what came of it."""
    for patience in PATIENCE[-1:] if fault.harmless else PATIENCE:
        stage.begin(observed=statement.observed)
        first, rule = stage.faulty(statement, fault, patience)
        results = [first.result, *_finish(stage, first, fault)]
        if rule.fired.is_set():
            break
    assert rule.fired.is_set(), "the statement was never sent"
    assert first.error is None or first.error.retryable or fault.lie, first.error
    assert first.outcome is not None or not fault.harmless, first.error
    return {"fault": fault.name, "statement": statement.name, "results": results}


def _finish(stage: Stage, first: Attempt, fault: Fault) -> list[str]:
    """Honest retries until the load is done and nothing of it is left over; how they ended."""
    retries: list[Attempt] = []
    last = first
    while last.outcome is None and len(retries) < RETRIES:
        last = stage.honest()
        retries.append(last)
    assert last.outcome is not None, [one.result for one in retries]
    if last.outcome.leftovers or fault.lie:  # the load is done; what its cleaning did not do, a replay does
        assert stage.honest().result == "success"
    assert stage.bench.private() == [], "orphans"
    stage.reader.settled()
    return [one.result for one in retries]


@contextmanager
def stage_of(sandbox: RunningSandbox, database: str, folder: Path, table: str) -> Iterator[Stage]:
    """A target without a table."""
    bench = Bench(sandbox=sandbox, database=database, folder=folder, table=table)
    with Reader(sandbox, database, table) as reader:
        yield Stage(bench, reader)
