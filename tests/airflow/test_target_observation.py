"""A task that observes its live table: killed, told to end, out of time, refused, doubled (F4, F5, R1, R12, G7)."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import attrs
import psutil
import pytest

from tests.airflow.release import AIRFLOW_3, KILLED
from tests.airflow.warm import Script
from tests.airflow.watched import FAILED, SUCCEEDED, Watched, readers
from tests.reader.children import wait_for
from tests.sandbox_fixture import ask
from tests.wirelab import Rule

GONE_WITHIN = 6.0
CODE = {"DponeError": "DPONE_CANCELLED"}  # by what was raised; what Airflow raises has none
STAGING = {"stage", "create", "rows", "verify", "seal", "permit", "publish"}


@attrs.frozen(kw_only=True)
class Observing:
    """A task that is held up while its child observes. Nothing of the child's statement has arrived."""

    script: Script
    child: psutil.Process
    held: Rule

    @classmethod
    def start(cls, watched: Watched, **options: Any) -> Observing:
        held = watched.native.rule("hold", match=watched.scan)
        script = watched.start(**options)
        script.wait(held.fired.is_set)
        (child,) = readers(script)
        return cls(script=script, child=child, held=held)


def code_in(evidence: dict[str, Any]) -> str | None:
    """The code of the error in the evidence of a task, None while there is none."""
    return evidence["error"]["code"] if evidence["error"] is not None else None


def finishes(watched: Watched, *, tries: int = 2) -> None:
    """A retry observes again and completes; nothing is read, inserted or published once more, without the source."""
    (watched.bench.folder / "source.csv").unlink()
    before, live = watched.writes(), watched.bench.live()
    assert watched.run() == SUCCEEDED
    after = watched.writes()
    changed = {text for text in after if after[text] != before[text]}
    assert changed <= {b"ALTER TABLE", b"DROP TABLE"}, "only the slot is written; the predecessor may be dropped"
    summary = watched.xcom("return_value")
    assert (summary["replayed"], summary["attempts"], summary["final_rows"]) == (True, tries, 5)
    assert (summary["extracted_rows"], summary["inserted_rows"]) == (0, 0)
    assert not STAGING & set(watched.steps(tries)), watched.steps(tries)
    assert watched.publications == [1] + [0] * (tries - 1)
    assert (watched.bench.record().phase, watched.bench.record().owner) == ("COMPLETE", "")
    assert watched.bench.live() == live == summary["generation"]
    assert (watched.bench.ids(), watched.bench.private()) == ([1, 2, 3, 4, 5], [])
    assert watched.events() == 1


def is_pending(watched: Watched) -> None:
    """The commit is durable, the observation is not; nothing of Airflow knows a success."""
    assert (watched.bench.record().phase, watched.capsule.state) == ("COMMITTED", "TARGET_PENDING")
    assert (watched.xcom("return_value"), watched.events()) == (None, 0)
    evidence = watched.xcom("dpone_evidence")
    assert (evidence["step"], evidence["target_commit"], evidence["governance"]) == ("observe", "proven", "blocked")


@pytest.mark.contract("F4", "R1", "O3")
def test_a_task_observes_what_it_published_and_only_then_succeeds(watched: Watched) -> None:
    assert watched.run() == SUCCEEDED
    observed = watched.capsule.completion[-1].target
    assert (observed["row_count"], observed["null_counts"], observed["distinct_counts"]) == (5, {"id": 0}, {"id": 5})
    assert watched.native.seen(watched.scan) == 1
    assert watched.steps(1)[-3:] == ["pending", "observe", "released"]
    assert (watched.xcom("return_value")["target_commit"], watched.events()) == ("proven", 1)


