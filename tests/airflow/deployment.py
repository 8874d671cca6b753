"""A running Airflow whose DAGs load tables, each through a wire of its own: scenes to be played through REST."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from dpone_provider.clickhouse import quote
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.demo.stack import AirflowStack
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.watched import CHILD, inline
from tests.loads import Bench
from tests.sandbox_fixture import ask
from tests.wirelab import Rule, TcpProxy

PATIENCE = 90.0

# Every scene is a DAG of its own: load >> after. What the scene has beyond that stands in its options.
DAGS = """
import json
from datetime import datetime, timedelta
from pathlib import Path
from airflow.providers.common.compat.sdk import DAG, Asset
try:
    from airflow.providers.standard.operators.empty import EmptyOperator
except ImportError:  # Airflow 2.11
    from airflow.operators.empty import EmptyOperator
from dpone_provider.operators.load import DponeLoadOperator

HERE = Path(__file__).parent
for file in sorted(HERE.glob("*/scene.json")):
    name, scene = file.parent.name, json.loads(file.read_text())
    seconds = scene.get("timeout")
    task = {
        "retries": scene.get("retries", 1),
        "retry_delay": timedelta(seconds=scene.get("delay", 0)),
        "execution_timeout": timedelta(seconds=seconds) if seconds else None,
    }
    dated = {"schedule": None}
    if scene.get("daily"):
        dated = {"schedule": "@daily", "catchup": False, "end_date": datetime(2026, 1, 10)}
    with DAG(name, start_date=datetime(2026, 1, 1), doc_md=scene.get("doc"), **dated):
        sources = scene["load"].pop("sources", None)
        outlets = [Asset(f"dpone://{name}")]
        fixed = {"task_id": "load", "outlets": outlets, **scene["load"], **task}
        if sources is None:
            loaded = DponeLoadOperator(**fixed)
        else:
            fixed.pop("source")
            loaded = DponeLoadOperator.partial(**fixed).expand(source=sources)
        loaded >> EmptyOperator(task_id="after")
