"""A DAG of Airflow for every manifest in the folder beside this file."""

from __future__ import annotations

from dpone_provider.api import load_dpone_dags

load_dpone_dags("manifests", globals())
