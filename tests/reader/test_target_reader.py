"""The port over a child: what counts as an observation, what is told when there is none, and whether it can work."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.errors import DponeError
from dpone_provider.reader.supervisor import CHILD_COMMAND
from dpone_provider.reader.target_reader import SupervisedTargetReader
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest, Unobserved
from dpone_provider.wire import DirectWire, Effect, StatementFailed
from tests.reader.children import REQUEST, alive, fake, reader, real, wait_for

T = TypeVar("T")
ONLY_ROWS = attrs.evolve(REQUEST, null_columns=(), distinct_columns=())
ONLY_NULLS = attrs.evolve(REQUEST, row_count=False, distinct_columns=())


def collect(one: SupervisedTargetReader, request: TargetRequest = REQUEST, *, within: float = 10) -> TargetCounts:
    return one.collect(request, deadline=time.monotonic() + within)


def answering(folder: Path, changes: str = "") -> SupervisedTargetReader:
    return reader(fake(folder, f"say(line(request()['nonce'], {changes}))"))


# -- what is an observation -------------------------------------------------------------------------------------------


@pytest.mark.contract("R9", "R10")
def test_an_observation_is_exactly_what_was_asked_and_its_identity_is_the_requests(tmp_path: Path) -> None:
    assert collect(answering(tmp_path)) == TargetCounts(
        replica="r1", attempt_id="a" * 32, row_count=3, null_counts={"a": 1}, distinct_counts={"b": 2}
    )


@pytest.mark.contract("R10")
@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ONLY_ROWS, "null_counts={}, distinct_counts={}"),
        (ONLY_NULLS, "row_count=None, distinct_counts={}"),
    ],
)
def test_what_was_not_asked_is_null_or_empty(tmp_path: Path, request_: TargetRequest, answer: str) -> None:
    counts = collect(answering(tmp_path, answer), request_)
    assert (counts.row_count is not None) == request_.row_count
    assert tuple(counts.null_counts) == request_.null_columns
    assert tuple(counts.distinct_counts) == request_.distinct_columns


@pytest.mark.contract("R9")
@pytest.mark.parametrize("count", [0, MAX_INTEGER])
def test_the_smallest_and_the_largest_count_are_counts(tmp_path: Path, count: int) -> None:
    answer = f"row_count={count}, null_counts={{'a': {count}}}, distinct_counts={{'b': {count}}}"
    assert collect(answering(tmp_path, answer)).row_count == count


@pytest.mark.contract("R5", "R9", "R10")
@pytest.mark.parametrize(
    "changes",
    [
        "row_count=True, null_counts={'a': 0}, distinct_counts={'b': 0}",
        "row_count=-1, null_counts={'a': -1}, distinct_counts={'b': -1}",
        "row_count=None",
        "row_count='3'",
        "row_count=3.0",
        f"row_count={MAX_INTEGER + 1}",
        "null_counts={}",
        "null_counts={'a': 1, 'b': 1}",
        "null_counts={'b': 1}",
        "null_counts={'a': None}",
        "null_counts={'a': True}",
        "distinct_counts={'b': -1}",
        "distinct_counts={}",
        "null_counts={'a': 4}",
        "distinct_counts={'b': 4}",
        "replica='r2'",
    ],
)
def test_counts_that_cannot_be_are_invalid(tmp_path: Path, changes: str) -> None:
    with pytest.raises(Unobserved) as caught:
        collect(answering(tmp_path, changes))
    assert (caught.value.why, caught.value.quiescent) == ("invalid", True)


@pytest.mark.contract("R10")
@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ONLY_NULLS, "row_count=3, distinct_counts={}"),
        (ONLY_ROWS, "null_counts={'a': 0}, distinct_counts={}"),
        (ONLY_ROWS, "null_counts={}, distinct_counts={'b': 0}"),
    ],
)
def test_more_than_was_asked_is_invalid(tmp_path: Path, request_: TargetRequest, answer: str) -> None:
    with pytest.raises(Unobserved) as caught:
        collect(answering(tmp_path, answer), request_)
    assert (caught.value.why, caught.value.reason) == ("invalid", "counts")


@pytest.mark.contract("R5")
@pytest.mark.parametrize("nonce", ["c" * 32, "B" * 32, ""])
def test_an_answer_to_another_request_is_invalid(tmp_path: Path, nonce: str) -> None:
    with pytest.raises(Unobserved) as caught:
        collect(reader(fake(tmp_path, f"request(); say(line({nonce!r}))")))
    assert caught.value.why == "invalid"
    assert caught.value.quiescent


# -- why there is none ------------------------------------------------------------------------------------------------


@pytest.mark.contract("R3", "R11")
@pytest.mark.parametrize(
    ("reason", "unavailable", "why"),
    [
        ("probe_unsupported", True, "probe_unavailable"),
        ("network", True, "unavailable"),
        ("setting_refused", True, "unavailable"),
        ("server_error_241", True, "unavailable"),
        ("generation", False, "drift"),
        ("replica_health", True, "unavailable"),
        ("answer", False, "invalid"),
        ("setting_changed", False, "invalid"),
    ],
)
def test_the_childs_reason_is_told(tmp_path: Path, reason: str, unavailable: bool, why: str) -> None:
    one = reader(fake(tmp_path, f"say(error(request()['nonce'], {reason!r}, {unavailable}))"))
    with pytest.raises(Unobserved) as caught:
        collect(one)
    assert (caught.value.why, caught.value.reason, caught.value.quiescent) == (why, reason, True)


@pytest.mark.contract("R5")
@pytest.mark.parametrize(
    ("reason", "unavailable"), [("network", False), ("generation", True), ("a text of the server", True)]
)
def test_a_reason_that_is_none_is_invalid(tmp_path: Path, reason: str, unavailable: bool) -> None:
    one = reader(fake(tmp_path, f"say(error(request()['nonce'], {reason!r}, {unavailable}))"))
    with pytest.raises(Unobserved) as caught:
        collect(one)
    assert (caught.value.why, caught.value.reason) == ("invalid", "frame")


@pytest.mark.contract("R3", "R4")
def test_a_hung_child_is_unavailable_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(Unobserved) as caught:
        collect(reader(fake(tmp_path, "hang()")), within=0.3)
    assert (caught.value.why, caught.value.reason, caught.value.quiescent) == ("unavailable", "deadline", True)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.contract("R3", "G2")
def test_a_child_that_cannot_be_killed_is_not_quiescent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: None)
        with pytest.raises(Unobserved) as caught:
            collect(reader(fake(tmp_path, "hang()"), shutdown_budget=0.1), within=0.2)
    assert (caught.value.reason, caught.value.quiescent) == ("deadline", False)
    for pid in alive(tmp_path):
        os.kill(pid, 9)
    del caught
    gc.collect()  # the child that was given up, here where its warning is expected


@pytest.mark.contract("R3")
def test_after_the_deadline_no_child_is_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    with pytest.raises(Unobserved) as caught:
        collect(reader(fake(tmp_path, f"open({str(started)!r}, 'w')")), within=0)
    assert (caught.value.reason, caught.value.quiescent) == ("deadline", True)
    assert not started.exists()


@pytest.mark.contract("R3")
def test_the_child_is_told_the_rest_of_the_budget_and_its_bounds(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    body = f"""
        asked = request()
        open({str(seen)!r}, "w").write(json.dumps(asked))
        say(line(asked["nonce"]))
    """
    collect(reader(fake(tmp_path, body)), within=7)
    asked = json.loads(seen.read_text())
    assert 5000 < asked["budget_ms"] <= 7000
    assert asked["max_memory_bytes"] == 2 * 1024**3
    assert [replica["name"] for replica in asked["replicas"]] == ["r1", "r2"]


@attrs.define
class Lossy:
    """A wire that loses every effect after it happened."""

    effects: list[Effect] = attrs.field(factory=list)

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        self.effects.append(effect)
        call()
        raise StatementFailed(None)


@pytest.mark.contract("R3")
def test_an_observation_and_a_probe_are_one_effect_each_and_a_lost_one_is_none(tmp_path: Path) -> None:
    wire = Lossy()
    with pytest.raises(Unobserved) as caught:
        collect(reader(fake(tmp_path, "say(line(request()['nonce']))"), wire=wire))
    assert (caught.value.why, caught.value.quiescent) == ("unavailable", True)
    with pytest.raises(DponeError):
        reader(CHILD_COMMAND, wire=wire).ready()
    assert [(effect.kind, effect.replica) for effect in wire.effects] == [("observe", "r1"), ("reader_probe", "")]


@pytest.mark.contract("G7")
def test_a_cancellation_passes_through(tmp_path: Path) -> None:
    def check_cancelled() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(reader(fake(tmp_path, "hang()"), check_cancelled=check_cancelled))
    assert alive(tmp_path) == []


def test_it_works_in_a_thread_too(tmp_path: Path) -> None:
    found: list[TargetCounts] = []
    one = answering(tmp_path)
    thread = threading.Thread(target=lambda: found.append(collect(one)))
    thread.start()
    thread.join()
    assert found[0].row_count == 3


# -- what is reserved -------------------------------------------------------------------------------------------------


@pytest.mark.contract("C4")
def test_what_fits_is_admitted_and_what_does_not_fit_is_not() -> None:
    one = reader(CHILD_COMMAND)
    one.reserve(REQUEST)
    names = tuple(f"{number:04}" + "x" * 1000 for number in range(256))
    for request in (
        attrs.evolve(REQUEST, columns=tuple((f"c{number}", "String") for number in range(20_000))),
        attrs.evolve(REQUEST, null_columns=names, distinct_columns=()),
        attrs.evolve(REQUEST, replicas=("elsewhere",)),
    ):
        with pytest.raises(DponeError) as caught:
            one.reserve(request)
        assert caught.value.code == "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED"


# -- credentials ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("R6")
@pytest.mark.parametrize("body", ["time.sleep(60)", "raise ValueError(repr(request), request.replicas[0].password)"])
def test_a_password_is_nowhere_but_in_the_pipe(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-7f3a91c2"
    monkeypatch.setenv("AIRFLOW_CONN_TARGET", f"dpone-clickhouse://u:{canary}@h")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", canary)
    monkeypatch.setenv("PYTHONPATH", canary)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    command = real(tmp_path, f"import time\n{body}")
    caught: list[Unobserved] = []

    def observe() -> None:
        try:
            collect(reader(command, password=canary), within=1.5)
        except Unobserved as missed:
            caught.append(missed)

    thread = threading.Thread(target=observe)
    thread.start()
    wait_for(lambda: alive(tmp_path) or caught)
    seen = "".join(_everything_about(pid) for pid in alive(tmp_path))
    thread.join()
    (missed,) = caught
    seen += repr(missed) + repr(missed.__cause__) + caplog.text
    seen += "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert canary not in seen
    if missed.reason == "deadline":
        assert "real_child.py" in seen
    else:
        assert missed.reason == "exit"


def _everything_about(pid: int) -> str:
    """What others can see of a process: arguments, environment, names of open files. It may end meanwhile."""
    seen = ""
    for name in ("cmdline", "environ"):
        try:
            seen += Path(f"/proc/{pid}/{name}").read_text()
        except OSError:
            continue
    assert "AIRFLOW" not in seen
    return seen


# -- readiness --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("R2")
def test_a_system_that_starts_kills_and_reaps_is_ready() -> None:
    wire = DirectWire()
    reader(CHILD_COMMAND, wire=wire).ready()
    assert wire.counts == {"reader_probe": 1}


@pytest.mark.contract("R2")
def test_a_probing_child_imports_next_to_nothing() -> None:
    """It is on the way of every load, so it must be quick: no driver, no attrs, no JSON."""
    code = "import sys, dpone_provider.reader.child; print([name for name in ('attr', 'json', 'clickhouse_driver', "
    code += "'clickhouse_connect', 'subprocess', 'airflow') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.contract("R2", "F5")
@pytest.mark.parametrize(
    "body",
    [
        "os._exit(1)",
        "say(b'ready\\n'); hang()",
        "say(b'hello\\n'); hang()",
        "say(b'ready\\nready\\n'); hang()",
        "say(b'ready'); os._exit(0)",
        "hang()",
    ],
    ids=["exits", "dies of SIGTERM", "says something else", "says too much", "says too little", "says nothing"],
)
def test_a_probe_that_goes_another_way_is_not_admitted(tmp_path: Path, body: str) -> None:
    _refuses(reader(fake(tmp_path, body), probe_budget=0.3), retryable=body == "hang()")
    assert alive(tmp_path) == []


@pytest.mark.contract("R2", "F5")
def test_without_an_interpreter_it_is_not_admitted(tmp_path: Path) -> None:
    _refuses(reader((str(tmp_path / "no python here"),)))


@pytest.mark.contract("R2")
def test_elsewhere_than_on_posix_it_is_not_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = reader(CHILD_COMMAND)
    with monkeypatch.context() as patched:
        patched.setattr("dpone_provider.reader.target_reader.os.name", "nt")
        _refuses(one)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.contract("R2")
def test_where_a_child_cannot_be_killed_it_is_not_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = reader(CHILD_COMMAND, shutdown_budget=0.1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: None)
        _refuses(one)
    gc.collect()


def _refuses(one: SupervisedTargetReader, *, retryable: bool = False) -> None:
    with pytest.raises(DponeError) as caught:
        one.ready()
    error = caught.value
    assert (error.code, error.boundary) == ("DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED", "admission")
    assert (error.target_commit, error.retryable) == ("not_started", retryable)
    assert "capture.target" in error.next_step


@pytest.mark.contract("R2", "F5")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts a user's processes on Linux only")
def test_a_sandbox_without_child_processes_is_not_admitted() -> None:
    code = f"""
    import os, resource
    from dpone_provider.errors import DponeError
    from tests.reader.children import reader
    from dpone_provider.reader.supervisor import CHILD_COMMAND

    one = reader(CHILD_COMMAND)
    resource.setrlimit({resource.RLIMIT_NPROC}, (0, 0))
    if os.getuid() == 0:
        os.setuid(65534)  # root is not limited
    try:
        one.ready()
    except DponeError as error:
        print(error.code, error.message, sep="|")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    code_, _, message = done.stdout.strip().partition("|")
    assert code_ == "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED"
    assert "start a child" in message
