"""Parsing an unchanged DAG file again never makes a new DAG version (F1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.home import Home

SCRIPT = """
from tests.airflow.release import version
with DAG("same", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    source = {"type": "file", "format": "csv", "path": "source.csv", "options": {"null_values": ["NA", "-"]}}
    sink = {"type": "clickhouse", "connection_ref": "there", "table": {"schema": "d", "name": "t"}}
    DponeLoadOperator(process="inline", source=source, sink=sink, quality={"gates": []})
    DponeLoadOperator(manifest="loads.dpone.yaml", process="a.b", task_id="from_manifest")
out(version(dag))
"""


@pytest.mark.contract("F1")
def test_every_interpreter_serializes_a_dag_file_to_the_same_version(airflow_home: Home, tmp_path: Path) -> None:
    """Sets and dicts may be ordered otherwise in each interpreter; Airflow's version hash must not see it."""
    versions = {airflow_home.run(SCRIPT, folder=tmp_path, PYTHONHASHSEED=seed)[0] for seed in ("0", "1")}
    assert len(versions) == 1
