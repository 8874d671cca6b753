"""The examples of ``dags_examples``, copied and pointed to a database of a test."""

from __future__ import annotations

import json
import shutil
from typing import Any

import attrs

from dpone_provider.sandbox.command import connection_json
from tests.airflow.home import ROOT, Home
from tests.loads import Bench
from tests.sandbox_fixture import ask

RUN = """
import datetime, json, os
from tests.airflow.release import DagBag
found = {}
for file, dag_id in json.loads(os.environ["DAGS"]):
    bag = DagBag(os.path.join(os.environ["EXAMPLES"], file))
    assert not bag.import_errors, bag.import_errors
    run, states = run_dag(bag.dags[dag_id])
    found[dag_id] = {task: state for (task, _), (state, _) in states.items()}
out(found)
"""


@attrs.frozen(kw_only=True)
class Examples:
    """A copy of the examples whose tables are in the database of a bench."""

    home: Home
    bench: Bench

    def run(self, *dags: tuple[str, str]) -> Any:
        """Run DAGs (file and id) to their ends, one after another; the states of their tasks by DAG."""
        copy = self.bench.folder / "examples"
        shutil.copytree(ROOT / "dags_examples", copy)
        for path in copy.rglob("*.yaml"):
            text = path.read_text(encoding="utf-8")
            text = text.replace("schema: demo", f"schema: {self.bench.database}")
            text = text.replace("FROM demo.", f"FROM {self.bench.database}.")
            path.write_text(text, encoding="utf-8")
        found, _ = self.home.run(
            RUN,
            folder=self.bench.folder,
            EXAMPLES=str(copy),
            DAGS=json.dumps(dags),
            AIRFLOW_CONN_DPONE_DEMO=connection_json(self.bench.sandbox),
            AIRFLOW__DAG_FACTORY__ENABLE_TELEMETRY="False",
        )
        return found

    def count(self, table: str) -> int:
        """How many rows are live in a table."""
        return int(ask(self.bench.sandbox, f"SELECT count() FROM {self.bench.database}.{table}")[0][0])
