"""A DAG of Airflow out of gusty's folder of task files."""

from __future__ import annotations

from pathlib import Path

from gusty import create_dag

from dpone_provider.dags.gusty import parse_manifest

dag = create_dag(
    str(Path(__file__).with_name("gusty_airlines")),  # the folder's name is the DAG's id
    parse_hooks={".yaml": parse_manifest},
    latest_only=False,
)