@pytest.mark.contract("R12", "F4", "P7", "O3")
def test_a_task_killed_while_it_observes_leaves_no_child_and_its_retry_finishes(watched: Watched) -> None:
    """The child's statement arrives after all, when nobody waits for its answer any more."""
    observing = Observing.start(watched)
    observing.script.send(signal.SIGKILL)
    killed = time.monotonic()
    wait_for(lambda: not observing.child.is_running(), GONE_WITHIN)
    print(f"the child was gone {time.monotonic() - killed:.3f} s after its parent")
    record = watched.bench.record()
    observing.held.release()
    is_pending(watched)
    assert watched.bench.record() == record
    finishes(watched)


@pytest.mark.contract("G7", "F4", "R12")
@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGTERM, KILLED), (signal.SIGALRM, "AirflowTaskTimeout")],
    ids=["on_kill", "execution_timeout"],
)
def test_a_task_ended_while_it_observes_takes_its_child_along_and_writes_nothing_more(
    watched: Watched, number: int, raised: str
) -> None:
    """SIGTERM as Airflow sends it; SIGALRM is how its ``execution_timeout`` comes."""
    observing = Observing.start(watched)
    before = watched.writes()
    observing.script.send(number)
    ended = time.monotonic()
    assert observing.script.answer() == FAILED
    assert time.monotonic() - ended < GONE_WITHIN
    assert not observing.child.is_running()
    assert watched.writes() == before
    assert watched.steps(1)[-1] == f"raised {raised}"
    is_pending(watched)
    assert code_in(watched.xcom("dpone_evidence")) == CODE.get(raised)
    observing.held.release()
    finishes(watched)


@pytest.mark.contract("G7", "F4")
def test_a_task_out_of_time_while_it_inserts_publishes_nothing(watched: Watched) -> None:
    """B16, B25: what was under way arrives later, at a private table that is gone."""
    held = watched.http.rule("hold", match=b"INSERT")
    script = watched.start()
    script.wait(held.fired.is_set)
    script.send(signal.SIGALRM)
    assert script.answer() == FAILED
    assert watched.steps(1)[-1] == "raised AirflowTaskTimeout"
    assert (watched.bench.record().phase, watched.bench.record().owner) == ("REJECTED", "")
    held.release()
    assert (watched.bench.live(), watched.bench.private(), watched.xcom("return_value")) == (None, [], None)
    assert watched.run() == SUCCEEDED
    assert (watched.publications, watched.bench.ids()) == ([0, 1], [1, 2, 3, 4, 5])
    assert watched.bench.private() == []


TOLD_AT = {
    "insert": (b"INSERT", ("REJECTED", "REJECTED"), "create"),
    "permit": (b"'DISPATCHING'", ("PREPARED", "DISPATCHING"), "permit"),
    "complete": (b"'COMPLETE'", ("COMMITTED", "COMPLETE"), "observe"),
}


@pytest.mark.slow
@pytest.mark.contract("G7", "F4")
@pytest.mark.parametrize(("match", "phases", "step"), TOLD_AT.values(), ids=TOLD_AT)
def test_a_task_told_to_end_while_a_statement_is_under_way_goes_no_step_further(
    watched: Watched, match: bytes, phases: tuple[str, str], step: str
) -> None:
    """``on_kill`` cannot interrupt a driver; what it sent comes to its end, and that is all.

    2.11 interrupts it: whether what was sent lands before anybody looks is open. ``phases``: before it and after.
    """
    held = (watched.http if match == b"INSERT" else watched.native).rule("hold", match=match)
    script = watched.start()
    script.wait(held.fired.is_set)
    script.send(signal.SIGTERM)
    time.sleep(0.2)
    held.release()
    assert script.answer() == FAILED
    assert [told for told in watched.steps(1) if told != "rows"][-2:] == [step, f"raised {KILLED}"]
    assert watched.bench.record().phase in (phases[1:] if AIRFLOW_3 else phases)
    assert (watched.xcom("return_value"), watched.events()) == (None, 0)
    assert code_in(watched.xcom("dpone_evidence")) == CODE.get(KILLED)
    assert watched.run() == SUCCEEDED
    assert (sum(watched.publications), watched.bench.ids()) == (1, [1, 2, 3, 4, 5])


