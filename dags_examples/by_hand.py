"""A DAG of Airflow with the loads of a manifest and a task of its own after them."""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.compat.sdk import DAG, task

from dpone_provider.api import DponeDag, DponeTaskGroup

MANIFEST = "manifests/airlines.dpone.yaml"


@task
def publish_report() -> None:
    """Whatever comes after the loads."""


# The whole DAG as the manifest describes it, with what is said here on top.
DponeDag("airlines_by_hand", manifest=MANIFEST, schedule=None, operator_args={"retries": 3})

# The same loads as a part of a DAG.
with DAG("airlines_and_more", start_date=datetime(2026, 1, 1), schedule=None):
    DponeTaskGroup("airlines", manifest=MANIFEST) >> publish_report()
