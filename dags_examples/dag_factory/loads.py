"""DAGs of Airflow out of dag-factory's YAML."""

from __future__ import annotations

from pathlib import Path

from dagfactory import load_yaml_dags

load_yaml_dags(globals_dict=globals(), config_filepath=str(Path(__file__).with_name("loads.yaml")))