CAS = {"permit": b"'DISPATCHING'", "pending": b"TARGET_PENDING", "complete": b"'COMPLETE'"}


@pytest.mark.contract("G7", "F4", "G6")
@pytest.mark.parametrize("late", [False, True], ids=["lands before the retry", "lands after the retry"])
@pytest.mark.parametrize(
    "write", [pytest.param(name, marks=[] if name == "complete" else pytest.mark.slow) for name in CAS]
)
def test_a_write_of_the_authority_under_way_when_time_is_over_is_unknown_and_a_retry_decides(
    watched: Watched, write: str, late: bool
) -> None:
    """B16: nothing follows it, whenever it lands."""
    held = watched.native.rule("hold", match=CAS[write])
    script = watched.start()
    script.wait(held.fired.is_set)
    before = watched.writes()
    script.send(signal.SIGALRM)
    assert script.answer() == FAILED
    assert watched.steps(1)[-1] == "raised AirflowTaskTimeout"
    assert (watched.writes(), watched.xcom("return_value"), watched.events()) == (before, None, 0)
    if not late:
        held.release()
    (watched.bench.folder / "source.csv").unlink()
    assert watched.run() == SUCCEEDED
    record = watched.bench.record()
    held.release()
    assert (watched.bench.record(), record.phase, record.owner) == (record, "COMPLETE", "")
    assert (sum(watched.publications), watched.bench.ids()) == (1, [1, 2, 3, 4, 5])
    assert watched.events() == 1


DECLARED_DEAD = """
class Zombie(Told):
    def execute(self, context):
        try:
            super().execute(context)
        finally:
            os._exit(0)  # Airflow does not listen to it any more

run_dag(make(Zombie))
"""


@pytest.mark.contract("A8", "F4", "R12")
def test_of_two_tries_that_observe_at_once_one_completes_and_the_other_is_fenced(watched: Watched) -> None:
    """B14: a healthy task was declared dead; its retry runs beside it."""
    one = Observing.start(watched, script=DECLARED_DEAD)
    two = Observing.start(watched)
    one.held.release()
    one.script.end()
    assert watched.steps(1)[-1] == "raised Fenced"
    assert (watched.bench.record().phase, watched.capsule.state) == ("COMMITTED", "TARGET_PENDING")
    assert two.child.is_running()
    evidence = watched.xcom("dpone_evidence")
    assert (evidence["step"], evidence["attempt"]) == ("observe", 2), "the fenced try does not take the last word"
    two.held.release()
    assert two.script.answer() == SUCCEEDED
    assert not one.child.is_running()
    assert watched.publications == [1, 0]
    assert {entry.attempt for entry in watched.bench.record().history if entry.phase == "COMPLETE"} == {2}
    assert (watched.writes()[b"RENAME TABLE"], watched.events()) == (1, 1)
    evidence = watched.xcom("dpone_evidence")
    assert (evidence["governance"], evidence["attempt"]) == ("complete", 2)


# As a container may: no new process, threads are fine. The first words are numbers of fork, vfork and clone.
NO_CHILDREN = """
import ctypes, platform, struct

def deny_children():
    fork, vfork, clone = {"x86_64": (57, 58, 56), "aarch64": (1079, 1071, 220)}[platform.machine()]
    allowed, denied, unknown = 0x7FFF0000, 0x00050001, 0x00050026  # unknown: libc takes clone instead of clone3
    # a clone goes on to its flags: CLONE_THREAD is allowed
    program = [
        (0x20, 0, 0, 0), (0x15, 0, 1, 435), (0x06, 0, 0, unknown), (0x15, 0, 1, fork), (0x06, 0, 0, denied),
        (0x15, 0, 1, vfork), (0x06, 0, 0, denied), (0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, 0x10000),
        (0x06, 0, 0, denied), (0x06, 0, 0, allowed),
    ]
    filters = b"".join(struct.pack("HBBI", *one) for one in program)
    place = ctypes.create_string_buffer(filters)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(place)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, header, 0, 0) == 0

class Boxed(Told):
    def execute(self, context):
        deny_children()
        return super().execute(context)

run, states = run_dag(make(Boxed, retries=1))
out({task: list(state) for (task, _), state in states.items()})
"""


