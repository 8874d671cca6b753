"""A process, and the files that hold processes: one model for each ``kind``."""

from __future__ import annotations

from typing import Any

from dpone_provider.manifest.grammar.airflow import AirflowDag, AirflowTask
from dpone_provider.manifest.grammar.declare import IDENTIFIER, key, model
from dpone_provider.manifest.grammar.quality import Quality
from dpone_provider.manifest.grammar.sink import Sink, SinkOptions
from dpone_provider.manifest.grammar.source import Source

BATCH = "dpone.batch.v1"
FLOW = "dpone.flow.v1"
FRAGMENT = "dpone.flow-fragment.v1"
CONFIG = "etl-config"
MAX_FRAGMENTS = 100
NAME = r"[a-z0-9][a-z0-9_]{1,127}"
FRAGMENT_PATH = r"(?:(?!\.{1,2}/)[^/\\]+/)*[^/\\]*\.ya?ml"
_FILE = {"type": "file", "format": "parquet", "path": "exports/{table}/*.parquet"}
_TABLE = {"type": "clickhouse", "connection_ref": "warehouse", "table": {"schema": "shop"}}


def _metadata(example: dict[str, Any]) -> Any:
    return key("Notes to people, and advice to Airflow.", example=example, default={})


@model(notes=True)
class Metadata:
    """Notes to people, and how Airflow runs the task; in no digest."""

    airflow: AirflowTask = key("How Airflow runs the task of the process.", example={"retries": 2})


@model(notes=True)
class FileMetadata:
    """Notes to people, and how Airflow runs the DAG of the file; in no digest."""

    airflow: AirflowDag = key("How Airflow runs the DAG of the file.", example={"schedule": "@daily", "retries": 2})


@model()
class Inherited:
    """What several processes share."""

    source: Source = key("What is read.", example=_FILE, required=True)
    sink: Sink = key("The table that is loaded.", example=_TABLE, required=True)
    quality: Quality = key("What must be true of the load.", example={"gates": []}, default={})
    depends_on: tuple[str, ...] = key(
        "Processes of this manifest that come first, by selector.", example=["erp.customers"], default=[], unique=True
    )
    metadata: Metadata = _metadata({"owner": "analytics"})


@model()
class Process(Inherited):
    """One load: what is read, which table it becomes, and what must be true of it."""

    name: str = key(
        "The name of the process, or its beginning where several processes inherit it.", example="nightly", pattern=NAME
    )


@model()
class Table:
    """One table of a source schema, with what is different for it."""

    table: str = key("The name of the source table.", example="orders", required=True)
    overrides: Process = key(
        "The strongest layer: keys of this process only.", example={"name": "orders"}, default={}, layer=True
    )
    depends_on: tuple[str, ...] = key(
        "Processes that come first, besides the inherited ones.", example=["erp.customers"], default=[], unique=True
    )


@model()
class SchemaBlock:
    """The tables of one source schema."""

    defaults: Process = key(
        "What the processes of this schema inherit.", example={"source": _FILE}, default={}, layer=True
    )
    tables: tuple[str | Table, ...] = key(
        "One process a table: a name, or a mapping with overrides.",
        example=["orders", {"table": "customers", "overrides": {"name": "customers"}}],
        required=True,
        least=1,
        unique=True,
    )


@model()
class Batch:
    """A batch manifest: one process a table, with inherited defaults."""

    kind: str = key("The kind of this file.", example=BATCH, choices=(BATCH,), required=True)
    defaults: Process = key(
        "What every process inherits.", example={"source": _FILE, "sink": _TABLE}, default={}, layer=True
    )
    quality: Quality = key(
        "The weakest layer of every process's quality.", example={"gates": []}, default={}, layer=True
    )
    schemas: dict[str, SchemaBlock] = key(
        "Source schemas by name, each with its tables.",
        example={"erp": {"tables": ["orders"]}},
        required=True,
        least=1,
        names=IDENTIFIER,
    )
    metadata: FileMetadata = _metadata({"owner": "analytics", "airflow": {"schedule": "@daily"}})


@model()
class Authoring:
    """Which file this is, and where its processes stand."""

    source: str = key("The name of this file, without folders.", example="orders.flow.yaml", required=True)
    mode: str = key(
        "flow: the processes stand in this file; folder: in fragments. Left out: in either.",
        example="folder",
        choices=("flow", "folder"),
    )


@model(layer=("name",))
class FlowProcess(Process):
    """One load of a flow; what it does not say, it inherits."""

    name: str = key("The name of the process, and its selector.", example="orders", required=True, pattern=NAME)


_PROCESSES = [{"name": "orders", "source": _FILE, "sink": _TABLE}]


@model(either=("processes", "fragments"))
class Flow:
    """A flow manifest: named processes, written here or in fragments beside it."""

    kind: str = key("The kind of this file.", example=FLOW, choices=(FLOW,), required=True)
    authoring: Authoring = key("Which file this is.", example={"source": "orders.flow.yaml"}, required=True)
    defaults: Inherited = key("What every process inherits.", example={"sink": _TABLE}, default={}, layer=True)
    quality: Quality = key(
        "The weakest layer of every process's quality.", example={"gates": []}, default={}, layer=True
    )
    processes: tuple[FlowProcess, ...] = key("The processes of this file.", example=_PROCESSES, least=1)
    fragments: tuple[str, ...] = key(
        "Files with more processes: relative paths inside this file's folder.",
        example=["steps/orders.yaml"],
        least=1,
        many=MAX_FRAGMENTS,
        unique=True,
        pattern=FRAGMENT_PATH,
    )
    metadata: FileMetadata = _metadata({"owner": "analytics", "airflow": {"schedule": "@daily"}})


@model()
class Fragment:
    """A part of a flow: processes that inherit from the flow that lists this file."""

    kind: str = key("The kind of this file.", example=FRAGMENT, choices=(FRAGMENT,), required=True)
    processes: tuple[FlowProcess, ...] = key("The processes of this file.", example=_PROCESSES, required=True, least=1)


@model()
class Config(Process):
    """The normalized config of one process; copies of the sink's options agree."""

    kind: str = key("The kind of this file.", example=CONFIG, choices=(CONFIG,), required=True)
    name: str = key("The name of the process, and its selector.", example="orders", required=True, pattern=NAME)
    options: SinkOptions = key("A copy of sink.options.", example={"durable_quality_replay": True}, default={})
    sink_options: SinkOptions = key("A copy of sink.options.", example={"durable_quality_replay": True}, default={})
