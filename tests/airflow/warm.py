"""An interpreter that has imported Airflow once. Every script runs in a fork of it: a task process to be killed.

``python -m tests.airflow.warm`` is that interpreter: a line with a script in, a line with a process number out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import attrs
import psutil

from tests.airflow.home import PRELUDE, ROOT, Home
from tests.airflow.release import AIRFLOW_3

PATIENCE = 90.0


@attrs.frozen(kw_only=True)
class Script:
    """A script that runs, or has ended. ``folder`` holds its files, ``number`` tells scripts of one folder apart."""

    pid: int
    folder: Path
    number: int

    @property
    def said(self) -> str:
        """What it printed and logged so far."""
        return (self.folder / f"said{self.number}.txt").read_text(encoding="utf-8", errors="replace")

    def wait(self, until: Callable[[], object]) -> None:
        """Wait until ``until`` gives something true; the script must not end before."""
        end = time.monotonic() + PATIENCE
        while not until():
            assert psutil.pid_exists(self.pid), f"the script has ended\n{self.said[-4000:]}"
            assert time.monotonic() < end, f"it did not come to that\n{self.said[-4000:]}"
            time.sleep(0.005)

    def end(self) -> None:
        """Wait until it has ended, however it does."""
        end = time.monotonic() + PATIENCE
        while psutil.pid_exists(self.pid):
            assert time.monotonic() < end, f"it does not end\n{self.said[-4000:]}"
            time.sleep(0.005)

    def answer(self) -> Any:
        """What it gave to ``out(value)``, once it has ended."""
        self.end()
        file = self.folder / f"answer{self.number}.json"
        assert file.exists(), self.said[-6000:]
        return json.loads(file.read_text(encoding="utf-8"))

    def send(self, number: int) -> None:
        """Send it a signal, as whoever runs tasks does."""
        os.kill(self.pid, number)


@attrs.frozen(kw_only=True)
class WarmAirflow:
    """The interpreter and its home."""

    home: Home
    process: subprocess.Popen[str]

    def start(self, script: str, folder: Path, **environ: str) -> Script:
        """Start a script that knows what ``PRELUDE`` defines, and ``out``."""
        number = len(list(folder.glob("script*.py")))
        file = folder / f"script{number}.py"
        file.write_text(textwrap.dedent(script), encoding="utf-8")
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"folder": str(folder), "number": number, "environ": environ}) + "\n")
        stdin.flush()
        return Script(pid=int(stdout.readline()), folder=folder, number=number)


@contextmanager
def warm_airflow(home: Home) -> Iterator[WarmAirflow]:
    """Import everything, once."""
    log = (home.folder / "warm.txt").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.airflow.warm"],
        env=home.environ, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
    )  # fmt: skip
    with log, process:
        assert process.stdout is not None
        assert process.stdout.readline() == "warm\n", (home.folder / "warm.txt").read_text()[-4000:]
        yield WarmAirflow(home=home, process=process)
        process.stdin and process.stdin.close()


FIRST = """
with DAG("warm", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    from airflow.providers.common.compat.sdk import task
    @task
    def nothing():
        return 1
    nothing()
run_dag(dag)
"""
"""What a first task makes Airflow import and build."""


def _serve() -> None:
    said = os.dup(1)
    os.dup2(2, 1)  # Airflow talks
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(PRELUDE, names)  # noqa: S102 - it is our own text, as are those below
    exec(compile(FIRST, __file__, "exec"), names)  # noqa: S102
    import dpone_provider.load.staging
    import dpone_provider.runtime.run  # noqa: F401

    kept = _forget_api_server() if AIRFLOW_3 else None
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the first task's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the scripts
    os.write(said, b"warm\n")
    for line in sys.stdin:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(said)
            _become(json.loads(line), names)
        os.write(said, b"%d\n" % pid)
    del kept


def _forget_api_server() -> Any:
    """The thread of the API server in process is not in a fork, which therefore makes its own."""
    from airflow.sdk.execution_time.supervisor import in_process_api_server

    server = in_process_api_server()
    kept = server.transport
    del server.transport
    return kept


def _become(asked: dict[str, Any], names: dict[str, Any]) -> NoReturn:
    """Be the script."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        folder, number = Path(asked["folder"]), asked["number"]
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(folder / f"said{number}.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        os.environ.update(asked["environ"])

        def out(value: Any) -> None:
            (folder / f"answer{number}.json").write_text(json.dumps(value, allow_nan=False), encoding="utf-8")

        file = folder / f"script{number}.py"
        names["out"] = out
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)  # noqa: S102
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must not go on with its parent's work
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
