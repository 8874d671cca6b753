"""The evidence that a task keeps: before each step acts, true until the next one, small, strict, without a secret (F4).

The first half drives it without Airflow, effect by effect; the second through real tasks and their XComs.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.operators.evidence import KEY, KIND, Evidence
from dpone_provider.page.document import parse
from dpone_provider.replay.identity import Operation, Target
from dpone_provider.replay.tenure import Fenced
from dpone_provider.runtime.compose import operation_of
from dpone_provider.sandbox.config import SandboxConfig, SandboxUser
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.wire import DirectWire, Effect
from tests.airflow.warm import Script, WarmAirflow
from tests.airflow.watched import FAILED, SUCCEEDED, Watched, readers
from tests.loads import Bench
from tests.sandbox_fixture import ask
from tests.wirelab import TcpProxy

T = TypeVar("T")
MOST_BYTES = 8001
STEPS = [
    "claim",
    "reader",
    "claimed",
    "stage",
    "create",
    "verify",
    "seal",
    "permit",
    "publish",
    "committed",
    "complete",
    "pending",
    "observe",
    "released",
]

AT_LEAST = {
    "sealed": {"PREPARED", "DISPATCHING", "COMMITTED", "COMPLETE"},
    "dispatched": {"DISPATCHING", "COMMITTED", "COMPLETE"},
    "proven": {"COMMITTED", "COMPLETE"},
    "observed": {"COMPLETE"},
    "complete": {"COMPLETE"},
}


class Away(Exception):
    """Airflow's API does not take the XCom."""


@attrs.define
class Kept(DirectWire):
    """A load of ``bench`` with its evidence. After every effect and every push the evidence must be true.

    ``refuse``: the step whose evidence Airflow does not take. ``effects``: with the step that was announced last.
    """

    bench: Bench
    refuse: str = ""
    documents: list[dict[str, Any]] = attrs.field(factory=list)
    effects: list[tuple[str, Effect]] = attrs.field(factory=list)
    told: list[str] = attrs.field(factory=list)
    before: str | None = None

    def __attrs_post_init__(self) -> None:
        super().__init__()
        self.before = self.bench.live()

    def push(self, key: str, document: dict[str, Any]) -> None:
        assert (key, document["kind"]) == (KEY, KIND)
        if document["step"] == self.refuse:
            raise Away
        self.documents.append(json.loads(json.dumps(document, allow_nan=False)))
        assert parse(document).payload() == self.documents[-1]
        self.look()

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        self.effects.append((self.documents[-1]["step"] if self.documents else "", effect))
        answer = super().send(effect, call)
        if effect.kind in ("authority_cas", "authority_create", "exchange", "publish_first", "insert", "observe"):
            self.look()
        return answer

    def look(self) -> None:
        """What was kept last must be true now."""
        last, live = self.documents[-1], self.bench.live()
        if last["target_commit"] == "not_started":
            assert live == self.before
        if last["target_commit"] == "proven":
            record = self.bench.record()
            assert live == record.generation
            assert record.phase in {"COMMITTED", "COMPLETE"}
        reached = {step["step"] for step in last["attempts"][-1]["steps"] if step["state"] in ("done", "kept")}
        for milestone, phases in AT_LEAST.items():
            assert milestone not in reached or self.bench.record().phase in phases, milestone
        if last["governance"] == "complete":
            record = self.bench.record()
            assert (record.phase, record.owner, last["target_commit"]) == ("COMPLETE", "", "proven")

    def run(self) -> LoadOutcome:
        spec = self.bench.spec(target=True)
        evidence = Evidence(self.push, lambda step, facts: self.told.append(step))
        evidence.about(operation_of(spec, self.bench.identity()))
        outcome = self.bench.run(spec=spec, wire=self, notify=evidence.notify)
        evidence.succeeded(outcome)
        return outcome

    def steps(self) -> list[str]:
        return [document["step"] for document in self.documents]


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    """A bench whose live table comes from an earlier operation."""
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    bench.write(100)
    bench.run("earlier")
    bench.write(1)
    return bench


# -- effect by effect -------------------------------------------------------------------------------------------------


