"""The direct path: rows are added to the live table (X4, X7, Q5, Q10).

Its sides are the source and the target; nothing is staged. The whole source is read before the first row is sent. What
fails after that is a failure after the commit: nothing is taken back, and a retry may add the same rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

import attrs

from dpone_provider.clickhouse.append import append_rows
from dpone_provider.clickhouse.catalog import TableState
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.admission import admit_counted, admit_live_table, admit_unchanged, admit_unfiltered
from dpone_provider.load.collecting import Collected, collect
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.observing import record_live
from dpone_provider.load.outcome import Attempt
from dpone_provider.load.payload import Loaded, Mark
from dpone_provider.load.ports import SourceStateStore
from dpone_provider.load.refusals import REFUSED_AT_ONCE, explained, unreadable
from dpone_provider.load.verdict import judge_once
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.failure import ReceiptBoundary
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.quality.verdicts import Probe
from dpone_provider.sources.cursor import CursorMark
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.traces import SourceState
from dpone_provider.wire import StatementFailed, Wire

FINALIZATION: Final = "legacy_post_finalize"


@attrs.frozen(kw_only=True)
class DirectRoom:
    """What a direct load works with. ``states``, ``state_key``: of a source with a cursor, else None and ""."""

    spec: LoadSpec
    control: ControlClient
    sink: Endpoint
    source: SourceEndpoint | None
    wire: Wire
    notify: Callable[[str, dict[str, Any]], None]
    check_cancelled: Callable[[], None]
    observe: Callable[[MetricRequest], StagedMetrics]
    states: SourceStateStore | None = None
    state_key: str = ""


class LegacyLoadGovernanceCoordinator:
    """Reads, captures the source, appends, runs the gates once, captures the target."""

    boundary: ReceiptBoundary = "post_commit"
    sides = ("source", "target")

    def __init__(self, room: DirectRoom) -> None:
        self._room = room
        self._table: TableState | None = None
        self._before: SourceState | None = None

    def admit(self, execution: LoadExecution) -> None:
        """The live table, the gates' counts, the mark of the source. Raises ``DponeError``."""
        room = self._room
        self._table = self._admitted(execution)
        if room.states is not None:
            try:
                room.states.admit()
                self._before = room.states.read(room.state_key)
            except StatementFailed as failed:
                raise unreadable(failed, "the state of the source") from None

    def load(self, execution: LoadExecution) -> Loaded:
        """Load. Raises ``DponeError``; where the target stands then is in ``execution.standing``."""
        room, state = self._room, self._table
        if state is None:
            raise LookupError("not admitted")
        if room.spec.sink.pre_sql:  # which may have made another table of it
            state = self._admitted(execution)
        room.check_cancelled()
        execution.require_unchanged("pre_commit")
        room.notify("collect", {})
        with ExitStack() as kept:
            collected = collect(room, execution, state, self._after(), kept)
            admit_unchanged(room.control, room.spec.sink.table, state)
            execution.require_unchanged("pre_commit")
            room.check_cancelled()
            if collected.rows:  # without rows nothing is sent
                room.notify("append", {"rows": collected.rows})
            written = self._append(execution, collected, state)
        if collected.rows:
            room.notify("appended", {"rows": collected.rows})
        facts = {"rows": collected.rows, "written_rows": written, "governance_finalization": FINALIZATION}
        execution.note("finalized", facts)
        execution.require_unchanged("post_commit")
        receipt = self._gate(execution, collected.rows, written)
        acceptance = dict(collected.acceptance)
        if collected.target is not None:
            acceptance["target"] = record_live(collected.target, room.observe)
            execution.standing.final_rows = acceptance["target"]["row_count"]
            execution.note("target_metrics_captured", {"row_count": execution.standing.final_rows})
        return self._loaded(execution, collected, receipt, acceptance)

    def facts(self) -> Mapping[str, Any]:
        """Nothing beyond what the run itself knows."""
        return {}

    def _admitted(self, execution: LoadExecution) -> TableState:
        control, table = self._room.control, self._room.spec.sink.table
        state = admit_live_table(control, table)
        admit_counted(execution.policy, state, table)
        acceptance = execution.policy.acceptance
        if acceptance is not None and "target" in acceptance.sides:
            admit_unfiltered(control, table)
        return state

    def _after(self) -> CursorMark | None:
        cursor = self._room.spec.source.cursor
        if cursor is None:
            return None
        return CursorMark(column=cursor.column, value=self._before.value if self._before is not None else None)

    def _append(self, execution: LoadExecution, collected: Collected, state: TableState) -> int | None:
        """Send the rows, once. The answer: how many the server wrote, None when it cannot say because of views."""
        room, standing = self._room, execution.standing

        def started() -> None:
            standing.target, standing.inserted_rows, standing.final_rows = "unknown", None, None

        try:
            written = append_rows(
                room.sink,
                database=room.spec.sink.table.database,
                table=room.spec.sink.table.name,
                columns=tuple(collected.schema.names),
                schema=collected.schema,
                batches=collected.batches(),
                wire=room.wire,
                started=started,
                feeds_views=bool(state.dependents),
                query_id=execution.load_id,
            )
        except StatementFailed as failed:
            raise self._failed(execution, failed, state) from failed
        if standing.target == "unknown":
            standing.target = "mutation_returned_success"
        standing.inserted_rows = written
        if written is None and not state.dependents:
            raise _uncertain(execution, "The server acknowledged the rows and did not say how many it wrote.")
        if written is not None and written != collected.rows:
            message = f"{collected.rows} rows were sent, the server says that it wrote {written}."
            raise DponeError("DPONE_APPEND_COUNT_MISMATCH", message, target_commit="unknown")
        if standing.target != "not_mutated":
            self._require_same(execution, state)
        return written

    def _require_same(self, execution: LoadExecution, state: TableState) -> None:
        """The rows are proven for the table that was admitted, no other one. Raises DPONE_APPEND_UNCERTAIN."""
        try:
            admit_unchanged(self._room.control, self._room.spec.sink.table, state)
        except DponeError as error:
            execution.standing.target = "unknown"
            raise _uncertain(
                execution, "The target was replaced or altered meanwhile, or is not to be seen."
            ) from error

    def _failed(self, execution: LoadExecution, failed: StatementFailed, state: TableState) -> DponeError:
        refusal = explained(failed)
        if failed.code in REFUSED_AT_ONCE and not state.dependents:
            execution.standing.target, execution.standing.inserted_rows = "not_mutated", 0
            message = f"The server refused the insert ({refusal.cause})."
            return DponeError("DPONE_SERVER_REFUSED", message, boundary="pre_commit", remedy=refusal.remedy)
        return _uncertain(execution, f"The insert failed after it began ({refusal.cause}).")

    def _gate(self, execution: LoadExecution, sent: int, written: int | None) -> QualityGateReceipt:
        """Run the gates, once, over what was sent and what the server says it wrote."""
        source, target = Probe(row_count=sent, typed_hash=None), Probe(row_count=written, typed_hash=None)
        return judge_once(execution, self.boundary, source=source, target=target, adds=True)

    def _loaded(
        self,
        execution: LoadExecution,
        collected: Collected,
        receipt: QualityGateReceipt,
        acceptance: Mapping[str, Any],
    ) -> Loaded:
        standing, rows = execution.standing, collected.rows
        attempt = Attempt(number=1, epoch=0, phases=("APPENDED",), source_reads=1, rows=rows, publications=0)
        return Loaded(
            receipt=receipt,
            load_id=execution.load_id,
            gates=receipt.report.payload(),
            acceptance=acceptance,
            extracted_rows=rows,
            inserted_rows=standing.inserted_rows,
            final_rows=standing.final_rows,
            generation="",
            attempts=(attempt,),
            finalization=FINALIZATION,
            mark=self._mark(collected),
        )

    def _mark(self, collected: Collected) -> Mark | None:
        """The mark that the load has earned, None when it is where it was."""
        before = self._before
        if self._room.states is None or collected.mark is None or (before and before.value == collected.mark):
            return None
        return Mark(key=self._room.state_key, expected=before, value=collected.mark)


def _uncertain(execution: LoadExecution, message: str) -> DponeError:
    message = f"{message} Its query_id is {execution.load_id}."
    return DponeError("DPONE_APPEND_UNCERTAIN", message, target_commit="unknown")
