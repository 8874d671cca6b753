"""What differs between the releases of Airflow that the tests run on, 2.11 and 3; for tests and their scripts."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow import __version__

AIRFLOW_3 = int(__version__.split(".")[0]) >= 3
ASSET_EVENTS = "asset_event" if AIRFLOW_3 else "dataset_event"
# What a line of the load's own in a log has; 2.11 writes each one twice in process, with two formats.
OWN_LINE = "Told]" if AIRFLOW_3 else "+0000] {task_log.py:"
# What a load raises when Airflow ends its task: of 3, it goes on after ``on_kill`` and stops itself; 2.11 raises in it.
KILLED = "DponeError" if AIRFLOW_3 else "AirflowTaskTerminated"
NOON = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

if AIRFLOW_3:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.xcom import XComModel
    from airflow.serialization.serialized_objects import DagSerialization, OperatorSerialization
else:
    import airflow.providers.fab.auth_manager.models  # noqa: F401 - tables that others refer to
    from airflow.exceptions import AirflowTaskTerminated, AirflowTaskTimeout
    from airflow.models.dagbag import DagBag
    from airflow.models.xcom import BaseXCom as XComModel
    from airflow.serialization.serialized_objects import SerializedBaseOperator as OperatorSerialization
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

__all__ = [
    "AIRFLOW_3", "ASSET_EVENTS", "DagBag", "DagSerialization", "KILLED", "OWN_LINE", "OperatorSerialization",
    "bag", "keep_parsed", "lacks", "run_dag", "schedule", "version", "xcom",
]  # fmt: skip


def bag(file: Path | str, bundle: Path | None = None) -> Any:
    """The bag of a DAG file. ``bundle``: the folder of its bundle, which 2.11 does not know."""
    if AIRFLOW_3:
        return DagBag(file, bundle_path=bundle, bundle_name="here" if bundle else None)
    return DagBag(file, include_examples=False)


def run_dag(dag: Any, logical_date: datetime.datetime = NOON) -> Any:
    """Run a DAG in process, retries included (try 1, up_for_retry, try 2): the run, and (state, try) of every task."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    _make_known(dag)
    if AIRFLOW_3:
        run = dag.test(logical_date=logical_date, run_after=logical_date)
    else:
        with _as_in_a_process_of_its_own():
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


def schedule(dag: Any) -> Any:
    """What a DAG waits for: a cron expression, None, or the sorted URIs of assets."""
    if AIRFLOW_3:
        condition = getattr(dag.timetable, "asset_condition", None)
        return sorted(asset.uri for asset in getattr(condition, "objects", ())) or dag.schedule
    return sorted(uri for uri, _ in dag.timetable.dataset_condition.iter_datasets()) or dag.schedule_interval


def version(dag: Any) -> str:
    """The hash by which Airflow tells whether a DAG has changed."""
    from airflow.models.serialized_dag import SerializedDagModel

    if AIRFLOW_3:
        return str(SerializedDagModel.hash(DagSerialization.to_dict(dag)))
    return str(SerializedDagModel(dag).dag_hash)


def lacks(what: str, airflow: int = 2) -> Any:
    """The mark of a test, or of a case, of something that a release truly has not. CI accepts that reason."""
    import pytest

    name = "3" if airflow == 3 else "2.11"
    return pytest.mark.skipif(AIRFLOW_3 is (airflow == 3), reason=f"Airflow {name} has no {what}")


def keep_parsed(file: Path) -> dict[str, Any]:
    """Parse a DAG file and keep what comes of it, as the dag-processor does.

    ``dags``: [has errors, is stale] by id; ``errors``: text by file, those of a bundle from its folder on.
    """
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session

    _keep_in_bundle(file) if AIRFLOW_3 else _keep(file)
    with create_session() as session:
        place = DagModel.relative_fileloc == file.name if AIRFLOW_3 else DagModel.fileloc == str(file)
        dags = session.query(DagModel).filter(place).all()
        return {
            "dags": {
                dag.dag_id: [dag.has_import_errors, dag.is_stale if AIRFLOW_3 else not dag.is_active] for dag in dags
            },
            "errors": {error.filename: error.stacktrace for error in session.query(ParseImportError).all()},
        }


def _keep(file: Path) -> None:
    import logging

    from airflow.dag_processing.processor import DagFileProcessor

    processor = DagFileProcessor(dag_ids=None, dag_directory=str(file.parent), log=logging.getLogger("processor"))
    processor.process_file(str(file), [])


def _keep_in_bundle(file: Path) -> None:
    import structlog
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.dag_processing.processor import DagFileParseRequest, _parse_file
    from airflow.utils.session import create_session

    name = "dags-folder"
    asked = DagFileParseRequest(file=str(file), bundle_path=file.parent, bundle_name=name, callback_requests=[])
    read = _parse_file(asked, structlog.get_logger())
    assert read is not None
    errors = {(name, broken): text for broken, text in (read.import_errors or {}).items()}
    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    with create_session() as session:
        files = {(name, file.name), *errors}
        update_dag_parsing_results_in_db(
            name, None, read.serialized_dags, errors, 0.1, set(), session, files_parsed=files
        )


@contextmanager
def _as_in_a_process_of_its_own() -> Iterator[None]:
    """In 2.11, what ends a task's process (a timeout, a SIGTERM) is no ``Exception``; here it ends the task alone."""
    from airflow.models import dag as module

    inside = module._run_task

    def run_task(**options: Any) -> None:
        try:
            inside(**options)
        except (AirflowTaskTimeout, AirflowTaskTerminated) as ended:
            raise RuntimeError("the task's process has ended") from ended

    with patch.object(module, "_run_task", run_task):
        yield


def _make_known(dag: Any) -> None:
    """As the dag-processor does: without, there is no retry in 3, and no asset event in 2.11."""
    if not AIRFLOW_3:
        dag.sync_to_db()
        return
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
