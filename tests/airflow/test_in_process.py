"""The operator in a real Airflow, in process: retries, clears, final errors, mapped tasks, secrets (F2–F4, F8, I1)."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.runtime.compose import operation_of
from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.warm import WarmAirflow
from tests.loads import Bench
from tests.sandbox_fixture import ask

# The operator whose wire can be made to fail once, and which tells what its tries did.
OPERATOR = '''
class Told(DponeLoadOperator):
    """Dies at a step of its first try: nothing that it would do after it happens."""
    def execute(self, context):
        self.number = context["ti"].try_number
        return super().execute(context)
    def notify(self, step, facts):
        with open(os.environ["STEPS"], "a") as steps:
            steps.write(json.dumps([self.number, step]) + "\\n")
        if self.number == 1 and step == os.environ.get("DIE_AT"):
            raise RuntimeError("the worker is lost")

def make(task=Told, **changes):
    values = json.loads(os.environ["LOAD"])
    with DAG(os.environ["DAG_ID"], start_date=datetime.datetime(2026, 1, 1), schedule=None,
             default_args={"retries": 1, "retry_delay": datetime.timedelta(0)}) as dag:
        task(**{"process": "refresh", **values, **changes})
    return dag
'''


@attrs.frozen(kw_only=True)
class Desk:
    """A bench and an Airflow; ``dag(script)`` runs a script with ``make()`` and ``run_dag``."""

    airflow: WarmAirflow
    bench: Bench

    def inline(self, **sink: Any) -> dict[str, Any]:
        """The load of the bench as the operator's inline arguments."""
        return {
            "source": {"type": "file", "format": "csv", "path": "source.csv"},
            "sink": {
                "type": "clickhouse",
                "connection_ref": "ch",
                "table": {"schema": self.bench.database, "name": self.bench.table},
                "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
                "columns": {"id": "UInt64", "name": "String"},
                "options": {
                    "durable_quality_replay": True,
                    "physical_design": {"storage": {"clickhouse": {"engine": "MergeTree", "order_by": ["id"]}}},
                },
                **sink,
            },
            "quality": {"gates": [{"id": "some", "type": "min_rows", "threshold": 1}]},
        }

    def run(self, script: str, *, load: dict[str, Any] | None = None, **environ: str) -> tuple[Any, str]:
        folder = self.bench.folder
        started = self.airflow.start(
            OPERATOR + textwrap.dedent(script),
            folder,
            AIRFLOW_CONN_CH=connection_json(self.bench.sandbox),
            LOAD=json.dumps(load or self.inline()),
            FOLDER=str(folder),
            DAG_ID=self.bench.database,
            STEPS=str(folder / "steps.jsonl"),
            **environ,
        )
        return started.answer(), started.said

    def steps(self, number: int) -> list[str]:
        lines = (self.bench.folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
        return [step for found, step in map(json.loads, lines) if found == number]


@pytest.fixture
def desk(sandbox: RunningSandbox, database: str, tmp_path: Path, warm: WarmAirflow) -> Desk:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    bench.write(1)
    return Desk(airflow=warm, bench=bench)


ONCE = """
dag = make()
run, states = run_dag(dag)
found = xcom(run, "refresh") if str(run.state) == "success" else None
out({"states": list(states.values()), "xcom": found, "run_id": run.run_id})
"""


@pytest.mark.contract("F2", "F8")
def test_a_task_loads_and_leaves_a_small_strict_summary(desk: Desk) -> None:
    """Field report B18."""
    found, said = desk.run(ONCE)
    assert found["states"] == [["success", 1]]
    assert desk.bench.ids() == [1, 2, 3, 4, 5]
    summary = found["xcom"]
    assert (summary["final_rows"], summary["target_commit"], summary["replayed"]) == (5, "proven", False)
    assert len(json.dumps(summary)) < 2_000
    assert desk.bench.sandbox.password not in said


@pytest.mark.contract("F3", "P7", "I3")
def test_a_retry_finishes_what_a_lost_try_committed_and_repeats_nothing(desk: Desk) -> None:
    found, _ = desk.run(ONCE, DIE_AT="complete")
    assert found["states"] == [["success", 2]]
    assert (found["xcom"]["replayed"], found["xcom"]["attempts"]) == (True, 2)
    assert (found["xcom"]["extracted_rows"], found["xcom"]["inserted_rows"], found["xcom"]["final_rows"]) == (0, 0, 5)
    second = desk.steps(2)
    assert not {"stage", "create", "rows", "seal", "permit", "publish"} & set(second), second
    assert [entry.publications for entry in desk.bench.record().history if entry.attempt == 2] == [0, 0, 0]
    assert desk.bench.private() == []


@pytest.mark.contract("F3")
def test_a_retry_after_a_failure_before_the_commit_starts_again(desk: Desk) -> None:
    """Field report B28."""
    found, _ = desk.run(ONCE, DIE_AT="seal")
    assert found["states"] == [["success", 2]]
    assert (found["xcom"]["replayed"], found["xcom"]["extracted_rows"]) == (False, 5)
    assert desk.bench.private() == []


@pytest.mark.contract("F3")
def test_clearing_a_succeeded_task_replays_its_receipt(desk: Desk) -> None:
    """Field report B27: no artefact is needed, the source is gone."""
    found, _ = desk.run(
        """
        dag = make()
        run, _ = run_dag(dag)
        first = xcom(run, "refresh")
        os.unlink(os.environ["FOLDER"] + "/source.csv")
        again, states = run_dag(dag)  # clears the task of the same run, and runs it again
        second = xcom(again, "refresh")
        same = again.run_id == run.run_id
        out({"same": same, "states": list(states.values()), "first": first, "second": second})
        """
    )
    assert found["same"]
    assert found["states"][0][0] == "success"
    assert (found["first"]["replayed"], found["second"]["replayed"]) == (False, True)
    assert found["second"]["generation"] == found["first"]["generation"]


@pytest.mark.contract("F4")
def test_a_final_error_is_not_retried_and_nothing_downstream_runs(desk: Desk) -> None:
    (desk.bench.folder / "source.csv").write_text("id,name\n", encoding="utf-8")
    found, said = desk.run(
        """
        from airflow.providers.common.compat.sdk import task
        with make() as dag:
            @task
            def after(): pass
            dag.get_task("refresh") >> after()
        run, states = run_dag(dag)
        out({task: state for (task, _), state in states.items()})
        """
    )
    assert found["refresh"] == ["failed", 1]
    assert found["after"][0] == "upstream_failed"
    assert "DPONE_QUALITY_GATES_FAILED" in said


@pytest.mark.contract("F4", "G7")
def test_on_kill_stops_before_the_next_step(desk: Desk) -> None:
    """Airflow goes on with ``execute`` after ``on_kill``: nothing may be published any more."""
    found, _ = desk.run(
        """
        class Killed(Told):
            def notify(self, step, facts):
                super().notify(step, facts)
                if step == "seal":
                    self.on_kill()
        dag = make(Killed)
        run, states = run_dag(dag)
        out(list(states.values()))
        """
    )
    assert found == [["success", 2]]
    assert not {"permit", "publish", "complete"} & set(desk.steps(1)), "the killed try stopped before its next step"
    assert "stage" not in desk.steps(2), "the retry goes on with what was sealed"
    assert desk.bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("I1")
def test_airflow_and_the_command_line_name_the_same_operation(desk: Desk) -> None:
    """Whatever the connection is called where it runs."""
    script = ONCE.replace("make()", 'make(connections={"warehouse": "ch"})')
    found, _ = desk.run(script, load=desk.inline(connection_ref="warehouse"))
    identity = attrs.evolve(
        desk.bench.identity(), dag_id=desk.bench.database, run_id=found["run_id"], task_id="refresh"
    )
    assert operation_of(desk.bench.spec(), identity).operation_id == found["xcom"]["operation_id"]


@pytest.mark.contract("F7")
def test_mapped_tasks_are_operations_of_their_own(desk: Desk) -> None:
    ask(desk.bench.sandbox, f"CREATE DATABASE IF NOT EXISTS {desk.bench.database} ENGINE = Atomic")
    found, _ = desk.run(
        """
        values = json.loads(os.environ["LOAD"])
        sinks = [{**values["sink"], "table": {**values["sink"]["table"], "name": name}} for name in ("m0", "m1")]
        with DAG(os.environ["DAG_ID"], start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
            fixed = {"task_id": "refresh", "source": values["source"], "quality": values["quality"]}
            DponeLoadOperator.partial(**fixed).expand(sink=sinks)
        run, states = run_dag(dag)
        out([xcom(run, "refresh", index) for index in (0, 1)])
        """
    )
    assert [one["target"].rsplit(".")[-1] for one in found] == ["m0", "m1"]
    assert found[0]["operation_id"] != found[1]["operation_id"]


@pytest.mark.contract("F2")
@pytest.mark.parametrize("password", ["p@ss'w/rd", ""])
def test_no_secret_reaches_a_log_an_xcom_or_a_rendered_field(desk: Desk, password: str) -> None:
    """Field report B19: a refused login, with a password that breaks quoting and with none at all."""
    connection = {**json.loads(connection_json(desk.bench.sandbox)), "password": password}
    environ = {"AIRFLOW_CONN_WRONG": json.dumps(connection)}
    load = desk.inline(connection_ref="wrong")
    found, said = desk.run(
        """
        dag = make()
        run, states = run_dag(dag)
        out(list(states.values()))
        """,
        load=load,
        **environ,
    )
    assert found == [["failed", 1]]
    assert "DPONE_SERVER_AUTHENTICATION" in said
    if password:
        files = [path for path in desk.airflow.home.folder.rglob("*") if path.is_file()]
        assert password not in said
        assert not [path for path in files if password.encode() in path.read_bytes()]
    else:
        assert "***" not in said.replace("****", ""), "an empty secret must not mask everything"


@pytest.mark.contract("F3", "F4", "X7")
@pytest.mark.parametrize(
    ("step", "states", "rows"), [("collect", [["success", 2]], 5), ("appended", [["failed", 1]], 5)]
)
def test_airflow_tries_an_append_again_only_while_no_row_was_sent(
    desk: Desk, step: str, states: list[Any], rows: int
) -> None:
    ask(
        desk.bench.sandbox,
        f"CREATE TABLE {desk.bench.database}.t (id UInt64, name String) ENGINE = MergeTree ORDER BY id",
    )
    load = desk.inline(strategy={"mode": "append"}, columns={}, options={})
    found, said = desk.run(ONCE, load=load, DIE_AT=step)
    assert found["states"] == states
    assert len(desk.bench.ids()) == rows
    if states[0][0] == "failed":
        assert "A retry may add the same rows again." in said
