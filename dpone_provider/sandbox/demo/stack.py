"""A real Airflow of one's own: three components in one folder, stopped by pid, nothing left running."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from dpone_provider.errors import DponeError
from dpone_provider.unwinding import on_failure

COMPONENTS = ("api-server", "scheduler", "dag-processor")
START_SECONDS = 90.0
STOP_SECONDS = 5.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is never asked through a proxy


class AirflowStack:
    """Airflow in ``home``, with DAGs from ``home/dags`` and the given environment on top.

    Use it as a context manager. Every component writes to ``home/<component>.log``.
    """

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self.home = home
        self._port = _free_port()
        self._environ = {**_inherited(), **_settings(home, self._port), **environ}
        self._running: list[subprocess.Popen[bytes]] = []
        self._token = ""

    def __enter__(self) -> AirflowStack:
        with on_failure(self.stop):
            self._run("db", "migrate")
            for component in COMPONENTS:
                options = ["--port", str(self._port), "--host", "127.0.0.1"] if component == "api-server" else []
                self._running.append(self._spawn(component, *options))
            self._await_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the UI is; everybody is admin there."""
        return f"http://127.0.0.1:{self._port}"

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One REST call as JSON. Raises ``OSError``: ``urllib.error.HTTPError`` for a refusal."""
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        data = json.dumps(body).encode() if body is not None else None
        with _DIRECT.open(request, data=data, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def stop(self) -> None:
        """Stop every component: SIGTERM to its process group, SIGKILL after a bound."""
        running, self._running = self._running, []
        for process in running:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            _signal(process, signal.SIGKILL)
            process.wait()

    def _spawn(self, component: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{component}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", component, *options],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            (self.home / "setup.log").write_bytes(done.stdout + done.stderr)
            raise _not_started("its database could not be made", self.home / "setup.log")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for component, process in zip(COMPONENTS, self._running, strict=True):
                if process.poll() is not None:
                    raise _not_started(f"{component} ended", self.home / f"{component}.log")
            try:
                health = self.ask("GET", "/api/v2/monitor/health")
                self._token = self._token or self.ask("GET", "/auth/token")["access_token"]
            except (OSError, ValueError):
                time.sleep(0.2)
                continue
            if health["scheduler"]["status"] == "healthy" and health["dag_processor"]["status"] == "healthy":
                return
            time.sleep(0.2)
        raise _not_started(f"it was not ready within {START_SECONDS:g} s", self.home / "scheduler.log")


def _inherited() -> dict[str, str]:
    """The caller's environment without the settings of another Airflow; loopback needs no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def _settings(home: Path, port: int) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "PYTHONWARNINGS": "ignore",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _not_started(problem: str, log: Path) -> DponeError:
    return DponeError("DPONE_DEMO_FAILED", f"Airflow did not start: {problem}.", remedy=f"Look at {log}.")
