"""An Airflow home for tests that need Airflow's database; every script runs in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).parents[2]

# What scripts know: `run_dag` runs a DAG in process, retries included.
PRELUDE = """
import datetime, json, os, sys, time
sys.path.insert(0, os.environ["DPONE_ROOT"])
from airflow.providers.common.compat.sdk import DAG
from dpone_provider.operators.load import DponeLoadOperator
from tests.airflow.release import DagBag, DagSerialization, OperatorSerialization, run_dag, xcom
"""


@attrs.frozen(kw_only=True)
class Home:
    """A migrated Airflow home; ``run`` executes a script in it and returns the JSON that it gives to ``out``."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """What Airflow finds in its environment."""
        return {
            **os.environ,
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder / 'airflow.db'}",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.folder / "logs"),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "DPONE_ROOT": str(ROOT),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }

    def migrate(self) -> None:
        """Make the database."""
        (self.folder / "dags").mkdir(parents=True, exist_ok=True)
        self.command("db", "migrate")

    def command(self, *arguments: str) -> str:
        """Run ``airflow …`` and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environ, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def run(self, script: str, *, folder: Path, prelude: str = PRELUDE, **environ: str) -> tuple[Any, str]:
        """Run a script from ``folder``; what it gave to ``out(value)``, and everything that it printed and logged."""
        file = folder / "script.py"
        answer = folder / "answer.json"
        give = f"\ndef out(value):\n    open({str(answer)!r}, 'w').write(json.dumps(value, allow_nan=False))\n"
        file.write_text(prelude + give + textwrap.dedent(script), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(file)],
            env={**self.environ, **environ}, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=240,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-6000:]
        return json.loads(answer.read_text(encoding="utf-8")), said
