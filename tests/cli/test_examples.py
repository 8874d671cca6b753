"""The shipped examples do for real what they say: the batch loads, the flow that says the same finishes it (M15)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.cli.conftest import Desk
from tests.sandbox_fixture import ask

EXAMPLES = Path(__file__).parents[2] / "dags_examples"
NAME = "durable-replay-full-refresh"
BATCH, FLOW = f"{NAME}.batch.dpone.yaml", f"{NAME}.flow.dpone.yaml"


@pytest.fixture
def examples(desk: Desk, sandbox: RunningSandbox) -> Desk:
    """The examples, copied, their target in the test's own database."""
    shutil.copytree(EXAMPLES, desk.folder, dirs_exist_ok=True)
    for path in [*desk.folder.glob("*.dpone.yaml"), *(desk.folder / "steps").iterdir()]:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("schema: demo", f"schema: {desk.database}"), encoding="utf-8")
    fields = json.loads(Path(desk.connections).read_text(encoding="utf-8"))
    Path(desk.connections).write_text(json.dumps({"dpone_demo": fields["wh"]}), encoding="utf-8")
    return desk


@pytest.mark.contract("M14", "M15", "I1", "P7", "O3")
def test_the_batch_example_loads_and_the_flow_example_finishes_the_same_operation(
    examples: Desk, sandbox: RunningSandbox
) -> None:
    identity = ("--dag-id", "replay_demo", "--run-id", "demo_001", "--task-id", "refresh")
    places = ("--connections", examples.connections, "--format", "json")
    batch = examples.dpone("run", str(examples.folder / BATCH), "--selector", "source.records", *identity, *places)
    assert batch.code == 0, batch
    details = batch.document["result"]["details"]
    assert details["reconciliation_metrics"]["acceptance"]["snapshots"]["target"]["row_count"] == 80
    (examples.folder / "replay_records.csv").unlink()
    flow = examples.dpone("run", str(examples.folder / FLOW), "--selector", "refresh", *identity, *places)
    assert flow.code == 0, flow
    again = flow.document["result"]["details"]
    assert (again["operation_id"], again["replayed"]) == (details["operation_id"], True)
    assert flow.document["result"]["inserted_rows"] == 0
    replay = again["reconciliation_metrics"]["quality_replay"]
    assert replay["kind"] == "dpone.quality.replay.result.v2"
    assert replay["replayed_from"]["run_id"] == "demo_001"
    assert ask(sandbox, f"SELECT count() FROM {examples.database}.replay_records") == [(80,)]


@pytest.mark.contract("M15", "Q1")
def test_the_example_of_gates_passes_them_all_on_its_staged_rows(examples: Desk, sandbox: RunningSandbox) -> None:
    path = str(examples.folder / "gates-on-staged-records.dpone.yaml")
    ran = examples.dpone("run", path, "--connections", examples.connections, "--format", "json")
    assert ran.code == 0, ran
    gates = ran.document["result"]["details"]["reconciliation_metrics"]["quality_gates"]["results"]
    assert {gate["gate_id"]: gate["status"] for gate in gates} == dict.fromkeys(
        ("rows", "values", "keys", "told", "known", "recent", "refunds"), "passed"
    )
    assert ask(sandbox, f"SELECT count() FROM {examples.database}.gated_records") == [(80,)]


@pytest.mark.contract("M15", "X4")
def test_the_example_of_append_adds_what_is_new(examples: Desk, sandbox: RunningSandbox) -> None:
    path = examples.folder / "append-new-records.dpone.yaml"
    comment = "".join(
        line.removeprefix("#") for line in path.read_text(encoding="utf-8").splitlines() if "#   " in line
    )
    ask(sandbox, comment.replace("demo.", f"{examples.database}."))
    places = ("--connections", examples.connections)
    made = examples.dpone("provision", str(path), *places, "--load-tables", "--apply")
    assert made.code == 0, made

    def added() -> int:
        ran = examples.dpone("run", str(path), *places, "--format", "json")
        assert ran.code == 0, ran
        return int(ran.document["result"]["inserted_rows"])

    assert (added(), added()) == (80, 0)
    with (examples.folder / "replay_records.csv").open("a", encoding="utf-8") as source:
        source.write("81,new,1.00,2026-05-01T00:00:00Z\n")
    assert added() == 1
    assert ask(sandbox, f"SELECT count() FROM {examples.database}.appended_records") == [(81,)]
