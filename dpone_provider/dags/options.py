"""From what a manifest advises to the arguments that Airflow takes. What Python code says wins over the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import Asset

from dpone_provider.manifest.airflow_advice import TASK_KEYS, task_advice
from dpone_provider.manifest.spec import ClickHouseSource, LoadSpec, SqlSource


def _seconds(value: int) -> timedelta:
    return timedelta(seconds=value)


def _moment(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _schedule(value: str | list[str]) -> Any:
    if isinstance(value, list):
        return [Asset(uri=uri) for uri in value]
    return [Asset(uri=value)] if "://" in value else value


_READY: dict[str, Callable[[Any], Any]] = {
    "retry_delay": _seconds,
    "execution_timeout": _seconds,
    "dagrun_timeout": _seconds,
    "start_date": _moment,
    "end_date": _moment,
    "schedule": _schedule,
}


def dag_options(advice: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a DAG: the manifest's, over them the ``given`` ones; ``default_args`` merge key by key."""
    advised = _ready(advice)
    defaults = {name: advised.pop(name) for name in TASK_KEYS if name in advised}
    options = {**advised, **given}
    options["default_args"] = {**defaults, **(given.get("default_args") or {})}
    return options


def task_options(
    spec: LoadSpec, connections: Mapping[str, str] | None, given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Arguments of a process's task: its table as an outlet, the manifest's advice, over them the ``given`` ones.

    ``connections``: an Airflow connection id for a ``connection_ref``; a task gets those that it uses.
    """
    used = {spec.sink.connection_ref}
    if isinstance(spec.source, ClickHouseSource | SqlSource):
        used.add(spec.source.connection_ref)
    ids = {ref: ref_id for ref, ref_id in (connections or {}).items() if ref in used}
    options: dict[str, Any] = {"connections": ids} if ids else {}
    options["outlets"] = [table_asset(spec, ids)]
    return {**options, **_ready(task_advice(spec.metadata)), **(given or {})}


def table_asset(spec: LoadSpec, ids: Mapping[str, str]) -> Any:
    """``clickhouse://<Airflow connection id>/<database>/<table>``.

    A host would have to be looked up; the connection id says the same within one Airflow.
    """
    sink = spec.sink
    parts = (ids.get(sink.connection_ref, sink.connection_ref), sink.table.database, sink.table.name)
    return Asset(uri="clickhouse://" + "/".join(quote(part, safe="") for part in parts))


def _ready(advice: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _READY[name](value) if name in _READY else value for name, value in advice.items()}