@pytest.mark.contract("F4", "G1")
def test_evidence_is_kept_before_each_step_acts_and_stays_true_until_the_next(bench: Bench) -> None:
    kept = Kept(bench)
    kept.run()
    assert kept.steps() == [*STEPS, "released"]
    announced = {
        "reader_probe": {"reader"},
        "create_table": {"create"},
        "insert": {"create"},
        "exchange": {"publish"},
        "observe": {"observe"},
    }
    for kind, steps in announced.items():
        assert {step for step, effect in kept.effects if effect.kind == kind} == steps, kind
    written = [(step, effect.what) for step, effect in kept.effects if effect.kind == "authority_cas"]
    assert written == [
        ("reader", "move the slot to CLAIMED"),
        ("seal", "move the slot to PREPARED"),
        ("permit", "move the slot to DISPATCHING"),
        ("publish", "move the slot to COMMITTED"),
        ("pending", "move the slot to COMMITTED"),
        ("observe", "move the slot to COMPLETE"),
        ("observe", "move the slot to COMPLETE"),
    ]
    claims = {document["step"]: document["target_commit"] for document in kept.documents}
    assert [claims[step] for step in ("claim", "stage", "seal", "permit", "publish")] == [
        None,
        "not_started",
        "not_started",
        "unknown",
        "unknown",
    ]
    assert claims["committed"] == claims["observe"] == "proven"
    last = kept.documents[-1]
    assert (last["governance"], last["target_observation"], last["replayed"]) == ("complete", "observed", False)
    assert {document["governance"] for document in kept.documents[:-1]} == {"blocked"}


@pytest.mark.contract("F4", "O3")
def test_it_says_what_was_counted_which_gates_passed_and_what_the_attempt_did(bench: Bench) -> None:
    kept = Kept(bench)
    outcome = kept.run()
    last = kept.documents[-1]
    rows = {"metric": "rows", "source": 5, "staged": 5, "target": 5}
    assert [count for count in last["counts"] if count["metric"] == "rows"] == [rows]
    assert [(gate["id"], gate["status"]) for gate in last["gates"]] == [("rows", "passed"), ("some", "passed")]
    (replica,) = last["generation"]["replicas"]
    assert (last["generation"]["uuid"], replica["live"]) == (outcome.generation, outcome.generation)
    assert replica["predecessor"] == kept.before
    (own,) = last["attempts"]
    assert (own["outcome"], own["source_reads"], own["inserted_rows"], own["publications"]) == ("succeeded", 1, 5, 1)
    assert {step["state"] for step in own["steps"]} == {"done"}
    assert (last["error"], last["next"]["title"], last["recorded_by_try"]) == (None, "Nothing to do", 1)
    assert len(json.dumps(last)) < 5_000


@pytest.mark.contract("F4", "P3")
def test_a_retry_shows_what_the_dead_try_did_and_that_nothing_is_repeated(bench: Bench) -> None:
    dead = Kept(bench, refuse="pending")
    with pytest.raises(Away):
        dead.run()
    kept = Kept(bench)
    kept.run()
    first, second = kept.documents[-1]["attempts"]
    assert (first["outcome"], first["source_reads"], first["publications"]) == ("stopped", 1, 1)
    assert [step["state"] for step in first["steps"]] == ["done"] * 5 + ["failed", "never"]
    assert (second["source_reads"], second["inserted_rows"], second["publications"]) == (0, 0, 0)
    assert [step["state"] for step in second["steps"]] == ["done"] + ["kept"] * 4 + ["done"] * 2
    seen = [document["counts"] for document in kept.documents if document["step"] == "claimed"]
    assert {count["staged"] for count in seen[0] if count["metric"] == "rows"} == {5}, (
        "the sealed proof is known at once"
    )


@pytest.mark.contract("F4")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_whose_evidence_cannot_be_kept_does_not_act(bench: Bench, step: str) -> None:
    kept = Kept(bench, refuse=step)
    with pytest.raises(Away):
        kept.run()
    assert [told for told in kept.told if told != "rows"] == STEPS[: STEPS.index(step)]
    assert {announced for announced, _ in kept.effects} <= {"", *STEPS[: STEPS.index(step)]}
    later = Kept(bench)
    assert later.run().target_commit == "proven"
    switches = [effect.kind for _, effect in (*kept.effects, *later.effects) if effect.kind == "exchange"]
    assert (switches, bench.ids(), bench.private()) == (["exchange"], [1, 2, 3, 4, 5], [])


