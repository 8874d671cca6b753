"""What a staged generation proves: its rows counted, its gates passed, its sides observed (protocol 4; X2, X3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpone_provider import canonical
from dpone_provider.clickhouse import staging
from dpone_provider.clickhouse.catalog import TableState, table_state
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.gating import Gating
from dpone_provider.load.reading import Reading, StagingRoom, record_counted
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.target_plan import admit_memory, target_plan
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.acceptance import AcceptanceMetricsRecorder
from dpone_provider.reader.admission import approximate_distinct
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.sources.fit import Fit
from dpone_provider.wire import StatementFailed


class Prover:
    """Proves one generation, once its rows are written."""

    def __init__(self, room: StagingRoom, order: StagingOrder, reading: Reading) -> None:
        self._room = room
        self._order = order
        self._reading = reading

    def prove(self) -> StagedProof:
        """Count, gate, observe. Raises ``DponeError``: another number of rows, a gate, an observation not to be had."""
        room, spec, order, reading = self._room, self._room.spec, self._order, self._reading
        source, fit = reading.source, reading.fit
        staged = reading.asked.get("staged")
        nulls, distinct = (staged.null_columns, staged.distinct_columns) if staged is not None else ((), ())
        order.keep_alive()
        room.notify("verify", {})
        try:
            counted = staging.staged_metrics(room.control, spec.sink.table.database, order.name, nulls, distinct)
            state = table_state(room.control, spec.sink.table.database, order.name)
        except StatementFailed as failed:
            raise staging_failed(failed, "The staged generation could not be counted") from failed
        if state is None or state.uuid != order.uuid or counted.row_count != source.rows:
            raise DponeError(
                "DPONE_STAGED_COUNT_MISMATCH",
                f"{source.rows} rows were sent, the generation holds {counted.row_count}.",
            )
        room.note("staged", {"rows": source.rows, "bytes": source.bytes, "columns": len(fit.target_columns)})
        order.keep_alive()
        gating = Gating(room, order, reading)
        receipt = gating.judge(counted.row_count)
        recorder = AcceptanceMetricsRecorder(reading.asked.values())
        for request in recorder.open_requests:
            side = reading.observer if request.side == "source" else counted
            record_counted(recorder, request, side)
            columns = len({*request.null_columns, *request.distinct_columns})
            room.note(f"{request.side}_metrics_captured", {"row_count": side.row_count, "columns": columns})
        return StagedProof(
            rows=source.rows,
            source_probe=gating.source.payload(),
            target_probe=gating.target.payload(),
            report=receipt.report.payload(),
            acceptance=recorder.snapshots(),
            effective_plan=_effective_plan(spec, source.schema, fit),
            desired={
                "uuid": order.uuid,
                "engine_full": state.engine_full,
                "schema_digest": canonical.digest([list(pair) for pair in fit.target_columns]),
                "keeper_name": "",
                "keeper_path": _keeper_path(state),
            },
            target_plan=self._target_plan(state, counted),
            receipt=receipt,
        )

    def _target_plan(self, state: TableState, counted: StagedMetrics) -> dict[str, Any] | None:
        """What is to be observed of the live generation, its memory admitted; None when nothing is."""
        request, room = self._reading.target, self._room
        if request is None:
            return None
        columns = tuple((column.name, column.type) for column in state.columns)
        admit_memory(request, columns, counted, self._approximate)
        return target_plan(room.spec, request, columns, room.replicas)

    def _approximate(self, names: Sequence[str]) -> Mapping[str, int]:
        room = self._room
        try:
            return approximate_distinct(room.control, room.spec.sink.table.database, self._order.name, names)
        except StatementFailed as failed:
            raise staging_failed(failed, "The distinct values of the generation could not be estimated") from failed


def _keeper_path(state: TableState) -> str:
    return staging.KEEPER_PATH.replace("{uuid}", state.uuid) if state.engine == staging.REPLICATED else ""


def _effective_plan(spec: LoadSpec, schema: pa.Schema, fit: Fit) -> dict[str, Any]:
    admission = admission_digest(spec)
    plan = {
        "contract_version": "dpone.quality.replay.identity.v1",
        "admission_digest": admission,
        "effective_config_digest": admission,
        "source_schema_digest": _digest([[field.name, str(field.type), field.nullable] for field in schema]),
        "payload_schema_digest": _digest([[field.name, str(field.type)] for field in fit.wire_schema]),
        "target_schema_digest": _digest([list(pair) for pair in fit.target_columns]),
    }
    return {**plan, "effective_plan_digest": _digest(plan)}


def _digest(value: Any) -> str:
    return "sha256:" + canonical.digest(value)
