"""The paths of a composed load: its coordinators, and the stager that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.hooks_sql import ClickHouseHooks
from dpone_provider.clickhouse.load_steps import ClickHouseLoadStepLog, has_load_steps
from dpone_provider.clickhouse.source_state import ClickHouseSourceStateStore
from dpone_provider.clickhouse.staging import StagedMetrics, staged_metrics
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.finalization import LoadGovernanceFinalizationCoordinator, Notify
from dpone_provider.load.operation import source_key
from dpone_provider.load.payload import Coordinator, PayloadLoadService
from dpone_provider.load.plain import PlainRefresh
from dpone_provider.load.processor import ETLProcessor
from dpone_provider.load.refusals import unreadable
from dpone_provider.load.routes import DurableRoute, PlainRoute
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.runtime.compose import Composition
from dpone_provider.wire import StatementFailed

if TYPE_CHECKING:
    from dpone_provider.load.partition_staging import PartitionedStager
    from dpone_provider.load.reading import StagingRoom
    from dpone_provider.load.staging import ArrowStager


def processor_of(made: Composition, policy_now: Callable[[], QualityPolicy]) -> ETLProcessor:
    """The processor of one run, its path chosen by the spec."""
    spec, around = made.spec, made.around
    states = ClickHouseSourceStateStore(made.control, made.database, new_id=around.new_id)
    cursor = states if spec.source.cursor is not None else None
    return ETLProcessor(
        spec=spec,
        identity=made.identity,
        operation_id=made.operation.operation_id,
        service=PayloadLoadService(
            spec.sink.strategy.mode, staged=lambda: _staged(made), direct=lambda: _direct(made, cursor)
        ),
        policy_now=policy_now,
        check_cancelled=around.check_cancelled,
        notify=around.notify,
        new_id=around.new_id,
        log_of=lambda load_id: _log(made, load_id),
        hooks=ClickHouseHooks(made.sink.connector, around.wire),
        states=cursor,
    )


def _log(made: Composition, load_id: str) -> ClickHouseLoadStepLog | None:
    """Where steps are kept: in their table, if it is there; with the authority in its history (P7)."""
    if made.spec.sink.durable_quality_replay:
        return None
    try:
        if not has_load_steps(made.control, made.database):
            return None
    except StatementFailed as failed:
        raise unreadable(failed, "the table of load steps") from None
    return ClickHouseLoadStepLog(
        client=made.control,
        database=made.database,
        target=str(made.operation.target),
        process=made.spec.process,
        run_id=made.identity.run_id,
        load_id=load_id,
    )


def _direct(made: Composition, states: ClickHouseSourceStateStore | None) -> Coordinator:
    from dpone_provider.load.direct import DirectRoom, LegacyLoadGovernanceCoordinator

    return LegacyLoadGovernanceCoordinator(
        DirectRoom(
            spec=made.spec,
            control=made.control,
            sink=made.sink.connector,
            source=made.source,
            wire=made.around.wire,
            notify=made.around.notify,
            check_cancelled=made.around.check_cancelled,
            observe=lambda request: live_metrics(made, request),
            states=states,
            state_key=source_key(made.spec, made.identity) if states is not None else "",
        )
    )


def _staged(made: Composition) -> Coordinator:
    if made.spec.source.partitions is not None:
        from dpone_provider.runtime.partitions import partitioned

        return partitioned(made)
    return LoadGovernanceFinalizationCoordinator(
        lambda execution: LazyStager(made.admit_target, lambda live: _arrow_stager(made, live, execution)),
        _route(made),
        made.around.notify,
    )


def _route(made: Composition) -> DurableRoute | PlainRoute:
    if made.spec.sink.durable_quality_replay:
        return DurableRoute(made.session, made.operation.operation_id)
    return PlainRoute(plain_refresh(made), lambda request: live_metrics(made, request))


def plain_refresh(made: Composition) -> Callable[[Notify, str], PlainRefresh]:
    """What makes a refresh without the authority, of its ``notify`` and load id."""
    operation, around = made.operation, made.around

    def refresh(notify: Notify, load_id: str) -> PlainRefresh:
        cleaner = Cleaner(operation=operation, catalog=made.catalog, publisher=made.publisher, new_id=around.new_id)
        return PlainRefresh(
            operation,
            made.replicas[0],
            cleaner,
            made.publisher,
            load_id=load_id,
            new_id=around.new_id,
            new_uuid=around.new_uuid,
            notify=notify,
            check_cancelled=around.check_cancelled,
            keep_previous=made.spec.sink.keep_previous,
        )

    return refresh


def live_metrics(made: Composition, request: MetricRequest) -> StagedMetrics:
    """What the live table holds now, in one SELECT."""
    table = made.spec.sink.table
    return staged_metrics(
        made.control,
        table.database,
        table.name,
        request.null_columns,
        request.distinct_columns,
        what="count in the live table",
        replica=made.replicas[0],
    )


class LazyStager:
    """Builds the stager only when something is staged: a committed retry imports no Arrow and reads no source.

    ``make`` builds it for the live table as it was admitted, None when there is none.
    """

    def __init__(
        self,
        admit: Callable[[], TableState | None],
        make: Callable[[TableState | None], ArrowStager | PartitionedStager],
    ) -> None:
        self._admit = admit
        self._make = make
        self._stager: ArrowStager | PartitionedStager | None = None
        self._admitted = False
        self._table: TableState | None = None

    @property
    def rows_read(self) -> int:
        return self._stager.rows_read if self._stager is not None else 0

    @property
    def live(self) -> MetricRequest | None:
        return self._stager.live if self._stager is not None else None

    def admit(self) -> None:
        """Admit the target, once."""
        if not self._admitted:
            self._table, self._admitted = self._admit(), True

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage. Raises ``DponeError``."""
        self.admit()
        self._stager = self._make(self._table)
        return self._stager.stage(order)


def staging_room(made: Composition, live: TableState | None, execution: LoadExecution) -> StagingRoom:
    """What a staging of this load works with."""
    from dpone_provider.load.reading import StagingRoom

    return StagingRoom(
        spec=made.spec,
        clients=made.clients,
        replication=made.replication,
        sink=made.sink.connector,
        source=made.source,
        live=live,
        wire=made.around.wire,
        begin=execution.begin,
        notify=made.around.notify,
        note=execution.note,
    )


def _arrow_stager(made: Composition, live: TableState | None, execution: LoadExecution) -> ArrowStager:
    from dpone_provider.load.staging import ArrowStager

    return ArrowStager(staging_room(made, live, execution))
