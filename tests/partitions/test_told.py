"""What a task says while partitions move: its log, and the evidence that a person looks at."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.operation import operation_of
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.operators.evidence import Evidence
from dpone_provider.operators.task_log import TaskLog
from dpone_provider.page.document import parse
from dpone_provider.page.view import Task, load_view
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from tests.cli.test_append import Log
from tests.loads import OneEndpoint, endpoint_of
from tests.partitions.bench import Parts
from tests.partitions.disk import committed
from tests.partitions.test_replace import Nth

IDENTITY = RunIdentity(dag_id="dag", run_id="r1", task_id="parts")


@attrs.frozen
class Tried:
    pushed: list[dict[str, Any]]
    lines: list[str]
    error: DponeError | None

    def shown(self, state: str) -> Any:
        return load_view(parse(self.pushed[-1]), Task(dag_id="dag", run_id="r1", task_id="parts", state=state))


def tried(bench: Parts, spec: LoadSpec, **around: Any) -> Tried:
    """One run as the operator does it."""
    pushed: list[dict[str, Any]] = []
    evidence = Evidence(lambda key, document: pushed.append(document), lambda step, facts: None)
    evidence.about(operation_of(spec, IDENTITY), durable=False, observes=False, resumes=True)
    log = Log()
    told = TaskLog(log, evidence.notify)
    surroundings = Surroundings(notify=told.notify, **around)
    try:
        outcome = run_load(spec, IDENTITY, OneEndpoint(where=endpoint_of(bench.sandbox)), surroundings)
    except DponeError as error:
        told.failed(error)
        evidence.failed(error)
        return Tried(pushed, log.lines, error)
    told.succeeded(outcome)
    evidence.succeeded(outcome)
    return Tried(pushed, log.lines, None)


@pytest.mark.contract("F4", "O4")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_a_task_tells_partitions_as_they_move_and_that_a_retry_only_validates(bench: Parts, mode: str) -> None:
    first = tried(bench, bench.spec(mode))
    assert any(line.startswith("Moved 4 of 4 partitions, 40 rows") for line in first.lines)
    assert first.shown("success").live.word == "Yes, committed"
    assert "a retry validates" in first.shown("success").proof.text
    again = tried(bench, bench.spec(mode))
    assert "Everything is committed: validating it" in again.lines
    assert any("finished an earlier attempt" in line for line in again.lines)
    assert again.pushed[-1]["target_commit"] == "proven"


@pytest.mark.contract("F4")
def test_the_evidence_is_kept_at_steps_and_not_at_every_partition(bench: Parts) -> None:
    steps = [document["step"] for document in tried(bench, bench.spec("partition_replace")).pushed]
    assert steps.count("replace") <= 2, "its beginning, and the last word"
    assert "partition" not in steps


@pytest.mark.contract("F4", "O4", "X7")
def test_a_lost_replacement_claims_neither(bench: Parts) -> None:
    died = tried(bench, bench.spec("partition_replace"), wire=Nth(2, applied=False))
    assert died.pushed[-1]["target_commit"] == "unknown"
    assert died.shown("failed").live.word == "Not known"
    assert "A retry can finish this." in died.lines[-1]


@pytest.mark.contract("N5", "X7")
def test_a_checkpoint_that_is_not_durable_after_the_switch_claims_the_switch(bench: Parts) -> None:
    died = tried(bench, bench.spec(), files=committed(1))
    assert (died.pushed[-1]["target_commit"], died.pushed[-1]["governance"]) == ("proven", "blocked")


@pytest.mark.contract("F4")
def test_the_log_tells_the_time_left_once_a_partition_is_there() -> None:
    log, now = Log(), iter([0.0, 10.0, 20.0, 20.0, 20.0, 20.0])
    told = TaskLog(log, lambda step, facts: None, clock=lambda: next(now))
    told.notify("partition", {"partitions": 1, "planned": 4, "rows": 10, "bytes": 5_000_000})
    assert log.lines == ["Moved 1 of 4 partitions, 10 rows, 5.0 MB, about 30 s left"]