@pytest.mark.contract("O3", "P7", "F4")
def test_the_evidence_of_a_replay_names_what_was_proven_and_claims_only_what_it_found(bench: Bench) -> None:
    first = Kept(bench).run()
    again = Kept(bench)
    again.run()
    assert again.steps() == ["claim", "claimed", "complete", "released", "released"]
    assert [document["target_commit"] for document in again.documents] == [None, *["proven"] * 4]
    last = again.documents[-1]
    assert (last["replayed"], last["extracted_rows"], last["attempt"]) == (True, 0, 2)
    assert last["replayed_from"] == {"run_id": "r1", "load_id": first.load_id}
    assert last["target_observation"] == "observed"


LONG = "é" * 250
OPERATIONS = {
    "usual": Operation(
        namespace="default", dag_id="d", run_id="r", task_id="t", map_index=-1, process="p",
        target=Target(cluster="", database="db", table="t"),
    ),
    "longest": Operation(
        namespace=LONG, dag_id=LONG, run_id=LONG, task_id=LONG, map_index=2**31, process=LONG,
        target=Target(cluster="", database=LONG[:200], table=LONG[:200]), reprocess="again " * 10_000,
    ),
}  # fmt: skip


@pytest.mark.contract("F4", "F8")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_it_stays_small_whatever_names_and_remedies_are_like(operation: Operation) -> None:
    kept: list[dict[str, Any]] = []
    evidence = Evidence(lambda key, document: kept.append(document), lambda step, facts: None)
    evidence.about(operation)
    evidence.notify("claimed", {"attempt": 2**63, "phase": "COMMITTED"})
    evidence.failed(DponeError("DPONE_REPLAY_QUALITY_EVIDENCE_INCOMPLETE", remedy="ü" * 50_000))
    for document in kept:
        assert document["operation_id"] == operation.operation_id
        assert len(json.dumps(document, allow_nan=False)) < MOST_BYTES
    assert (kept[-1]["operation"] is not None) is (operation.dag_id == "d")


@pytest.mark.contract("F4", "A8")
def test_a_fenced_try_does_not_overwrite_what_the_newer_one_keeps() -> None:
    kept: list[dict[str, Any]] = []
    evidence = Evidence(lambda key, document: kept.append(document), lambda step, facts: None)
    evidence.failed(Fenced())
    assert kept == []


# -- through tasks ----------------------------------------------------------------------------------------------------

KILL_AT = """
class Killed(Told):
    def notify(self, step, facts):
        super().notify(step, facts)
        if step == "{step}":
            os.kill(os.getpid(), 9)

run_dag(make(Killed))
"""


@pytest.mark.contract("F4", "R12")
@pytest.mark.parametrize(
    ("step", "commit"), [("stage", "not_started"), ("publish", "unknown"), ("committed", "proven")]
)
def test_a_dead_try_leaves_its_last_true_word(watched: Watched, step: str, commit: str) -> None:
    script = watched.start(KILL_AT.format(step=step))
    script.end()
    evidence = watched.xcom(KEY)
    assert (evidence["step"], evidence["target_commit"], evidence["governance"]) == (step, commit, "blocked")
    assert watched.xcom("return_value") is None
    assert (evidence["target_commit"] == "proven") is (watched.bench.live() is not None)
    operation = Operation.from_payload(evidence["operation"])
    assert operation == watched.bench.record().operation
    assert operation.operation_id == evidence["operation_id"]


AWAY_AT = """
class Instance:
    def __init__(self, real):
        self.real = real
    def __getattr__(self, name):
        return getattr(self.real, name)
    def xcom_push(self, key, value):
        if key == "dpone_evidence" and {condition}:
            raise ConnectionError("the API server is away")
        self.real.xcom_push(key, value)

class Away(Told):
    def execute(self, context):
        return super().execute({{**context, "ti": Instance(context["ti"])}})

run, states = run_dag(make(Away, retries={retries}, retry_delay=datetime.timedelta(0)))
out({{task: state for (task, _), (state, _) in states.items()}})
"""


