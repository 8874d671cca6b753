"""One private generation: read, check, write, count, gate and observe (protocol 4; X2, X3, P8).

The source is streamed once, as one INSERT. Whatever fails raises; the caller drops the generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from dpone_provider import canonical
from dpone_provider.clickhouse import staging
from dpone_provider.clickhouse.bulk import insert_stream
from dpone_provider.clickhouse.catalog import TableState, table_state
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.columns import Columns, key_columns, resolve_columns
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.target_plan import admit_memory, admit_request, target_plan
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.acceptance import AcceptanceMetricsRecorder, MetricRequest, plan_requests
from dpone_provider.quality.gates import Probe, QualityGateFailure
from dpone_provider.quality.metric_request import UNAVAILABLE, unobserved
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.reader.admission import approximate_distinct
from dpone_provider.replay.identity import authored_comment
from dpone_provider.replay.ports import StagedProof, StagingOrder
from dpone_provider.sources.fit import Fit, derive_columns, plan_fit
from dpone_provider.sources.observe import SourceObserver, Unavailable
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.wire import StatementFailed, Wire

BOUNDARY: Final = "pre_commit"


@attrs.frozen(kw_only=True)
class StagingRoom:
    """What a staging works with.

    ``live``: the target table as admitted, None when there is none; ``replicas``: the inventory's names.
    """

    spec: LoadSpec
    control: ControlClient
    sink: Endpoint
    source: Endpoint | None
    live: TableState | None
    replicas: tuple[str, ...]
    wire: Wire
    run_id: str
    notify: Callable[[str, dict[str, Any]], None]


@attrs.frozen(kw_only=True)
class _Reading:
    """One open source on its way into the generation.

    ``asked``: what acceptance asks here, by side; ``target``: what it asks of the live generation later, if anything.
    """

    source: OpenSource
    fit: Fit
    asked: Mapping[str, MetricRequest]
    observer: SourceObserver
    target: MetricRequest | None

    def require_observable(self) -> None:
        """Refuse as soon as a required count cannot be made.

        A type that is not counted, too many distinct values (X5).
        """
        request = self.asked.get("source")
        for name, reason in self.observer.unavailable if request is not None and request.required else ():
            raise unobserved("source", UNAVAILABLE["source"], f"Column {name}: {reason}.")


class ArrowStager:
    """Stages through Arrow record batches.

    ``rows_read`` counts what was read from the source so far, also after a failure.
    """

    def __init__(self, room: StagingRoom) -> None:
        self._room = room
        self.rows_read = 0
        live = room.live
        self._live = tuple((column.name, column.type) for column in live.columns) if live is not None else None

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage one generation and prove it.

        Raises ``DponeError``; see the boundary ``pre_commit`` of ``docs/errors.md``.
        """
        room, spec = self._room, self._room.spec
        known = {**dict(self._live or ()), **dict(spec.sink.columns)}  # text formats are parsed as these types
        with open_source(spec.source, room.source, wire=room.wire, columns=tuple(known.items())) as source:
            columns = self._columns(source.schema)
            reading = self._reading(order, source, columns)
            reading.require_observable()
            self._create(order, columns)
            self._insert(order, reading)
        return self._prove(order, reading)

    def _reading(self, order: StagingOrder, source: OpenSource, columns: Columns) -> _Reading:
        fit = plan_fit(source.schema, columns)
        asked = self._requests(order, source, tuple(name for name, _ in columns))
        target = asked.pop("target") if "target" in asked and self._room.spec.sink.durable_quality_replay else None
        if target is not None:
            admit_request(target, columns)
        request = asked.get("source")
        nulls, distinct = (request.null_columns, request.distinct_columns) if request is not None else ((), ())
        observer = SourceObserver(fit.wire_schema, null_columns=nulls, distinct_columns=distinct)
        return _Reading(source=source, fit=fit, asked=asked, observer=observer, target=target)

    def _requests(self, order: StagingOrder, source: OpenSource, names: tuple[str, ...]) -> dict[str, MetricRequest]:
        """What acceptance asks of each side; only the durable route has a target side (X5)."""
        sink = self._room.spec.sink
        datasets = {
            "source": source.dataset,
            "staged": f"{sink.table.database}.{order.name}",
            "target": f"{sink.table.database}.{sink.table.name}",
        }
        sides = ("source", "staged", "target") if sink.durable_quality_replay else ("source", "staged")
        planned = plan_requests(self._room.spec.quality.acceptance, dict.fromkeys(sides, names), datasets)
        return {request.side: request for request in planned}

    def _columns(self, schema: pa.Schema) -> Columns:
        sink = self._room.spec.sink
        derived = derive_columns(schema, required=key_columns(sink.design, schema.names))
        return resolve_columns(derived=derived, explicit=sink.columns, live=self._live)

    def _create(self, order: StagingOrder, columns: Columns) -> None:
        room, sink = self._room, self._room.spec.sink
        kept = authored_comment(room.live.comment) if room.live is not None else ""
        room.notify("create", {"name": order.name})
        try:
            staging.create_generation(
                room.control,
                database=sink.table.database,
                name=order.name,
                uuid=order.uuid,
                columns=columns,
                design=sink.design,
                comment=f"{kept}\n{order.mark}" if kept else order.mark,
            )
        except StatementFailed as failed:
            raise staging_failed(failed, "The generation's table could not be created") from failed

    def _insert(self, order: StagingOrder, reading: _Reading) -> None:
        room, sink = self._room, self._room.spec.sink
        try:
            insert_stream(
                room.sink,
                database=sink.table.database,
                table=order.name,
                columns=tuple(reading.fit.wire_schema.names),
                schema=reading.fit.wire_schema,
                batches=self._checked(order, reading),
                wire=room.wire,
            )
        except StatementFailed as failed:
            raise staging_failed(failed, "The insert into the generation failed") from failed

    def _checked(self, order: StagingOrder, reading: _Reading) -> Iterator[pa.RecordBatch]:
        """Batches as they go on the wire: alive, within budget, fitting, observed."""
        budget = self._room.spec.sink.strategy.max_source_bytes
        source, observer = reading.source, reading.observer
        for batch in source.batches():
            order.keep_alive()
            self.rows_read = source.rows
            if budget is not None and source.bytes > budget:
                raise DponeError(
                    "DPONE_SOURCE_TOO_LARGE", f"The source is over its budget of {budget} bytes (max_source_bytes)."
                )
            converted = reading.fit.convert(batch)
            observer.observe(converted)
            reading.require_observable()
            self._room.notify("rows", {"rows": source.rows, "total": source.total_rows, "bytes": source.bytes})
            yield converted

    def _prove(self, order: StagingOrder, reading: _Reading) -> StagedProof:
        room, spec, source, fit = self._room, self._room.spec, reading.source, reading.fit
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
        order.keep_alive()
        report = self._gate(order, source.rows, counted.row_count)
        recorder = AcceptanceMetricsRecorder(reading.asked.values())
        for request in recorder.open_requests:
            _record(recorder, request, reading.observer if request.side == "source" else counted)
        return StagedProof(
            rows=source.rows,
            source_probe={"row_count": source.rows, "typed_hash": None},
            target_probe={"row_count": counted.row_count, "typed_hash": None},
            report=report,
            acceptance=recorder.snapshots(),
            effective_plan=_effective_plan(spec, source.schema, fit),
            desired={
                "uuid": order.uuid,
                "engine_full": state.engine_full,
                "schema_digest": canonical.digest([list(pair) for pair in fit.target_columns]),
                "keeper_name": "",
                "keeper_path": "",
            },
            target_plan=self._target_plan(order, reading, state, counted),
        )

    def _target_plan(
        self, order: StagingOrder, reading: _Reading, state: TableState, counted: StagedMetrics
    ) -> dict[str, Any] | None:
        if reading.target is None:
            return None
        room = self._room
        columns = tuple((column.name, column.type) for column in state.columns)

        def approximate(names: Sequence[str]) -> Mapping[str, int]:
            try:
                return approximate_distinct(room.control, room.spec.sink.table.database, order.name, names)
            except StatementFailed as failed:
                raise staging_failed(failed, "The distinct values of the generation could not be estimated") from failed

        admit_memory(reading.target, columns, counted, approximate)
        return target_plan(room.spec, reading.target, columns, room.replicas)

    def _gate(self, order: StagingOrder, sent: int, staged: int) -> dict[str, Any]:
        room = self._room
        execution = QualityGateExecution(policy=room.spec.quality, run_id=room.run_id, load_id=order.load_id)
        receipt = execution.evaluate(
            source=Probe(row_count=sent, typed_hash=None),
            target=Probe(row_count=staged, typed_hash=None),
            boundary=BOUNDARY,
        )
        if not receipt.report.passed:
            failure = QualityGateFailure(receipt.report, boundary=BOUNDARY)
            failure.context["quality_gates"] = receipt.report.payload()
            raise failure
        execution.accept_payload(receipt, BOUNDARY)
        execution.accept_state(receipt)
        return receipt.report.payload()


def _record(
    recorder: AcceptanceMetricsRecorder, request: MetricRequest, counted: StagedMetrics | SourceObserver
) -> None:
    """Record one side. A count that was not made leaves the whole side unobserved: one warning snapshot (X5)."""
    if any(isinstance(count, Unavailable) for _, count in counted.distinct_counts):
        recorder.unavailable(request.side)
        return
    recorder.record(
        request.side,
        {
            "row_count": counted.row_count if request.row_count else None,
            "null_counts": dict(counted.null_counts),
            "distinct_counts": dict(counted.distinct_counts),
        },
    )


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
