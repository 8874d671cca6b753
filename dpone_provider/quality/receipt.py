"""The process-local proof that this execution ran its gates, and the one-way machine that consumes it (Q3, Q4, Q7).

``OPEN → ISSUED → PAYLOAD_ACCEPTED → STATE_ACCEPTED``, each step once, under a lock. A receipt proves nothing outside
the process that issued it: durable proof is the capsule's business.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Literal, get_args

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.failure import QualityGateFailure, ReceiptBoundary
from dpone_provider.quality.gates import NO_ANSWERS, QualityGateReport, QualityGateRunner, check_coverage
from dpone_provider.quality.mint import Mint, Unique, invalid
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.quality.snapshot import QualityExecutionSnapshot
from dpone_provider.quality.verdicts import Probe

State = Literal["OPEN", "ISSUED", "PAYLOAD_ACCEPTED", "STATE_ACCEPTED"]
_BOUNDARIES: tuple[ReceiptBoundary, ...] = get_args(ReceiptBoundary)
_MINT = Mint()


@attrs.frozen(kw_only=True, eq=False)
class QualityGateReceipt(Unique):
    """One evaluation, bound to policy, run, load and boundary. Only ``QualityGateExecution.evaluate`` makes one.

    Anyone may make one of an unbound empty report that is bound to nothing, as older versions did: it is accepted where
    there are no gates, and authorizes nothing (Q7). Equal only to itself; cannot be copied, pickled or evolved.
    ``scope_summary``: the partitions that the counts are over, None = not partitioned.
    """

    report: QualityGateReport
    boundary: ReceiptBoundary = "pre_commit"
    scope_summary: QualityScopeSummary | None = None
    policy_snapshot_id: str = ""
    policy_fingerprint: str = ""
    run_id: str = ""
    load_id: str = ""
    _permit: object = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.boundary not in _BOUNDARIES or type(self.scope_summary) not in (QualityScopeSummary, type(None)):
            raise invalid("The receipt is malformed.")
        if self._permit is not None or not self.unbound:
            _MINT.spend(self._permit)

    @property
    def unbound(self) -> bool:
        """Is it bound to nothing, and its report empty?"""
        bound = (
            getattr(self, name, None) for name in ("policy_snapshot_id", "policy_fingerprint", "run_id", "load_id")
        )
        return (
            all(binding == "" for binding in bound) and type(self.report) is QualityGateReport and self.report.unbound
        )


StagedQualityGateReceipt = QualityGateReceipt


def report_from_staged_quality_receipt(receipt: QualityGateReceipt) -> QualityGateReport:
    """The report of a receipt of the staged path. Raises DPONE_QUALITY_GATE_RECEIPT_INVALID or ``…_MISMATCH``."""
    if type(receipt) is not QualityGateReceipt:
        raise invalid("This is not a quality receipt.")
    if receipt.boundary != "pre_commit":
        raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The receipt is of another boundary.")
    return receipt.report


class QualityGateExecution(Unique):
    """One load's right to evaluate its gates once and to use the receipt once. Safe to use from several threads.

    ``snapshot``, or the ``policy`` to take one of now; ``boundary``: the one that the path owns, None = the first one
    that is asked for. Raises ``ValueError`` unless it is given exactly one of ``policy`` and ``snapshot``.
    """

    def __init__(
        self,
        *,
        policy: QualityPolicy | None = None,
        snapshot: QualityExecutionSnapshot | None = None,
        run_id: str,
        load_id: str,
        boundary: ReceiptBoundary | None = None,
    ) -> None:
        if snapshot is None and policy is not None:
            snapshot = QualityExecutionSnapshot.of(policy)
        elif type(snapshot) is not QualityExecutionSnapshot or policy is not None:
            raise ValueError("give either a policy or its snapshot")
        self.snapshot = snapshot
        self._policy = self.snapshot.policy
        self._run_id = run_id
        self._load_id = load_id
        self._boundary = boundary
        self._lock = threading.Lock()
        self._state: State = "OPEN"
        self._issued: QualityGateReceipt | None = None

    @property
    def state(self) -> State:
        """Where the machine stands."""
        return self._state

    def evaluate(
        self,
        *,
        source: Probe,
        target: Probe,
        boundary: str,
        answers: Mapping[str, int | None] = NO_ANSWERS,
        scope_summary: QualityScopeSummary | None = None,
    ) -> QualityGateReceipt:
        """Run the gates and issue the receipt, also for a report that failed: ``accept_payload`` refuses that one.

        ``answers``: as for ``QualityGateRunner``. Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_INVALID for an
        unknown boundary or a second evaluation, ``…_MISMATCH`` for a boundary that is not this execution's;
        DPONE_QUALITY_POLICY_DRIFT, here and below, for a policy that was changed in place.
        """
        known = next((word for word in _BOUNDARIES if word == boundary), None)
        if known is None:
            raise invalid("The boundary is unknown.")
        if self._boundary not in (None, known):
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The execution is of another boundary.")
        with self._lock:
            self._require_unchanged()
            self._advance("OPEN", "ISSUED")
            self._issued = QualityGateReceipt(
                report=QualityGateRunner().evaluate(self._policy, source, target, answers),
                boundary=known,
                scope_summary=scope_summary,
                policy_snapshot_id=self.snapshot.policy_snapshot_id,
                policy_fingerprint=self._policy.policy_fingerprint,
                run_id=self._run_id,
                load_id=self._load_id,
                permit=_MINT.permit(),
            )
            return self._issued

    def accept_payload(self, receipt: QualityGateReceipt | None, boundary: str) -> None:
        """Accept the receipt for the payload, once, at the boundary that the caller owns.

        With an empty policy None and an unbound empty receipt pass and authorize nothing: the machine does not move
        (Q7). Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_REQUIRED, ``…_MISMATCH`` or ``…_INVALID``, and
        ``QualityGateFailure`` for a receipt that is in order and blocks.
        """
        with self._lock:
            self._require_unchanged()
            if self._is_inert(receipt):
                return
            owned = self._own_at(receipt, boundary)
            if self._state == "ISSUED" and not owned.report.passed:
                raise QualityGateFailure(owned.report, boundary=owned.boundary)
            self._advance("ISSUED", "PAYLOAD_ACCEPTED")

    def require_accepted(self, receipt: QualityGateReceipt | None, boundary: str) -> None:
        """The receipt is accepted for the payload, at this boundary, and not yet for the state. Nothing moves.

        Raises like ``accept_payload``.
        """
        with self._lock:
            self._require_unchanged()
            if self._is_inert(receipt):
                return
            self._own_at(receipt, boundary)
            if self._state != "PAYLOAD_ACCEPTED":
                raise invalid("The receipt is not accepted for the payload.")

    def accept_state(self, receipt: QualityGateReceipt | None) -> None:
        """Accept the receipt for the state, once, after the payload. Raises like ``accept_payload``."""
        with self._lock:
            self._require_unchanged()
            if self._is_inert(receipt):
                return
            self._own(receipt)
            self._advance("PAYLOAD_ACCEPTED", "STATE_ACCEPTED")

    def _require_unchanged(self) -> None:
        """Not even the policy object itself was changed in place (Q6)."""
        self.snapshot.require_unchanged(self._policy, self._issued.boundary if self._issued else self._boundary)

    def _is_inert(self, receipt: object) -> bool:
        nothing = receipt is None or (type(receipt) is QualityGateReceipt and receipt.unbound)
        return nothing and not self._policy.gates

    def _own_at(self, receipt: object, boundary: str) -> QualityGateReceipt:
        owned = self._own(receipt)
        if owned.boundary != boundary:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The receipt is of another boundary.")
        check_coverage(self._policy, owned.report)
        return owned

    def _own(self, receipt: object) -> QualityGateReceipt:
        if receipt is None:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "There is no quality receipt.")
        if type(receipt) is not QualityGateReceipt:
            raise invalid("This is not a quality receipt.")
        today = (self.snapshot.policy_snapshot_id, self._policy.policy_fingerprint)
        bound = (getattr(receipt, "policy_snapshot_id", None), getattr(receipt, "policy_fingerprint", None))
        if bound == ("", ""):
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "The receipt is bound to nothing.")
        if bound != today:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The receipt is of another policy.")
        if receipt is not self._issued:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "The receipt is of another execution.")
        return receipt

    def _advance(self, old: State, new: State) -> None:
        if self._state != old:
            raise invalid(f"The receipt was used out of order: {self._state} is not {old}.")
        self._state = new