@pytest.mark.contract("F4")
def test_a_task_whose_evidence_is_not_taken_stops_and_its_retry_publishes_once(watched: Watched) -> None:
    script = AWAY_AT.format(condition='self.real.try_number == 1 and value["step"] == "publish"', retries=1)
    assert watched.run(script) == SUCCEEDED
    assert watched.steps(1)[-2:] == ["permit", "raised ConnectionError"]
    assert watched.publications == [0, 1]
    assert watched.xcom(KEY)["governance"] == "complete"


@pytest.mark.contract("F4")
def test_a_final_failure_stays_what_it_is_when_its_evidence_is_not_taken(watched: Watched) -> None:
    load = watched.load(gates=[{"id": "many", "type": "min_rows", "threshold": 99}])
    script = watched.start(AWAY_AT.format(condition='value["error"] is not None', retries=1), load=load)
    assert script.answer() == FAILED
    assert watched.steps(1)[-1] == "raised AirflowFailException"
    assert watched.steps(2) == [], "a retry cannot help"
    assert "DPONE_QUALITY_GATES_FAILED" in script.said
    evidence = watched.xcom(KEY)
    assert (evidence["step"], evidence["target_commit"], evidence["governance"]) == ("verify", "not_started", "blocked")


@pytest.mark.contract("F4", "P7")
def test_a_success_whose_evidence_is_not_taken_is_no_success_yet_and_is_replayed(watched: Watched) -> None:
    script = AWAY_AT.format(condition='value["governance"] == "complete" and self.real.try_number == 1', retries=1)
    assert watched.run(script) == SUCCEEDED
    assert watched.steps(1)[-1] == "raised ConnectionError"
    assert (watched.xcom("return_value")["replayed"], watched.publications) == (True, [1, 0])
    assert watched.xcom(KEY)["replayed"] is True


# -- secrets ----------------------------------------------------------------------------------------------------------

CANARY = "p@ss'w/rd"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    """A server with a user whose password breaks quoting, and one with none at all."""
    users = (SandboxUser(name="quoted", password=CANARY), SandboxUser(name="open", password=""))
    server = SandboxServer()
    running = server.start(SandboxConfig(folder=tmp_path_factory.mktemp("g"), users=users, bound_to_starter=True))
    try:
        yield running
    finally:
        server.stop(running.folder)


def seen_of(script: Script) -> str:
    """What others can see of a task's child."""
    (child,) = readers(script)
    return repr(child.cmdline()) + repr(child.environ()) + repr([file.path for file in child.open_files()])


@pytest.mark.contract("R6", "F2", "F4")
@pytest.mark.parametrize(("user", "password"), [("quoted", CANARY), ("open", "")])
@pytest.mark.parametrize("ends", ["success", pytest.param("killed", marks=pytest.mark.slow)])
def test_a_password_is_in_no_evidence_log_argument_environment_or_file(
    guarded: RunningSandbox, warm: WarmAirflow, tmp_path: Path, user: str, password: str, ends: str
) -> None:
    """B19, with the child caught while it observes."""
    bench = Bench(sandbox=guarded, database=f"{user}_{ends}", folder=tmp_path)
    ask(guarded, f"CREATE DATABASE {bench.database} ENGINE = Atomic")
    bench.provision()
    bench.write(1)
    with TcpProxy(guarded.tcp_port) as native, TcpProxy(guarded.http_port) as http:
        watched = Watched(airflow=warm, bench=bench, native=native, http=http)
        held = native.rule("hold", match=watched.scan)
        script = watched.start(login=user, password=password)
        script.wait(held.fired.is_set)
        seen = seen_of(script)
        if ends == "killed":
            script.send(signal.SIGKILL)
        held.release()
        script.end()
        assert watched.xcom(KEY)["governance"] == ("complete" if ends == "success" else "blocked")
        evidence = json.dumps([watched.xcom(KEY), watched.xcom("return_value")])
        assert "AIRFLOW" not in seen
        if password:
            files = [path for folder in (tmp_path, warm.home.folder) for path in folder.rglob("*") if path.is_file()]
            assert password not in seen + evidence + script.said
            assert [path for path in files if password.encode() in path.read_bytes()] == []
        else:
            assert "***" not in evidence + script.said.replace("****", ""), "an empty secret must not mask everything"
