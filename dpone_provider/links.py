"""The operator's extra link: from a task instance to what is known of its load (F6)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from airflow import __version__
from airflow.providers.common.compat.sdk import BaseOperatorLink

LOAD_TAB = "dpone_load"
_AIRFLOW = tuple(int(part) for part in __version__.split(".")[:2])


class OperationLink(BaseOperatorLink):
    """Opens the tab *Load proof*; before Airflow 3.1, which has no such tabs, the XComs with the evidence."""

    name = "Load proof"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address, of identity alone; relative to the UI's base, so that it stays right below any ``base_url``."""
        return address(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)


def address(dag_id: str, run_id: str, task_id: str, map_index: int | None, version: tuple[int, ...] = _AIRFLOW) -> str:
    """Where Airflow of this version shows what the task instance recorded."""
    mapped = map_index is not None and map_index >= 0
    if version < (3, 0):
        query = {"dag_run_id": run_id, "task_id": task_id, "tab": "xcom"}
        return f"../{quote(dag_id, safe='')}/grid?{urlencode(query | ({'map_index': map_index} if mapped else {}))}"
    task = "/".join(quote(part, safe="") for part in ("dags", dag_id, "runs", run_id, "tasks", task_id))
    index = f"/mapped/{map_index}" if mapped else ""
    return f"{task}{index}/{f'plugin/{LOAD_TAB}' if version >= (3, 1) else 'xcom'}"