"""


def until(found: Callable[[], Any], within: float = PATIENCE) -> Any:
    """What ``found`` answers once that is true; an Airflow that cannot answer yet is asked again."""
    deadline = time.monotonic() + within
    while True:
        try:
            if answer := found():
                return answer
        except OSError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            pytest.fail("it did not come about")
        time.sleep(0.2)


@attrs.frozen(kw_only=True)
class Scene:
    """One DAG, its table, its source and its wire. ``native`` carries the child's words too."""

    airflow: AirflowStack
    bench: Bench
    native: TcpProxy
    http: TcpProxy

    @property
    def name(self) -> str:
        return self.bench.table

    def write(self, first: int = 1, rows: int = 5) -> None:
        self.bench.write(first, rows)

    def direct(self, **changes: Any) -> None:
        """(Re)write what the DAG is: options of DAGS, or fields of its load."""
        load = inline(self.bench)
        load["sink"]["connection_ref"] = f"ch_{self.name}"
        load["source"]["path"] = f"{self.name}/source.csv"
        load |= changes.pop("load", {})
        (self.bench.folder / "scene.json").write_text(json.dumps({"load": load, **changes}), encoding="utf-8")

    def start(self, run: str = "r1") -> None:
        """Give the DAG a run."""
        until(lambda: self._ask("PATCH", "", {"is_paused": False}))
        self._ask("POST", "/dagRuns", {"dag_run_id": run, "logical_date": None})

    def hold(self, where: str) -> Rule:
        """Hold the statement back that does ``where``: insert, cas, complete, observe."""
        if where == "insert":
            return self.http.rule("hold", match=b"INSERT")
        scan = f"{quote.table(self.bench.database, self.name)} AS dpone_g".encode()
        match = {"cas": b"'DISPATCHING'", "complete": b"'COMPLETE'", "observe": scan}[where]
        return self.native.rule("hold", match=match)

    def runner(self) -> psutil.Process:
        """The process of the task that runs."""
        found = [one for one in psutil.Process().children(recursive=True) if _talks(one, self.native.port)]
        (runner,) = [one for one in found if not observes(one)]
        return runner

    def child(self) -> psutil.Process:
        """The child that observes."""
        (child,) = [one for one in self.runner().children() if observes(one)]
        return child

    # -- what people do ------------------------------------------------------------------------------------------

    def fail(self, run: str = "r1") -> None:
        """Mark the task as failed."""
        self._ask("PATCH", f"/dagRuns/{run}/taskInstances/load", {"new_state": "failed"})

    def clear(self, run: str = "r1") -> None:
        """Clear the task, and what comes after it."""
        body = {"dag_run_id": run, "task_ids": ["load"], "dry_run": False, "only_failed": False}
        self._ask("POST", "/clearTaskInstances", {**body, "include_downstream": True, "reset_dag_runs": True})

    def clear_run(self, run: str = "r1") -> None:
        self._ask("POST", f"/dagRuns/{run}/clear", {"dry_run": False, "only_failed": False})

    def backfill(self, again: str) -> None:
        """Run one day; ``again``: what becomes of a run that is there already."""
        day = {"from_date": "2026-01-05T00:00:00Z", "to_date": "2026-01-05T00:00:00Z"}
        until(lambda: self._ask("PATCH", "", {"is_paused": False}))
        body = {"dag_id": self.name, **day, "reprocess_behavior": again, "max_active_runs": 1, "run_backwards": False}
        until(lambda: self.airflow.ask("POST", "/api/v2/backfills", {**body, "dag_run_conf": {}}))  # one at a time

    # -- what Airflow says ---------------------------------------------------------------------------------------

    def state(self, run: str = "r1") -> str | None:
        """The run's state once it has ended; a task that is cleared earlier is forgotten by the scheduler."""
        found = self._ask("GET", f"/dagRuns/{run}")["state"]
        return found if found in ("success", "failed") else None

    def ended(self, run: str = "r1") -> str:
        return str(until(lambda: self.state(run)))

    def runs(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/dagRuns")["dag_runs"])

    def tries(self, run: str = "r1", index: int = -1) -> list[str]:
        """The states of the tries, in order."""
        place = f"/dagRuns/{run}/taskInstances/load" + (f"/{index}" if index >= 0 else "") + "/tries"
        return [one["state"] for one in self._ask("GET", place)["task_instances"]]

    def after(self, run: str = "r1") -> str | None:
        """The state of the task behind the load."""
        found = self._ask("GET", f"/dagRuns/{run}/taskInstances/after")["state"]
        return str(found) if found else None

    def xcom(self, key: str = "return_value", run: str = "r1", index: int = -1) -> dict[str, Any]:
        place = f"/dagRuns/{run}/taskInstances/load/xcomEntries/{key}?deserialize=true&map_index={index}"
        value = self._ask("GET", place)["value"]
        return dict(json.loads(value) if isinstance(value, str) else value)

    def events(self) -> list[dict[str, Any]]:
        """The asset events of the load."""
        found = self.airflow.ask("GET", f"/api/v2/assets/events?source_dag_id={self.name}")
        return list(found["asset_events"])

    # -- what is true --------------------------------------------------------------------------------------------

    @property
    def capsule(self) -> str:
        """The state of the sealed proof."""
        return QualityReplayCapsule.parse(self.bench.record().capsule or "").state

    @property
    def reads(self) -> int:
        """Readings of the source that were begun, by Airflow's own logs."""
        logs = (self.airflow.home / "logs" / f"dag_id={self.name}").rglob("*.log")
        return sum(log.read_text(encoding="utf-8").count("Staging a new generation") for log in logs)

    @property
    def publications(self) -> int:
        """Switches of the table, by the authority's history."""
        counted: dict[tuple[str, int], int] = {}
        for entry in self.bench.record().history:
            key = (entry.operation_id, entry.attempt)
            counted[key] = max(counted.get(key, 0), entry.publications)
        return sum(counted.values())

    @property
    def inserts(self) -> int:
        """Inserts that left for the server."""
        return self.http.seen(b"INSERT+INTO")

    def _ask(self, method: str, place: str, body: dict[str, Any] | None = None) -> Any:
        return self.airflow.ask(method, f"/api/v2/dags/{self.name}{place}", body)


def observes(process: psutil.Process) -> bool:
    """Is this a child that observes?"""
    try:
        return CHILD in process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return False


def _talks(process: psutil.Process, port: int) -> bool:
    try:
        return any(one.raddr and one.raddr.port == port for one in process.net_connections(kind="tcp"))
    except psutil.Error:
        return False


@contextmanager
def deployed(
    sandbox: RunningSandbox,
    home: Path,
    scenes: Mapping[str, Mapping[str, Any]],
    database: str = "",
    stack: Callable[[Path, Mapping[str, str]], AirflowStack] = AirflowStack,
) -> Iterator[dict[str, Scene]]:
    """Start an Airflow with these scenes; the options are those of ``direct``. ``database``: theirs, "" = a new one."""
    database = database or f"t_{secrets.token_hex(6)}"
    ask(sandbox, f"CREATE DATABASE {database} ENGINE = Atomic")
    Bench(sandbox=sandbox, database=database, folder=home).provision()
    connection, environ = json.loads(connection_json(sandbox)), {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    ways: list[tuple[Bench, TcpProxy, TcpProxy]] = []
    with ExitStack() as kept:
        kept.callback(ask, sandbox, f"DROP DATABASE IF EXISTS {database} SYNC")
        for name in scenes:
            folder = home / "dags" / name
            folder.mkdir(parents=True)
            native = kept.enter_context(TcpProxy(sandbox.tcp_port))
            http = kept.enter_context(TcpProxy(sandbox.http_port))
            own = connection | {"port": native.port, "extra": {"http_port": http.port}}
            environ[f"AIRFLOW_CONN_CH_{name.upper()}"] = json.dumps(own)
            ways.append((Bench(sandbox=sandbox, database=database, folder=folder, table=name), native, http))
        (home / "dags" / "scenes.py").write_text(DAGS, encoding="utf-8")
        airflow = stack(home, environ)
        made = [Scene(airflow=airflow, bench=bench, native=native, http=http) for bench, native, http in ways]
        for scene in made:
            scene.direct(**scenes[scene.name])
        kept.enter_context(airflow)
        yield {scene.name: scene for scene in made}
