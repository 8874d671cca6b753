"""Which operation a process and a run identity are: the one place, for a load, for its plan and for its status."""

from __future__ import annotations

from dpone_provider import canonical
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.identity import Operation, Target


def operation_of(spec: LoadSpec, identity: RunIdentity) -> Operation:
    """The operation that a process and a run identity name (I1). Pure, and imports no driver."""
    sink = spec.sink
    return Operation(
        namespace=identity.namespace,
        dag_id=identity.dag_id,
        run_id=identity.run_id,
        task_id=identity.task_id,
        map_index=identity.map_index,
        process=spec.process,
        target=Target(cluster=sink.cluster, database=sink.table.database, table=sink.table.name),
        reprocess=identity.reprocess,
    )


def source_key(spec: LoadSpec, identity: RunIdentity) -> str:
    """The key of the mark of a source that is read by cursor: canonical JSON text, which people can read.

    The same process, target and column in the same namespace have one mark, in every DAG and run, and whatever the
    source's query or path says today.
    """
    cursor, table = spec.source.cursor, spec.sink.table
    if cursor is None:
        raise ValueError("a source without a cursor has no mark")
    return canonical.encode(
        {
            "namespace": identity.namespace,
            "process": spec.process,
            "target": f"{table.database}.{table.name}",
            "column": cursor.column,
        }
    )


def observes_target(spec: LoadSpec) -> bool:
    """Whether the live table is to be observed; only the route with the authority does (X5)."""
    acceptance = spec.quality.acceptance
    return spec.sink.durable_quality_replay and acceptance is not None and "target" in acceptance.sides
