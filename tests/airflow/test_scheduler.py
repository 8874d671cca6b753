"""Real tasks of a real Airflow: a scheduler's retry, clears, "mark as failed", the form's test button (F3, F4, F6)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.demo.stack import AirflowStack
from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench
from tests.sandbox_fixture import ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE = 90.0
MANIFEST = """
kind: dpone.batch.v1
defaults:
  source: {{type: file, format: csv}}
  sink:
    type: clickhouse
    connection_ref: ch
    table: {{schema: {database}}}
    strategy: {{mode: full_refresh, max_source_bytes: 1000000}}
    columns: {{id: UInt64, name: String}}
    options:
      durable_quality_replay: true
      physical_design: {{storage: {{clickhouse: {{engine: MergeTree, order_by: [id]}}}}}}
quality:
  gates: [{{id: some, type: min_rows, threshold: 1}}]
schemas:
  here:
    tables:
      - {{table: killed, overrides: {{source: {{path: killed/source.csv}}}}}}
      - {{table: plain, overrides: {{source: {{path: plain/source.csv}}}}}}
      - {{table: held, overrides: {{source: {{path: held/source.csv}}}}}}
"""
DAGS = '''
import os, signal, time
from datetime import datetime, timedelta
from pathlib import Path
from airflow.providers.common.compat.sdk import DAG
from dpone_provider.operators.load import DponeLoadOperator

HERE = Path(__file__).parent

class Killed(DponeLoadOperator):
    """Its first try is lost between commit and completion, and the source with it."""
    def notify(self, step, facts):
        source = HERE / "killed/source.csv"
        if step == "complete" and source.exists():
            source.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

class Held(DponeLoadOperator):
    """Waits with a staged generation until Airflow kills the task; `execute` then goes on."""
    def notify(self, step, facts):
        if step == "verify":
            (HERE / "held/waits").touch()
            deadline = time.monotonic() + 60
            while not self.killed and time.monotonic() < deadline:
                time.sleep(0.05)
        if step in ("seal", "permit", "publish"):
            (HERE / "held/went_on").touch()

for name, operator in {"killed": Killed, "plain": DponeLoadOperator, "held": Held}.items():
    again = {"retries": 1, "retry_delay": timedelta(0)}
    with DAG(name, start_date=datetime(2026, 1, 1), schedule=None, default_args=again):
        operator(manifest="loads.dpone.yaml", process=f"here.{name}", task_id="load")
'''


@attrs.frozen(kw_only=True)
class Stand:
    """An Airflow and a database; every DAG loads the table of its name."""

    airflow: AirflowStack
    sandbox: RunningSandbox
    database: str

    def bench(self, name: str) -> Bench:
        """What is true on the server of the table of DAG ``name``, and its source."""
        return Bench(sandbox=self.sandbox, database=self.database, folder=self.dags / name, table=name)

    @property
    def dags(self) -> Path:
        return self.airflow.home / "dags"

    def start(self, name: str) -> None:
        """Give the DAG a source and trigger it."""
        self.bench(name).write(1)
        until(lambda: self.airflow.ask("PATCH", f"/api/v2/dags/{name}", {"is_paused": False}))
        self.airflow.ask("POST", f"/api/v2/dags/{name}/dagRuns", {"dag_run_id": "r1", "logical_date": None})

    def state(self, name: str) -> str | None:
        """The run's state once it has ended; a task that is cleared earlier is forgotten by the scheduler."""
        found = self.airflow.ask("GET", f"/api/v2/dags/{name}/dagRuns/r1")["state"]
        return found if found in ("success", "failed") else None

    def tries(self, name: str) -> list[tuple[int, str]]:
        found = self.airflow.ask("GET", f"{self._task(name)}/tries")["task_instances"]
        return [(one["try_number"], one["state"]) for one in found]

    def summary(self, name: str) -> dict[str, Any]:
        found = self.airflow.ask("GET", f"{self._task(name)}/xcomEntries/return_value?deserialize=true")["value"]
        return dict(found if isinstance(found, dict) else json.loads(found))

    def clear(self, name: str) -> None:
        body = {"dag_run_id": "r1", "task_ids": ["load"], "dry_run": False, "only_failed": False}
        self.airflow.ask("POST", f"/api/v2/dags/{name}/clearTaskInstances", body)

    def fail(self, name: str) -> None:
        self.airflow.ask("PATCH", self._task(name), {"new_state": "failed"})

    def _task(self, name: str) -> str:
        return f"/api/v2/dags/{name}/dagRuns/r1/taskInstances/load"


