"""``load_dpone_dags``: every manifest of a folder becomes a DAG; what cannot become one hides no other (F7, B26)."""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import attrs
from airflow.providers.common.compat.sdk import DAG, AirflowException, get_parsing_context

from dpone_provider.dags.factory import add_tasks, dag_arguments
from dpone_provider.dags.plan import SUFFIXES, Plan, default_id, read_whole
from dpone_provider.dags.refused import RefusedManifests
from dpone_provider.manifest.problems import ManifestError

_log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class _Folder:
    """The manifests of a folder, and what its DAGs are made with.

    ``taken``: names in the DAG file's globals; ``refused`` collects errors by file.
    """

    files: list[str]
    dag_folder: str
    dag_file: str
    connection_config: Mapping[str, str] | None
    operator_args: Mapping[str, Any] | None
    dag_kwargs: Mapping[str, Any]
    taken: Container[str]
    refused: dict[str, str] = attrs.field(factory=dict)


def load_dpone_dags(
    folder: str | os.PathLike[str],
    into: MutableMapping[str, Any],
    *,
    connection_config: Mapping[str, str] | None = None,
    operator_args: Mapping[str, Any] | None = None,
    **dag_kwargs: Any,
) -> dict[str, DAG]:
    """Make a DAG of every ``*.dpone.yaml`` and ``*.dpone.yml`` in ``folder`` and put it ``into`` a DAG file's globals.

    A relative folder starts from the DAG file's. Fragments are no DAGs; folders below are not searched. The other
    arguments are those of ``DponeDag``, for all DAGs. Where Airflow asks for one DAG only, as for a task, only that
    one is made. A file that is no DAG, and every file of several with one ``dag_id``, becomes an import error of its
    own that names line and column; the other DAGs are there.

    Returns the DAGs by id. Raises ``NotADirectoryError`` when there is no such folder.
    """
    if "dag_id" in dag_kwargs:
        raise TypeError("dag_id is said by each manifest: metadata.airflow.dag_id, or the name of its file")
    dag_file = os.path.abspath(into["__file__"])
    where = os.path.normpath(os.path.join(os.path.dirname(dag_file), folder))
    room = _Folder(
        files=_manifests(where),
        dag_folder=os.path.dirname(dag_file),
        dag_file=dag_file,
        connection_config=connection_config,
        operator_args=operator_args,
        dag_kwargs=dag_kwargs,
        taken=frozenset(into),
    )
    wanted = get_parsing_context().dag_id
    made = _one(room, wanted) if wanted else _all(room, room.files)
    for dag_id in sorted(made):
        into[_name(dag_id)] = made[dag_id]
    if room.refused:
        for error in room.refused.values():
            _log.error("%s", error)
        into[f"dpone:refused:{where}"] = RefusedManifests(where, room.refused)
    return made


def _manifests(folder: str) -> list[str]:
    """The files of a folder that may be manifests, in order."""
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"load_dpone_dags: there is no folder {folder}")
    paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(SUFFIXES))
    return [path for path in paths if not os.path.isdir(path)]


def _one(room: _Folder, wanted: str) -> dict[str, DAG]:
    """The one DAG that Airflow asks for; every file that may be it is read, the others only when none of them is."""
    likely = [file for file in room.files if default_id(file) == wanted or wanted.encode() in _bytes(file)]
    made = _all(room, likely, wanted)
    if not made and not room.refused:
        made = _all(room, [file for file in room.files if file not in likely], wanted)
    return made


def _bytes(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _all(room: _Folder, files: Iterable[str], wanted: str | None = None) -> dict[str, DAG]:
    """The DAGs of all files, or the ``wanted`` one of them, by id; what is none is noted in ``room.refused``."""
    made: dict[str, DAG] = {}
    for plan in _alone(room, _plans(room, files)):
        if wanted in (None, plan.dag_id):
            try:
                made[plan.dag_id] = _dag(room, plan)
            except (AirflowException, ValueError, TypeError) as error:  # of the manifest's values, and of dag_kwargs
                refused = plan.refusal("DPONE_MANIFEST_VALUE", f"Airflow refuses this DAG: {error}")
                room.refused[plan.file] = str(refused)
    return made


def _plans(room: _Folder, files: Iterable[str]) -> Iterator[Plan]:
    for file in files:
        try:
            plan = read_whole(file, room.dag_folder)
        except ManifestError as error:
            room.refused[file] = str(error)
        else:
            if plan is not None:
                yield plan


def _alone(room: _Folder, plans: Iterable[Plan]) -> list[Plan]:
    """The plans whose dag_id no other one has. Which of several is meant cannot be known: all are refused.

    A DAG that an earlier folder of the same DAG file has made stays.
    """
    by_id: dict[str, list[Plan]] = {}
    for plan in plans:
        by_id.setdefault(plan.dag_id, []).append(plan)
    alone = []
    for dag_id, same in by_id.items():
        if len(same) == 1 and _name(dag_id) not in room.taken:
            alone += same
            continue
        for plan in same:
            others = [os.path.basename(other.file) for other in same if other is not plan] or ["another folder"]
            message = f'the dag_id "{dag_id}" is that of {", ".join(others)} too'
            remedy = "Give one of them another metadata.airflow.dag_id, or another file name."
            room.refused[plan.file] = str(plan.refusal("DPONE_MANIFEST_DUPLICATE", message, remedy))
    return alone


def _name(dag_id: str) -> str:
    """The DAG's name in the DAG file's globals: none of Python code, so that it hides none."""
    return f"dpone:{dag_id}"


def _dag(room: _Folder, plan: Plan) -> DAG:
    """One DAG, validated now: what Airflow finds later it would hold against the whole DAG file."""
    dag = DAG(**dag_arguments(plan, None, room.dag_kwargs))
    dag.fileloc = room.dag_file
    add_tasks(plan, dag, dag.task_group, room.connection_config, room.operator_args)
    dag.validate()
    return dag
