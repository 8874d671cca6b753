"""Every fault of the wire at a replacement and at a partition's rows: sent once, never believed, finished by a retry.

Faults at the other statements are met in tests/wire.
"""

from __future__ import annotations

import time

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from tests.loads import OneEndpoint, endpoint_of
from tests.partitions.bench import Parts
from tests.wire.faults import FAULTS, Fault
from tests.wire.task import TaskTimeout, timeout_after
from tests.wirelab import TcpProxy

QUICK = ("closed before", "false acknowledgement", "arrives when its sender is gone", "error after", "drip")
NATIVE = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.slow])
    for fault in FAULTS
    if fault.native is not None
]
HTTP = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.slow])
    for fault in FAULTS
    if fault.http is not None
]
OLD = [*range(100)]


def attempt(bench: Parts, fault: Fault, *, plane: str, match: bytes, skip: int) -> str:
    """One attempt with one fault: "success", an error's code or "timeout", once its statement was dealt with."""
    base = endpoint_of(bench.sandbox, connect_timeout=1.0, receive_timeout=1.0)
    with TcpProxy(base.native_port) as native, TcpProxy(base.http_port) as http:
        proxy = native if plane == "native" else http
        rule = fault.on(proxy, over_http=plane == "http", match=match, skip=skip)
        where = OneEndpoint(where=attrs.evolve(base, native_port=native.port, http_port=http.port))
        identity = RunIdentity(dag_id="dag", run_id="r1", task_id="parts")
        result: LoadOutcome | str = "timeout"
        try:
            with timeout_after(rule.fired, 60.0 if fault.harmless else 3.0):
                result = run_load(bench.spec("partition_replace"), identity, where, Surroundings())
        except TaskTimeout:
            assert fault.name in ("drip", "endless progress"), "what no socket timeout sees ends with the task"
        except DponeError as error:
            result = error.code
        assert rule.fired.is_set()
        rule.release()
        if fault.late:
            time.sleep(0.3)
        assert proxy.seen(match) <= 4, "a statement was sent again"
    if isinstance(result, LoadOutcome):
        truly_loaded(bench)
        return "success"
    assert bench.report() is None
    names = bench.ask(f"SELECT id, name FROM {bench.database}.t ORDER BY id")
    assert [number for number, _ in names] == OLD, "rows are missing, or there twice"
    done = {number // 10 for number, name in names if name != "old"}
    committed = sum(state == "committed" for state in bench.states().values())
    assert committed <= len(done), "a partition is called committed, and is not"
    return result


def truly_loaded(bench: Parts) -> None:
    olds = bench.ask(f"SELECT count(), countIf(name = 'old') FROM {bench.database}.t")
    assert (olds, bench.ids()) == ([(100, 60)], OLD)
    assert set(bench.states().values()) == {"committed"}
    assert bench.report() is not None


def finished(bench: Parts) -> None:
    """A sound retry ends it, with nothing left behind."""
    bench.run(spec=bench.spec("partition_replace"))
    truly_loaded(bench)
    assert bench.private() == []


@pytest.mark.contract("P3", "N5", "X7")
@pytest.mark.parametrize("fault", NATIVE)
def test_a_fault_at_a_replacement_is_decided_by_the_catalog(bench: Parts, fault: Fault) -> None:
    bench.replacing()
    result = attempt(bench, fault, plane="native", match=b"REPLACE PARTITION", skip=1)
    assert result in ("success", "timeout", "DPONE_PUBLICATION_UNCERTAIN", "DPONE_STAGING_FAILED")
    assert result == "success" or not fault.harmless
    finished(bench)


@pytest.mark.contract("N5", "P8")
@pytest.mark.parametrize("fault", HTTP)
def test_a_fault_at_the_rows_of_a_partition_replaces_nothing(bench: Parts, fault: Fault) -> None:
    bench.replacing()
    result = attempt(bench, fault, plane="http", match=b"query=INSERT", skip=1)
    assert result in ("success", "timeout", "DPONE_STAGING_FAILED", "DPONE_STAGED_COUNT_MISMATCH")
    assert (result == "success") == fault.harmless or not fault.lie
    if result != "success":
        assert bench.ask(f"SELECT countIf(name = 'old') FROM {bench.database}.t") == [(100,)]
    finished(bench)