def until(found: Callable[[], Any]) -> Any:
    """What ``found`` answers once that is true; an Airflow that cannot answer yet is asked again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if answer := found():
                return answer
        except OSError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            pytest.fail("it did not come about")
        time.sleep(0.3)


@pytest.fixture(scope="module")
def stand(sandbox: RunningSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    home = tmp_path_factory.mktemp("scheduler")
    name = f"t_{secrets.token_hex(6)}"
    ask(sandbox, f"CREATE DATABASE {name} ENGINE = Atomic")
    Bench(sandbox=sandbox, database=name, folder=home).provision()
    for table in ("killed", "plain", "held"):
        (home / "dags" / table).mkdir(parents=True)
    (home / "dags" / "loads.dpone.yaml").write_text(MANIFEST.format(database=name), encoding="utf-8")
    (home / "dags" / "loads.py").write_text(DAGS, encoding="utf-8")
    environ = {"AIRFLOW_CONN_CH": connection_json(sandbox), "AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    try:
        with AirflowStack(home, environ) as airflow:
            yield Stand(airflow=airflow, sandbox=sandbox, database=name)
    finally:
        ask(sandbox, f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.mark.contract("F3", "P7", "I3")
def test_a_schedulers_retry_finishes_what_a_killed_worker_committed(stand: Stand) -> None:
    """Field report B14's kind: the worker is gone by SIGKILL, and so is the source."""
    stand.start("killed")
    assert until(lambda: stand.state("killed")) == "success"
    assert stand.tries("killed") == [(1, "failed"), (2, "success")]
    bench, summary = stand.bench("killed"), stand.summary("killed")
    assert (summary["replayed"], summary["attempts"], summary["final_rows"]) == (True, 2, 5)
    assert (summary["extracted_rows"], summary["inserted_rows"]) == (0, 0)
    assert [entry.publications for entry in bench.record().history if entry.attempt == 2] == [0, 0, 0]
    assert (bench.live(), bench.ids()) == (summary["generation"], [1, 2, 3, 4, 5])
    assert bench.private() == []


@pytest.mark.contract("F3")
def test_clearing_a_succeeded_task_replays_its_receipt(stand: Stand) -> None:
    """Field report B27: nothing of the first run is needed any more."""
    stand.start("plain")
    assert until(lambda: stand.state("plain")) == "success"
    first, live = stand.summary("plain"), stand.bench("plain").live()
    (stand.dags / "plain" / "source.csv").unlink()
    stand.clear("plain")
    assert until(lambda: (2, "success") in stand.tries("plain"))
    second = stand.summary("plain")
    assert (first["replayed"], second["replayed"], second["inserted_rows"]) == (False, True, 0)
    assert (second["operation_id"], second["generation"]) == (first["operation_id"], first["generation"])
    assert stand.bench("plain").live() == live


@pytest.mark.contract("F4")
def test_a_running_task_that_is_marked_failed_publishes_nothing_and_gives_the_slot_back(stand: Stand) -> None:
    """Airflow sends SIGTERM, calls `on_kill` and lets `execute` go on."""
    stand.start("held")
    until(lambda: (stand.dags / "held" / "waits").exists())
    stand.fail("held")
    bench = stand.bench("held")
    until(lambda: bench.record().phase == "REJECTED")
    assert bench.record().owner == ""
    until(lambda: bench.private() == [])
    assert bench.live() is None
    assert not (stand.dags / "held" / "went_on").exists()
    assert until(lambda: stand.state("held")) == "failed"
    assert stand.tries("held") == [(1, "failed")]


@pytest.mark.contract("F6", "F2")
def test_the_test_button_of_the_connection_form_signs_in_and_tells_no_secret(stand: Stand) -> None:
    good = {**json.loads(connection_json(stand.sandbox)), "connection_id": "tried"}
    good["extra"] = json.dumps(good["extra"])
    passed = stand.airflow.ask("POST", "/api/v2/connections/test", good)
    refused = stand.airflow.ask("POST", "/api/v2/connections/test", {**good, "password": "p@ss'w/rd"})
    assert (passed["status"], refused["status"]) == (True, False)
    assert "DPONE_SERVER_AUTHENTICATION" in refused["message"]
    assert "p@ss" not in refused["message"]


@pytest.mark.contract("F2")
def test_no_file_of_airflow_holds_the_servers_password(stand: Stand) -> None:
    """Field report B19: logs, XCom and rendered fields of everything that ran in this Airflow."""
    secret = stand.sandbox.password.encode()
    files = [path for path in stand.airflow.home.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path.name for path in files if secret in path.read_bytes()] == []
