"""``DponeDag`` and ``DponeTaskGroup``: one task a process, named like it, in the order of ``depends_on`` (F7)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import DAG, TaskGroup

from dpone_provider.dags.options import dag_options, task_options
from dpone_provider.dags.plan import Plan, default_id, file_of_caller, read_plan
from dpone_provider.operators.load import DponeLoadOperator

_FIXED = frozenset(
    ("manifest", "process", "source", "sink", "quality", "connections", "folder", "task_id", "dag", "task_group")
)


class DponeDag(DAG):
    """A DAG with one task for each process of a manifest.

    ``manifest``: a path; a relative one starts from the folder of the file that makes the DAG. ``connection_config``:
    an Airflow connection id for each ``connection_ref`` that is not the id itself. ``operator_args``: arguments of
    every task. ``dag_kwargs``: arguments of a DAG. What is given here wins over the manifest's ``metadata.airflow``;
    of tasks, ``operator_args`` win over a process's own metadata, and that over ``default_args``.

    The tasks' ids are the names of the processes. Raises ``ManifestError`` when the manifest has any problem.
    """

    def __init__(
        self,
        dag_id: str | None = None,
        *,
        manifest: str | os.PathLike[str],
        connection_config: Mapping[str, str] | None = None,
        operator_args: Mapping[str, Any] | None = None,
        **dag_kwargs: Any,
    ) -> None:
        file = file_of_caller()
        plan = read_plan(manifest, os.path.dirname(file))
        super().__init__(**dag_arguments(plan, dag_id, dag_kwargs))
        self.fileloc = file  # Airflow looks for it in the frame that called this one
        with self:
            add_tasks(plan, self, self.task_group, connection_config, operator_args)


class DponeTaskGroup(TaskGroup):
    """A group with one task for each process of a manifest, inside the DAG (or group) that it is made in.

    Arguments as of ``DponeDag``. The group's id defaults to the file's name and ``_loads``. The tasks' ids are the
    names of the processes, without the group's id, unless ``prefix_group_id`` is set. Of the manifest's own
    ``metadata.airflow``, what it says about tasks holds in the group; what it says about the DAG does not.
    """

    def __init__(
        self,
        group_id: str | None = None,
        *,
        manifest: str | os.PathLike[str],
        connection_config: Mapping[str, str] | None = None,
        operator_args: Mapping[str, Any] | None = None,
        **group_kwargs: Any,
    ) -> None:
        plan = read_plan(manifest, os.path.dirname(file_of_caller()))
        defaults = dag_options(plan.advice.options, group_kwargs)["default_args"]
        options = {"prefix_group_id": False, **group_kwargs, "default_args": defaults}
        super().__init__(group_id=group_id or default_id(plan.file).replace(".", "_") + "_loads", **options)
        add_tasks(plan, self.dag, self, connection_config, operator_args)


def dag_arguments(plan: Plan, dag_id: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the DAG that a manifest becomes."""
    return {**dag_options(plan.advice.options, given), "dag_id": dag_id or plan.dag_id}


def add_tasks(
    plan: Plan,
    dag: Any,
    group: Any,
    connections: Mapping[str, str] | None,
    operator_args: Mapping[str, Any] | None,
) -> None:
    """Make the task of every process and put them in order. Raises ``TypeError`` for arguments that are fixed."""
    fixed = sorted(_FIXED.intersection(operator_args or ()))
    if fixed:
        raise TypeError(f"operator_args cannot set {', '.join(fixed)}: the manifest and connection_config say that")
    tasks = {
        spec.selector: DponeLoadOperator(
            manifest=plan.manifest,
            process=spec.process,
            folder=plan.folder,
            dag=dag,
            task_group=group,
            **task_options(spec, connections, operator_args),
        )
        for spec in plan.processes
    }
    for spec in plan.processes:
        for name in spec.depends_on:
            tasks[name] >> tasks[spec.selector]
