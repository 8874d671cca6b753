"""The gates of a staged generation: both sides' facts gathered, judged once, accepted for the payload (Q1, Q5, X3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dpone_provider.clickhouse.gate_sql import gate_answers
from dpone_provider.errors import DponeError
from dpone_provider.load.reading import Reading, StagingRoom
from dpone_provider.load.refusals import staging_failed
from dpone_provider.load.verdict import tally
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.gate_spec import HASH_TYPE, GateSpec
from dpone_provider.quality.gates import Probe, QualityGateFailure
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.replay.ports import StagingOrder
from dpone_provider.sources.fit import Fit
from dpone_provider.wire import StatementFailed

if TYPE_CHECKING:
    from dpone_provider.clickhouse.typed_hash import Mode
    from dpone_provider.sources.typed_hash import MultisetHasher

BOUNDARY: Final = "pre_commit"


def hasher_of(spec: LoadSpec, fit: Fit) -> MultisetHasher | None:
    """What hashes the source's rows as they are sent; None when no gate asks for it.

    A sample is taken by the columns of the sorting key, of the whole row where it has none. Raises
    DPONE_ACCEPTANCE_UNAVAILABLE naming the columns that cannot be hashed, when a gate of severity error needs them.
    """
    gates = _hash_gates(spec)
    if not gates:
        return None
    from dpone_provider.sources.typed_hash import MultisetHasher

    mode, key = _hashed(spec, fit)
    hasher = MultisetHasher(fit.wire_schema, fit.target_columns, mode=mode, key=key)
    if hasher.unsupported and _required(gates):
        raise DponeError(
            "DPONE_ACCEPTANCE_UNAVAILABLE",
            f"A typed hash cannot be made of the types of these columns: {', '.join(hasher.unsupported[:10])}.",
            remedy="Give the columns other types, or the gate severity warn.",
            context={"columns": list(hasher.unsupported[:10])},
        )
    return hasher


class Gating:
    """Gathers and judges, once the rows are written and counted."""

    def __init__(self, room: StagingRoom, order: StagingOrder, reading: Reading) -> None:
        self._room = room
        self._order = order
        self._fit = reading.fit
        self._hasher = reading.hasher
        self._sent = reading.source.rows
        self.source = self.target = Probe()

    def judge(self, staged_rows: int) -> QualityGateReceipt:
        """Evaluate the gates once; the path's end accepts the receipt for the state.

        Raises ``QualityGateFailure``, and ``DponeError`` DPONE_STAGING_FAILED when the server does not answer.
        """
        room, order = self._room, self._order
        hasher = self._hasher
        self.source = Probe(row_count=self._sent, typed_hash=hasher.digest() if hasher is not None else None)
        self.target = Probe(row_count=staged_rows, typed_hash=self._staged_hash(hasher))
        execution = room.begin(order.load_id)
        try:
            found = gate_answers(
                room.control,
                room.spec.sink.table.database,
                order.name,
                execution.snapshot.policy.gates,
                before=order.keep_alive,
            )
        except StatementFailed as failed:
            raise staging_failed(failed, "The gates could not be asked on the generation") from failed
        for gate_id, why in found.reasons.items():
            room.notify("unanswered", {"gate": gate_id, "why": why})
        receipt = execution.evaluate(source=self.source, target=self.target, boundary=BOUNDARY, answers=found.values)
        room.note("quality_checked", {**tally(receipt.report), "unavailable": len(found.reasons)})
        if not receipt.report.passed:
            failure = QualityGateFailure(receipt.report, boundary=BOUNDARY)
            failure.context["quality_gates"] = receipt.report.payload()
            if found.reasons:
                listed = ", ".join(f"{gate_id} ({why})" for gate_id, why in found.reasons.items())
                failure.next_step = f"{failure.next_step} Without an answer: {listed}."
            raise failure
        execution.accept_payload(receipt, BOUNDARY)
        return receipt

    def _staged_hash(self, hasher: MultisetHasher | None) -> str | None:
        """The hash of the stored rows. A server that refuses it ends the load only where a gate must have it."""
        if hasher is None or hasher.unsupported:
            return None
        from dpone_provider.clickhouse.typed_hash import staged_hash

        room, order = self._room, self._order
        mode, key = _hashed(room.spec, self._fit)
        order.keep_alive()
        try:
            return staged_hash(
                room.control,
                room.spec.sink.table.database,
                order.name,
                self._fit.target_columns,
                mode=mode,
                key=key,
            )
        except StatementFailed as failed:
            if failed.code is not None and not _required(_hash_gates(room.spec)):
                return None
            raise staging_failed(failed, "The generation could not be hashed") from failed


def _hash_gates(spec: LoadSpec) -> list[GateSpec]:
    return [gate for gate in spec.quality.gates if gate.type == HASH_TYPE]


def _hashed(spec: LoadSpec, fit: Fit) -> tuple[Mode, tuple[str, ...]]:
    """Which rows are hashed: the mode, and the key by which a sample is taken."""
    names = fit.wire_schema.names
    key = tuple(name for name in dict.fromkeys(spec.sink.design.order_by) if name in names)
    return ("sample" if _hash_gates(spec)[0].mode == "sample" else "full"), key


def _required(gates: list[GateSpec]) -> bool:
    return any(gate.severity == "error" for gate in gates)
