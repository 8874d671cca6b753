"""The demo's DAG: the flights example, whose first try dies by SIGKILL after the commit and before completion.

It takes the source file with it, so that a second try has nothing to read.
"""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import DAG

from dpone_provider.operators.load import DponeLoadOperator


class KilledOnce(DponeLoadOperator):
    """What a lost worker looks like: no clean-up, no goodbye, no acknowledgement to anybody."""

    def execute(self, context: Any) -> dict[str, Any]:
        self.dies = context["ti"].try_number == 1
        return super().execute(context)

    def notify(self, step: str, facts: dict[str, Any]) -> None:
        if step == "complete" and self.dies:
            Path(__file__).with_name("flights.csv.zip").unlink()
            os.kill(os.getpid(), signal.SIGKILL)


with DAG(
    dag_id="dpone_flights",
    start_date=datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
) as dag:
    KilledOnce(manifest="flights.dpone.yaml", process="flights")
