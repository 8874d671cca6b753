"""What differs between the releases of Airflow that the tests run on, 2.11 and 3; for tests and their scripts."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from airflow import __version__

AIRFLOW_3 = int(__version__.split(".")[0]) >= 3
ASSET_EVENTS = "asset_event" if AIRFLOW_3 else "dataset_event"
NOON = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

if AIRFLOW_3:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.xcom import XComModel
    from airflow.serialization.serialized_objects import DagSerialization, OperatorSerialization
else:
    import airflow.providers.fab.auth_manager.models  # noqa: F401 - tables that others refer to
    from airflow.models.dagbag import DagBag
    from airflow.models.xcom import BaseXCom as XComModel
    from airflow.serialization.serialized_objects import SerializedBaseOperator as OperatorSerialization
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

__all__ = ["AIRFLOW_3", "DagBag", "DagSerialization", "OperatorSerialization", "bag", "run_dag", "xcom"]


def bag(file: Path | str, bundle: Path | None = None) -> Any:
    """The bag of a DAG file. ``bundle``: the folder of its bundle, which 2.11 does not know."""
    if AIRFLOW_3:
        return DagBag(file, bundle_path=bundle, bundle_name="here" if bundle else None)
    return DagBag(file, include_examples=False)


def run_dag(dag: Any, logical_date: datetime.datetime = NOON) -> Any:
    """Run a DAG in process, retries included (try 1, up_for_retry, try 2): the run, and (state, try) of every task."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    if AIRFLOW_3:
        _make_known(dag)
        run = dag.test(logical_date=logical_date, run_after=logical_date)
    else:
        run = dag.test(execution_date=logical_date)
    with create_session() as session:
        mine = (TaskInstance.dag_id == dag.dag_id, TaskInstance.run_id == run.run_id)
        found = session.query(TaskInstance).filter(*mine).all()
        return run, {(item.task_id, item.map_index): (str(item.state), item.try_number) for item in found}


def xcom(run: Any, task_id: str, map_index: int = -1) -> Any:
    """What a task returned."""
    from airflow.utils.session import create_session

    with create_session() as session:
        mine = (XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.task_id == task_id)
        wanted = (XComModel.map_index == map_index, XComModel.key == "return_value")
        found = session.query(XComModel).filter(*mine, *wanted).one()
        return json.loads(found.value) if isinstance(found.value, str | bytes) else found.value


def _make_known(dag: Any) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    with create_session() as session:
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("dags-folder", None, [lazy], session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="dags-folder", session=session)
