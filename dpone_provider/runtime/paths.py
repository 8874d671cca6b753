"""The paths of a composed load: its coordinators, and the stager that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.staging import StagedMetrics, staged_metrics
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.finalization import LoadGovernanceFinalizationCoordinator, Notify
from dpone_provider.load.payload import PayloadLoadService
from dpone_provider.load.plain import PlainRefresh
from dpone_provider.load.processor import ETLProcessor
from dpone_provider.load.routes import DurableRoute, PlainRoute
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.runtime.compose import REPLICA, Composition

if TYPE_CHECKING:
    from dpone_provider.load.staging import ArrowStager


def processor_of(made: Composition, policy_now: Callable[[], QualityPolicy]) -> ETLProcessor:
    """The processor of one run, its path chosen by the spec."""
    staged = LoadGovernanceFinalizationCoordinator(
        lambda execution: _LazyStager(made, execution), _route(made), made.around.notify
    )
    return ETLProcessor(
        spec=made.spec,
        identity=made.identity,
        operation_id=made.operation.operation_id,
        service=PayloadLoadService(made.spec.sink.strategy.mode, staged=staged, direct=staged),
        policy_now=policy_now,
        check_cancelled=made.around.check_cancelled,
    )


def _route(made: Composition) -> DurableRoute | PlainRoute:
    operation, around = made.operation, made.around
    if made.spec.sink.durable_quality_replay:
        return DurableRoute(made.session, operation.operation_id)

    def refresh(notify: Notify) -> PlainRefresh:
        cleaner = Cleaner(operation=operation, catalog=made.catalog, publisher=made.publisher, new_id=around.new_id)
        return PlainRefresh(
            operation,
            REPLICA,
            cleaner,
            made.publisher,
            new_id=around.new_id,
            new_uuid=around.new_uuid,
            notify=notify,
            check_cancelled=around.check_cancelled,
            keep_previous=made.spec.sink.keep_previous,
        )

    return PlainRoute(refresh, lambda request: _live_metrics(made, request))


def _live_metrics(made: Composition, request: MetricRequest) -> StagedMetrics:
    """What the live table holds now, in one SELECT."""
    table = made.spec.sink.table
    return staged_metrics(
        made.control, table.database, table.name, request.null_columns, request.distinct_columns, replica=REPLICA
    )


class _LazyStager:
    """Builds the Arrow stager only when something is staged: a committed retry imports no Arrow and reads no source."""

    def __init__(self, made: Composition, execution: LoadExecution) -> None:
        self._made = made
        self._execution = execution
        self._stager: ArrowStager | None = None
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
            self._table, self._admitted = self._made.admit_target(), True

    def stage(self, order: StagingOrder) -> StagedProof:
        self.admit()
        from dpone_provider.load.staging import ArrowStager, StagingRoom

        made = self._made
        self._stager = ArrowStager(
            StagingRoom(
                spec=made.spec,
                control=made.control,
                sink=made.sink.connector,
                source=made.source,
                live=self._table,
                replicas=(REPLICA,),
                wire=made.around.wire,
                begin=self._execution.begin,
                notify=made.around.notify,
                note=self._execution.note,
            )
        )
        return self._stager.stage(order)
