"""An append at the command line and in a task: real counters, no rollback claimed, the risk said (O4, X7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.cli import outcome_screen, plain
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import RunIdentity, failure_document
from dpone_provider.manifest.read import load_spec
from dpone_provider.operators.evidence import Evidence
from dpone_provider.operators.task_log import TaskLog
from dpone_provider.page.document import parse
from dpone_provider.page.view import Task, load_view
from dpone_provider.quality.failure import QualityGateFailure
from dpone_provider.quality.gates import QualityGateRunner
from dpone_provider.quality.verdicts import Probe
from dpone_provider.runtime.compose import Surroundings, operation_of
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from tests.cli.conftest import Desk
from tests.loads import OneEndpoint, endpoint_of
from tests.paths.bench import Appending
from tests.paths.wires import On

MANIFEST = """\
kind: dpone.batch.v1
defaults:
  name: add
  source: {{type: file, format: csv, path: source.csv}}
  sink:
    type: clickhouse
    connection_ref: wh
    table: {{schema: {database}, name: t}}
    strategy: {{mode: append}}
quality:
  gates: [{{id: some, type: min_rows, threshold: {least}}}]
  acceptance: {{enabled: true, mode: required, capture: {{staged: false}}}}
schemas:
  main: {{tables: [t]}}
"""
SECRETS = ("SELECT", "INSERT", "127.0.0.1", "n1")


@pytest.fixture
def adding(tmp_path: Path, capsys: pytest.CaptureFixture[str], sandbox: RunningSandbox, database: str) -> Desk:
    """A desk with a live table and three rows to add."""
    desk = Desk(folder=tmp_path, database=database, capture=capsys)
    Appending(sandbox=sandbox, database=database, folder=tmp_path).create()
    desk.write_csv("1,a", "2,b", "3,c")
    desk.connect(sandbox)
    write(desk)
    return desk


def write(desk: Desk, least: int = 1) -> None:
    Path(desk.manifest).write_text(MANIFEST.format(database=desk.database, least=least), encoding="utf-8")


@pytest.mark.contract("O1", "O2", "X4", "X10")
def test_a_success_says_what_was_added_and_observed(adding: Desk) -> None:
    adding.load()
    document = adding.load(run_id="r2").document
    result = document["result"]
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (3, 3, 6)
    metrics = result["details"]["reconciliation_metrics"]
    assert metrics["acceptance"]["kind"] == "dpone.acceptance.run_metrics.v1"
    shots = metrics["acceptance"]["snapshots"]
    assert {side: shot["kind"] for side, shot in shots.items()} == dict.fromkeys(
        ("source", "target"), "dpone.acceptance.metric_snapshot.v1"
    )
    assert result["details"]["governance_finalization"] == "legacy_post_finalize"
    assert document["effects"]["inserts"] == 1
    text = adding.load(run_id="r3", form="text").out
    assert "yes: the server has acknowledged them" in text
    assert "a retry adds the same rows again" in text


@pytest.mark.contract("O4", "Q10", "X7", "X8")
def test_a_gate_that_fails_afterwards_keeps_real_counters_and_promises_no_retry(adding: Desk) -> None:
    write(adding, least=4)
    ran = adding.load()
    assert ran.code == 1
    document, result = ran.document, ran.document["result"]
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (3, 3, None)
    assert document["attempts"] == 1
    assert document["error_code"] == "DPONE_QUALITY_GATES_FAILED"
    assert document["quality_gates"]["results"][0]["status"] == "failed"
    context = document["failure_context"]
    assert {name: context[name] for name in context if name not in ("next_step", "retryable")} == {
        "failure_boundary": "post_commit",
        "target_state": "mutation_returned_success",
        "checkpoint_state": "not_applicable",
        "source_state": "not_advanced",
        "retry_classification": "retry_may_repeat_target_mutation",
    }
    assert context["retryable"] is False
    assert not [secret for secret in SECRETS if secret in json.dumps(document["evidence"])]
    shown = adding.load(run_id="r2", form="text").err
    assert "yes: the server has acknowledged them" in shown
    assert "A retry may add the same rows again." in shown
    assert "a retry of this same operation is right" not in shown


@pytest.mark.contract("O4", "Q9")
def test_a_failure_of_the_old_constructor_says_what_it_always_said(adding: Desk) -> None:
    write(adding, least=4)
    spec = load_spec(adding.manifest)
    probe = Probe(row_count=3, typed_hash=None)
    failure = QualityGateFailure(QualityGateRunner().evaluate(spec.quality, probe, probe))
    document = failure_document(failure, spec, RunIdentity(run_id="r", dag_id="d", task_id="t"))
    assert set(document["failure_context"]) == {"failure_boundary", "retryable", "next_step"}
    assert (document["result"]["inserted_rows"], document["result"]["extracted_rows"]) == (0, 0)
    assert "target_commit" not in document["replay_details"]


@pytest.mark.contract("O4", "X7")
def test_an_interrupted_append_says_that_rows_may_be_there(adding: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpone_provider.load.direct.append_rows", interrupt)
    ran = adding.load()
    document = ran.document
    assert document["replay_details"]["target_commit"] == "unknown"
    assert document["failure_context"]["retryable"] is False
    assert "may add the same rows again" in document["failure_context"]["next_step"]
    shown = "\n".join(plain.lines(outcome_screen.outcome_screen(document)))
    assert "not known: none, some or all of them may be in the table" in shown


@pytest.mark.contract("O5", "X7")
def test_the_status_of_an_append_promises_no_free_retry(adding: Desk) -> None:
    ran = adding.status(form="text")
    assert ran.code == 0
    assert "a retry may add the same rows again" in ran.out


# -- the evidence of a task ------------------------------------------------------------------------------------------


class Log:
    """A task's logger."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, *arguments: Any) -> None:
        self.lines.append(text % arguments if arguments else text)

    warning = error = info


