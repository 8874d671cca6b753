"""Run one load: choose the route, run it, say what is true afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import Attempt, LoadOutcome, RunIdentity, attempts_of
from dpone_provider.manifest.replay_route import require_route
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.receipt import QualityGateExecution, QualityGateReceipt
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.replay.session import QualityReplaySession
from dpone_provider.runtime.compose import REPLICA, Composition, Surroundings, compose
from dpone_provider.runtime.connections import Connections
from dpone_provider.runtime.sink import ClickHouseSink

if TYPE_CHECKING:
    from dpone_provider.load.staging import ArrowStager


def run_load(
    spec: LoadSpec,
    identity: RunIdentity,
    connections: Connections,
    around: Surroundings | None = None,
    *,
    sink: ClickHouseSink | None = None,
) -> LoadOutcome:
    """Run a load to its proven end. ``sink``: one that the caller composed itself, a reader of its own in it, say.

    Raises ``DponeError``; its ``context`` then holds ``attempts`` and ``counters`` of this attempt,
    ``replay_details`` of the operation and ``duration_seconds``, for ``failure_document``. Only a return is a
    success: the table is live and the proof complete.
    """
    require_route(spec)
    around = around or Surroundings()
    started = around.clock()
    with compose(spec, identity, connections, around, sink) as made:
        run = _Durable(made) if spec.sink.durable_quality_replay else _Plain(made)
        try:
            outcome = run.run()
        except DponeError as error:
            facts = {"duration_seconds": around.clock() - started, **run.facts()}
            error.context = {**facts, **error.context}
            raise
    return attrs.evolve(outcome, duration_seconds=around.clock() - started)


class _LazyStager:
    """Builds the Arrow stager only when something is staged: a committed retry imports no Arrow and reads no source."""

    def __init__(self, made: Composition) -> None:
        self._made = made
        self._stager: ArrowStager | None = None
        self._admitted = False
        self._live: TableState | None = None
        self._execution: QualityGateExecution | None = None
        self._receipt: QualityGateReceipt | None = None

    @property
    def rows_read(self) -> int:
        return self._stager.rows_read if self._stager is not None else 0

    def admit(self) -> None:
        """Admit the target, once."""
        if not self._admitted:
            self._live, self._admitted = self._made.admit_target(), True

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
                live=self._live,
                replicas=(REPLICA,),
                wire=made.around.wire,
                begin=self._begin,
                notify=made.around.notify,
            )
        )
        proof = self._stager.stage(order)
        self._receipt = proof.receipt
        return proof

    def accept_state(self) -> None:
        """Use up the receipt of the gates that ran here, at the load's end; nothing when nothing was staged."""
        if self._execution is not None:
            self._execution.accept_state(self._receipt)

    def _begin(self, load_id: str) -> QualityGateExecution:
        made = self._made
        self._execution = QualityGateExecution(policy=made.spec.quality, run_id=made.identity.run_id, load_id=load_id)
        return self._execution


class _Durable:
    """The route with the authority."""

    def __init__(self, made: Composition) -> None:
        self._made = made
        self._stager = _LazyStager(made)
        self._session: QualityReplaySession | None = None

    def run(self) -> LoadOutcome:
        made = self._made
        self._session = made.session()
        finished = self._session.run(self._stager)
        self._stager.accept_state()
        document = finished.document
        counters = self._session.tenure.counters
        return LoadOutcome(
            spec=made.spec,
            identity=made.identity,
            durable=True,
            replayed=finished.replayed,
            target_commit="proven",
            extracted_rows=counters.rows,
            inserted_rows=counters.rows,
            final_rows=finished.rows,
            duration_seconds=0.0,
            generation=finished.record.generation or "",
            gates=document["quality_gates"],
            acceptance=document["acceptance"],
            attempts=attempts_of(finished.history, made.operation.operation_id),
            operation_id=made.operation.operation_id,
            load_id=finished.load_id,
            quality_replay=document,
            leftovers=finished.cleaned.failed + finished.cleaned.left,
        )

    def facts(self) -> dict[str, Any]:
        """What is known after a failure."""
        session = self._session
        if session is None:
            return {"attempts": 1}
        return {
            "attempts": session.tenure.attempt,
            "counters": {"extracted_rows": self._stager.rows_read, "inserted_rows": session.tenure.counters.rows},
            "replay_details": session.details(),
        }


class _Plain:
    """The route without the authority."""

    def __init__(self, made: Composition) -> None:
        self._made = made
        self._stager = _LazyStager(made)

    def run(self) -> LoadOutcome:
        from dpone_provider.load.plain import PlainRefresh

        made, around = self._made, self._made.around
        self._stager.admit()
        cleaner = Cleaner(
            operation=made.operation, catalog=made.catalog, publisher=made.publisher, new_id=around.new_id
        )
        refresh = PlainRefresh(
            made.operation,
            REPLICA,
            cleaner,
            made.publisher,
            new_id=around.new_id,
            new_uuid=around.new_uuid,
            notify=around.notify,
            check_cancelled=around.check_cancelled,
            keep_previous=made.spec.sink.keep_previous,
        )
        published = refresh.run(self._stager)
        self._stager.accept_state()
        rows = published.proof.rows
        attempt = Attempt(number=1, epoch=0, phases=("PUBLISHED",), source_reads=1, rows=rows, publications=1)
        return LoadOutcome(
            spec=made.spec,
            identity=made.identity,
            durable=False,
            replayed=False,
            target_commit="proven",
            extracted_rows=rows,
            inserted_rows=rows,
            final_rows=rows,
            duration_seconds=0.0,
            generation=published.generation,
            gates=published.proof.report,
            acceptance=published.proof.acceptance,
            attempts=(attempt,),
            operation_id=made.operation.operation_id,
            load_id=published.load_id,
            leftovers=published.cleaned.failed + published.cleaned.left,
        )

    def facts(self) -> dict[str, Any]:
        """What is known after a failure."""
        return {"attempts": 1, "counters": {"extracted_rows": self._stager.rows_read, "inserted_rows": 0}}
