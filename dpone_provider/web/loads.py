"""What Airflow lets a caller see of loads: task instances and the evidence that their tasks recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.page.document import KEY, Evidence, NotEvidence, parse
from dpone_provider.page.loads import Found
from dpone_provider.page.view import Task
from dpone_provider.web.airflow_rest import AirflowRest, Refused

MOST = 50  # loads of a list
_PARALLEL = 8
ANY = "~"


@attrs.frozen(kw_only=True)
class Listed:
    """The newest loads of a scope. ``more``: there are others."""

    found: tuple[Found, ...]
    more: bool


async def task_of(rest: AirflowRest, dag_id: str, run_id: str, task_id: str, map_index: int) -> Task:
    """The task instance. Raises ``Refused``, also when the caller may not see it."""
    index = (str(map_index),) if map_index >= 0 else ()
    answer = await rest.get("dags", dag_id, "dagRuns", run_id, "taskInstances", task_id, *index)
    return Task(
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        state=answer.get("state"),
        try_number=answer.get("try_number") or 0,
    )


async def evidence_of(rest: AirflowRest, task: Task) -> Evidence | None:
    """What the task recorded, None: nothing. Raises ``NotEvidence``, ``Refused``."""
    place = ("dags", task.dag_id, "dagRuns", task.run_id, "taskInstances", task.task_id, "xcomEntries", KEY)
    try:
        answer = await rest.get(*place, map_index=task.map_index, stringify="false")
    except Refused as refused:
        if refused.status != 404:
            raise
        return None
    return parse(answer.get("value"))


async def listed(rest: AirflowRest, dag_id: str = ANY, run_id: str = ANY) -> Listed:
    """The loads of a DAG run, or of all that the caller may see, the newest. Raises ``Refused``."""
    place = ("dags", dag_id, "dagRuns", run_id, "taskInstances", ANY, "xcomEntries")
    answer = await rest.get(*place, xcom_key=KEY, limit=MOST, order_by="-timestamp")
    entries = answer.get("xcom_entries", [])[:MOST]
    gate = asyncio.Semaphore(_PARALLEL)
    found = await asyncio.gather(*(_found(rest, entry, gate) for entry in entries))
    return Listed(
        found=tuple(each for each in found if each is not None), more=answer.get("total_entries", 0) > len(entries)
    )


async def _found(rest: AirflowRest, entry: Mapping[str, Any], gate: asyncio.Semaphore) -> Found | None:
    names = (entry["dag_id"], entry["run_id"], entry["task_id"], entry["map_index"])
    async with gate:
        try:
            task = await task_of(rest, *names)
            evidence = await evidence_of(rest, task)
        except Refused:
            return None  # gone meanwhile, or not for this caller
        except NotEvidence:
            return Found(task=task, evidence=None)
    return Found(task=task, evidence=evidence) if evidence is not None else None