def try_once(
    desk: Desk, sandbox: RunningSandbox, wire: Any
) -> tuple[list[dict[str, Any]], list[str], DponeError | None]:
    """One run as the operator does it: what it pushed, what it logged, how it failed."""
    spec = load_spec(desk.manifest)
    identity = RunIdentity(run_id="r", dag_id="d", task_id="t")
    pushed: list[dict[str, Any]] = []
    evidence = Evidence(lambda key, document: pushed.append(document), lambda step, facts: None)
    evidence.about(operation_of(spec, identity), durable=False, observes=False, adds=True)
    log = Log()
    told = TaskLog(log, evidence.notify)
    around = Surroundings(notify=told.notify, wire=wire)
    try:
        outcome = run_load(spec, identity, OneEndpoint(where=endpoint_of(sandbox)), around)
    except DponeError as error:
        told.failed(error)
        evidence.failed(error)
        return pushed, log.lines, error
    told.succeeded(outcome)
    evidence.succeeded(outcome)
    return pushed, log.lines, None


@pytest.mark.contract("F4", "O4")
def test_the_evidence_of_an_append_never_says_more_than_is_true(adding: Desk, sandbox: RunningSandbox) -> None:
    pushed, lines, error = try_once(adding, sandbox, On("append", lambda: None))
    assert error is None
    said = {document["step"]: document["target_commit"] for document in pushed[:-1]}
    assert said == {"collect": "not_started", "append": "unknown", "appended": "proven"}
    assert pushed[-1]["governance"] == "complete"
    assert any("3 rows are live" in line and "generation none" in line for line in lines)
    shown = load_view(parse(pushed[-1]), Task(dag_id="d", run_id="r", task_id="t", state="success"))
    assert shown.live.word == "Yes, acknowledged"


@pytest.mark.contract("F4", "O4", "X7")
def test_the_evidence_of_a_dead_append_sends_nobody_into_a_blind_retry(adding: Desk, sandbox: RunningSandbox) -> None:
    write(adding, least=4)
    pushed, lines, error = try_once(adding, sandbox, On("append", lambda: None))
    assert error is not None
    assert "It is not retried by itself." in lines[-1]
    assert "A retry can finish this." not in lines[-1]
    ended = load_view(parse(pushed[-1]), Task(dag_id="d", run_id="r", task_id="t", state="failed"))
    assert "they are in the table" in ended.proof.text
    assert "may add the same rows again" in ended.todo.text
    dying = next(document for document in pushed if document["step"] == "append")
    died = load_view(parse(dying), Task(dag_id="d", run_id="r", task_id="t", state="failed"))
    assert died.live.word == "Not known"
    assert "may add the same rows again" in died.todo.text


@pytest.mark.contract("F8", "Q8")
def test_the_evidence_of_a_typed_hash_is_readable(adding: Desk, sandbox: RunningSandbox) -> None:
    """Its digests are no counts, and its page takes nothing else."""
    text = Path(adding.manifest).read_text(encoding="utf-8")
    text = text.replace("mode: append", "mode: full_refresh")
    text = text.replace("type: min_rows, threshold: 1", "type: typed_hash_reconciliation")
    Path(adding.manifest).write_text(text, encoding="utf-8")
    pushed, _, error = try_once(adding, sandbox, On("append", lambda: None))
    assert error is None
    assert [gate.status for gate in parse(pushed[-1]).gates] == ["passed"]