@pytest.mark.contract("F5", "R2")
@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_where_no_child_may_be_started_the_task_fails_before_anything_is_touched(watched: Watched) -> None:
    (watched.bench.folder / "source.csv").unlink()  # it is not looked for
    script = watched.start(NO_CHILDREN)
    assert script.answer()["refresh"] == ["failed", 1], "a retry cannot help"
    assert watched.steps(1) == ["claim", "reader", "raised AirflowFailException"]
    assert "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED" in script.said
    assert "does not let this process start a child" in script.said
    assert not any(watched.writes().values())
    assert (watched.bench.slot()[0], watched.bench.live(), watched.bench.private()) == (None, None, [])
    evidence = watched.xcom("dpone_evidence")
    assert (evidence["error"]["code"], evidence["error"]["retryable"]) == (
        "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
        False,
    )
    assert evidence["target_commit"] == "not_started"


@pytest.mark.contract("R1")
@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_a_task_that_asks_nothing_of_the_target_needs_no_child(watched: Watched) -> None:
    load = watched.load()
    load["quality"]["acceptance"]["capture"]["target"] = False
    assert watched.run(NO_CHILDREN, load=load)["refresh"] == ["success", 1]
    assert "reader" not in watched.steps(1)
    assert (watched.native.seen(watched.scan), watched.bench.ids()) == (0, [1, 2, 3, 4, 5])
    assert watched.xcom("dpone_evidence")["target_observation"] == "not_requested"


# -- failures raise before success ------------------------------------------------------------------------------------


def too_few(watched: Watched) -> Script:
    """A gate fails before the commit."""
    return watched.start(load=watched.load(gates=[{"id": "many", "type": "min_rows", "threshold": 99}]))


def replaced(watched: Watched) -> Script:
    """Another table goes live while the child observes."""
    observing = Observing.start(watched)
    place = watched.bench.database
    ask(watched.bench.sandbox, f"CREATE TABLE {place}.theirs ENGINE = MergeTree ORDER BY id AS {place}.t")
    ask(watched.bench.sandbox, f"EXCHANGE TABLES {place}.t AND {place}.theirs")
    observing.held.release()
    return observing.script


def cut_off(watched: Watched) -> Script:
    """The child's connection is lost, and its statement with it."""
    watched.native.rule("refuse", match=watched.scan)
    return watched.start()


FAILURES = {
    "a gate": (too_few, "DPONE_QUALITY_GATES_FAILED", "AirflowFailException", "not_started"),
    "another table": (replaced, "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH", "AirflowFailException", "unknown"),
    "no answer": (cut_off, "DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE", "DponeError", "proven"),
}


@pytest.mark.contract("F4", "G2", "G4")
@pytest.mark.parametrize(("start", "code", "raised", "commit"), FAILURES.values(), ids=FAILURES)
def test_a_failure_raises_before_downstream_tasks_and_assets_see_a_success(
    watched: Watched, start: Callable[[Watched], Script], code: str, raised: str, commit: str
) -> None:
    assert start(watched).answer() == FAILED
    assert watched.steps(1)[-1] == f"raised {raised}"
    assert (watched.xcom("return_value"), watched.events()) == (None, 0)
    evidence = watched.xcom("dpone_evidence")
    assert (evidence["error"]["code"], evidence["target_commit"], evidence["governance"]) == (code, commit, "blocked")
    assert evidence["error"]["retryable"] is (raised == "DponeError")
