"""The two drivers of a staged load: with the authority, and without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.load.finalization import Notify, Watched
from dpone_provider.load.observing import record_live
from dpone_provider.load.outcome import Attempt, attempts_of
from dpone_provider.load.payload import Loaded
from dpone_provider.load.plain import PlainRefresh
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.replay.session import QualityReplaySession


def _nothing() -> None:
    return None


class DurableRoute:
    """``QualityReplaySession``. ``session`` makes it, its authority admitted, with the ``notify`` that it must use."""

    def __init__(self, session: Callable[[Notify], QualityReplaySession], operation_id: str) -> None:
        self._make = session
        self._operation_id = operation_id
        self._session: QualityReplaySession | None = None
        self._watched: Watched | None = None

    def admit(self, watched: Watched) -> None:
        """Admit the authority (A1)."""
        self._watched = watched
        self._session = self._make(watched.told)

    def run(self, watched: Watched) -> Loaded:
        """Finish the operation. Its own proof is used up under the guard; a receipt of this run's gates is left."""
        session, execution = self._admitted, watched.execution
        finished = session.run(watched)
        if watched.observed:
            execution.note("target_metrics_captured")
        if finished.replayed:
            execution.resume(finished.proof.execution, finished.proof.receipt)
        receipt = finished.proof.receipt if finished.replayed or watched.proof is None else watched.proof.receipt
        counters, document = session.tenure.counters, finished.document
        return Loaded(
            receipt=receipt,
            load_id=finished.load_id,
            gates=document["quality_gates"],
            acceptance=document["acceptance"],
            extracted_rows=counters.rows,
            inserted_rows=counters.rows,
            final_rows=finished.rows,
            generation=finished.record.generation or "",
            attempts=attempts_of(finished.history, self._operation_id),
            replayed=finished.replayed,
            quality_replay=document,
            leftovers=finished.cleaned.failed + finished.cleaned.left,
        )

    def facts(self) -> Mapping[str, Any]:
        """What the authority and this attempt's counters say."""
        if self._session is None or self._watched is None:
            return {"attempts": 1, "replay_details": {}}
        session = self._session
        return {
            "attempts": session.tenure.attempt,
            "counters": {
                "extracted_rows": self._watched.staging.rows_read,
                "inserted_rows": session.tenure.counters.rows,
            },
            "replay_details": session.details(),
        }

    @property
    def _admitted(self) -> QualityReplaySession:
        if self._session is None:
            raise LookupError("not admitted")
        return self._session


class PlainRoute:
    """``PlainRefresh``, made with its ``notify`` and load id.

    ``observe`` counts in the live table, after the switch and before anything is dropped (X3). ``keep`` is called
    first of all once the new table is live (N5).
    """

    def __init__(
        self,
        refresh: Callable[[Notify, str], PlainRefresh],
        observe: Callable[[MetricRequest], StagedMetrics],
        keep: Callable[[], None] = _nothing,
    ) -> None:
        self._refresh = refresh
        self._observe = observe
        self._keep = keep

    def admit(self, watched: Watched) -> None:
        """Admit the target."""
        watched.admit()

    def run(self, watched: Watched) -> Loaded:
        """Load. What fails after the switch is a failure after the commit: nothing is rolled back (X7)."""
        execution = watched.execution
        acceptance: dict[str, Any] = {}

        def committed() -> None:
            proof = watched.proof
            if proof is None:
                raise LookupError("nothing was staged")
            execution.standing.target = "mutation_returned_success"
            execution.standing.inserted_rows = execution.standing.final_rows = proof.rows
            self._keep()
            execution.note("finalized", {"rows": proof.rows, "target_commit": "proven"})
            acceptance.update(proof.acceptance)
            if watched.staging.live is not None:
                acceptance["target"] = record_live(watched.staging.live, self._observe)
                execution.note("target_metrics_captured", {"row_count": acceptance["target"]["row_count"]})
            execution.require_unchanged("post_commit")

        published = self._refresh(watched.told, execution.load_id).run(watched, committed)
        rows = published.proof.rows
        left = published.cleaned.failed + published.cleaned.left
        if left:
            execution.note_failure("cleanup_incomplete")
        attempt = Attempt(number=1, epoch=0, phases=("PUBLISHED",), source_reads=1, rows=rows, publications=1)
        return Loaded(
            receipt=published.proof.receipt,
            load_id=published.load_id,
            gates=published.proof.report,
            acceptance=acceptance,
            extracted_rows=rows,
            inserted_rows=rows,
            final_rows=rows,
            generation=published.generation,
            attempts=(attempt,),
            leftovers=left,
        )

    def facts(self) -> Mapping[str, Any]:
        """Nothing beyond what the run itself knows."""
        return {}
