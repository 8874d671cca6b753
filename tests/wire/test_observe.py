"""Every fault of the native wire at every statement of the supervised child: in time, in order, and never a count."""

from __future__ import annotations

import time
from collections.abc import Iterable

import attrs
import psutil
import pytest

from dpone_provider.reader.target_reader import SHUTDOWN_SECONDS, SupervisedTargetReader
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest, Unobserved
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire
from tests.loads import endpoint_of
from tests.sandbox_fixture import ask
from tests.wire.faults import FAULTS, Fault
from tests.wire.matrix import keep, meets
from tests.wire.statements import CHILD, HELLO, Statement
from tests.wirelab import Rule, TcpProxy

BUDGETS = (1.2, 6.0)
"""Seconds of an observation that must end at its deadline; the second where a child did not get to its statement."""
LATE = 0.5
WAITING = (
    *("silence before", "arrives when its sender is gone", "silence after"),
    *("drip", "endless progress", "end missing, silence"),
)
SCAN = "observe, its scan"
NATIVE_FAULTS = [fault for fault in FAULTS if fault.native is not None]
ROWS, NULLS, DISTINCT = 9, 3, 2


@attrs.frozen(kw_only=True)
class Seen:
    """How one observation ended: counts, or why there are none; ``seconds`` until nothing of it was left."""

    counts: TargetCounts | None
    missed: Unobserved | None
    seconds: float


def make(sandbox: RunningSandbox, database: str) -> TargetRequest:
    """A table, and the request that observes it."""
    columns = (("id", "UInt64"), ("name", "Nullable(String)"))
    body = ", ".join(f"{name} {kind}" for name, kind in columns)
    ask(sandbox, f"CREATE TABLE {database}.t ({body}) ENGINE = MergeTree ORDER BY id")
    ask(
        sandbox,
        f"INSERT INTO {database}.t SELECT number, if(number % 3 = 0, NULL, toString(number % 3)) FROM numbers({ROWS})",
    )
    where = f"database = '{database}' AND name = 't'"
    uuid, engine = ask(sandbox, f"SELECT toString(uuid), engine_full FROM system.tables WHERE {where}")[0]
    return TargetRequest(
        database=database,
        table="t",
        generation=uuid,
        engine_full=engine,
        columns=columns,
        row_count=True,
        null_columns=("name",),
        distinct_columns=("name",),
        replicas=("r1",),
        attempt_id="a" * 32,
    )


def observe(proxy: TcpProxy, sandbox: RunningSandbox, request: TargetRequest, budget: float) -> Seen:
    """One observation over the proxy."""
    endpoint = endpoint_of(sandbox, native_port=proxy.port)
    reader = SupervisedTargetReader({"r1": endpoint}, wire=DirectWire(), new_id=lambda: "b" * 32)
    started = time.monotonic()
    counts = missed = None
    try:
        counts = reader.collect(request, deadline=started + budget)
    except Unobserved as error:
        missed = error
    return Seen(counts=counts, missed=missed, seconds=time.monotonic() - started)


def meet(sandbox: RunningSandbox, request: TargetRequest, statement: Statement, fault: Fault) -> dict[str, object]:
    """One fault at one statement of one child; what came of it."""
    before = set(psutil.Process().children(recursive=True))
    for budget in BUDGETS if waits(fault, statement) else (20.0,):
        with TcpProxy(sandbox.tcp_port) as proxy:
            rule: Rule = fault.on(proxy, match=statement.match, skip=statement.nth)
            seen = observe(proxy, sandbox, request, budget)
            assert set(psutil.Process().children(recursive=True)) == before, "a process is left"
            assert proxy.connections == 1
            for text in {one.match for one in CHILD if one.match != HELLO}:
                assert proxy.seen(text) <= sum(one.match == text for one in CHILD), "a statement went twice"
        assert seen.seconds <= budget + LATE <= budget + SHUTDOWN_SECONDS
        if rule.fired.is_set():
            break
    assert rule.fired.is_set(), "the statement was never sent"
    judge(seen, fault, waits=waits(fault, statement))
    why = (seen.missed.why, seen.missed.reason) if seen.missed is not None else ("counts", "")
    return {"fault": fault.name, "statement": statement.name, "results": list(why)}


def waits(fault: Fault, statement: Statement) -> bool:
    """Whether only the deadline can end the observation. Progress in place of a greeting is a wrong packet."""
    return fault.name in WAITING and (fault.name != "endless progress" or statement.match != HELLO)


def judge(seen: Seen, fault: Fault, *, waits: bool) -> None:
    """Only latency is a reason for counts, and then they are right; whatever else happens says why, and is over."""
    if fault.harmless:
        assert seen.counts is not None, seen.missed
        assert seen.counts.row_count == ROWS
        assert seen.counts.null_counts == {"name": NULLS}
        assert seen.counts.distinct_counts == {"name": DISTINCT}
        return
    assert seen.counts is None
    assert seen.missed is not None
    assert seen.missed.quiescent
    assert seen.missed.why == "unavailable", seen.missed
    assert (seen.missed.reason == "deadline") == waits, seen.missed


def study(
    sandbox: RunningSandbox, database: str, fault: Fault, statements: Iterable[Statement]
) -> list[dict[str, object]]:
    request = make(sandbox, database)
    return [meet(sandbox, request, statement, fault) for statement in statements]


@pytest.mark.contract("R3", "R4", "R9")
@pytest.mark.parametrize("fault", NATIVE_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_at_the_scan_never_counts(sandbox: RunningSandbox, database: str, fault: Fault) -> None:
    chosen = [statement for statement in CHILD if statement.name == SCAN]
    assert len(study(sandbox, database, fault, chosen)) == 1


@pytest.mark.slow
@pytest.mark.contract("R3", "R4", "R8", "R9")
@pytest.mark.parametrize("fault", NATIVE_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_at_every_statement_of_the_child_never_counts(
    sandbox: RunningSandbox, database: str, fault: Fault
) -> None:
    assert all(meets(fault, statement) for statement in CHILD)
    measured = study(sandbox, database, fault, CHILD)
    assert len(measured) == len(CHILD) == 6
    keep(f"{fault.name}, child", measured)


def test_the_study_of_the_child_leaves_nothing_out() -> None:
    assert len(NATIVE_FAULTS) * len(CHILD) >= 138
    assert {*WAITING} <= {fault.name for fault in NATIVE_FAULTS}
