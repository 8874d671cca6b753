"""The composed paths of a load by partitions: its journal and artefacts, the path that loads, the one that resumes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from dpone_provider.clickhouse.catalog import TableState, table_state
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.load.bounds import count_parts
from dpone_provider.load.columns import Columns, append_columns
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.finalization import LoadGovernanceFinalizationCoordinator
from dpone_provider.load.moving import Roads
from dpone_provider.load.own_tables import OwnTables
from dpone_provider.load.partition_staging import PartitionedStager
from dpone_provider.load.partitioned import PartitionedCoordinator
from dpone_provider.load.payload import Coordinator
from dpone_provider.load.refusals import unreadable
from dpone_provider.load.replacing import PartitionReplaceCoordinator, ReplacingRoom
from dpone_provider.load.resume import ResumeCoordinator
from dpone_provider.load.routes import PlainRoute
from dpone_provider.load.transfer import Transfer, TransferRun
from dpone_provider.manifest.partitions import artifact_folder, transfer_folder
from dpone_provider.manifest.spec import Partitions
from dpone_provider.native.artifact import ArtifactStore
from dpone_provider.native.journal import CheckpointJournal
from dpone_provider.native.places import LocalPlace, Place, RemotePlace
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.runtime.compose import Composition
from dpone_provider.runtime.paths import LazyStager, live_metrics, plain_refresh, staging_room
from dpone_provider.sources.partition import dataset, plan_partitions
from dpone_provider.wire import StatementFailed


def partitioned(made: Composition) -> Coordinator:
    """The coordinator of a load by partitions."""
    return PartitionedCoordinator(
        lambda execution: _begin(made, execution),
        loads=lambda transfer, execution: _loading(made, transfer, execution),
        resumes=lambda transfer: _resuming(made, transfer),
        notify=made.around.notify,
    )


def _replaces(made: Composition) -> bool:
    return made.spec.sink.strategy.mode == "partition_replace"


def _begin(made: Composition, execution: LoadExecution) -> Transfer:
    parts, operation_id, around = made.spec.source.partitions, made.operation.operation_id, made.around
    if parts is None:
        raise LookupError("a load without partitions")
    folder = Path(transfer_folder(parts)) / operation_id
    journal = made.kept.enter_context(CheckpointJournal.open(folder, around.files))
    around.notify("plan", {})
    plan = plan_partitions(made.spec, made.source, around.wire)
    return Transfer(
        TransferRun(
            run_id=made.identity.run_id,
            load_id=execution.load_id,
            operation_id=operation_id,
            dataset=dataset(made.spec.source),
            folder=folder,
            files=around.files,
        ),
        journal,
        ArtifactStore(_place(made, parts, folder)),
        plan.partitions,
        schema=plan.schema,
        replaces=_replaces(made),
    )


def _place(made: Composition, parts: Partitions, folder: Path) -> Place:
    kept = artifact_folder(parts)
    if "://" in kept:
        return RemotePlace(f"{kept.rstrip('/')}/{made.operation.operation_id}")
    where = Path(kept) / made.operation.operation_id if kept else folder / "artifacts"
    return LocalPlace(folder=where, files=made.around.files)


def _loading(made: Composition, transfer: Transfer, execution: LoadExecution) -> Coordinator:
    if _replaces(made):
        return PartitionReplaceCoordinator(_replacing_room(made, transfer), transfer)

    def keep() -> None:
        execution.standing.checkpoints = "unknown"
        transfer.committed(transfer.active)
        execution.standing.checkpoints = "committed"

    return LoadGovernanceFinalizationCoordinator(
        lambda execution: LazyStager(
            made.admit_target,
            lambda live: PartitionedStager(
                staging_room(made, live, execution), transfer, execution, made.around.check_cancelled
            ),
        ),
        PlainRoute(plain_refresh(made), lambda request: live_metrics(made, request), keep),
        made.around.notify,
    )


def _replacing_room(made: Composition, transfer: Transfer) -> ReplacingRoom:
    around, spec = made.around, made.spec

    def roads(live: TableState) -> Roads:
        def columns(schema: pa.Schema) -> Columns:
            return append_columns(schema.names, spec.sink.columns, live.columns)

        return Roads(
            spec=spec,
            sink=made.sink.connector,
            source=made.source,
            wire=around.wire,
            known=tuple((column.name, column.type) for column in live.columns),
            columns=columns,
            notify=around.notify,
            check_cancelled=around.check_cancelled,
        )

    return ReplacingRoom(
        table=spec.sink.table,
        hooked=bool(spec.sink.pre_sql),
        control=made.control,
        tables=OwnTables(
            table=spec.sink.table,
            operation=made.operation,
            replica=made.replicas[0],
            cleaner=Cleaner(
                operation=made.operation, catalog=made.catalog, publisher=made.publisher, new_id=around.new_id
            ),
            sink=made.sink.connector,
            wire=around.wire,
            new_id=around.new_id,
            new_uuid=around.new_uuid,
        ),
        admit_target=made.admit_target,
        roads=roads,
        observe=lambda request: _within(made, transfer, request),
    )


def _resuming(made: Composition, transfer: Transfer) -> Coordinator:
    table = made.spec.sink.table

    def columns() -> tuple[str, ...]:
        try:
            state = table_state(made.control, table.database, table.name)
        except StatementFailed as failed:
            raise unreadable(failed, "the target") from None
        return tuple(column.name for column in state.columns) if state is not None else ()

    def observe(request: MetricRequest) -> StagedMetrics:
        return _within(made, transfer, request) if _replaces(made) else live_metrics(made, request)

    target, notify = f"{table.database}.{table.name}", made.around.notify
    return ResumeCoordinator(transfer, columns=columns, observe=observe, dataset=target, notify=notify)


def _within(made: Composition, transfer: Transfer, request: MetricRequest) -> StagedMetrics:
    """What the live table holds within the planned partitions."""
    parts = [each.part for each in transfer.partitions]
    return count_parts(made.control, made.spec.sink.table, parts, transfer.targets(), request.null_columns)
