"""The process-local proof that this execution ran its gates, and the one-way machine that consumes it (Q3, Q4, Q7).

``OPEN → ISSUED → PAYLOAD_ACCEPTED → STATE_ACCEPTED``, each step once, under a lock. A receipt proves nothing outside
the process that issued it: durable proof is the capsule's business.
"""

from __future__ import annotations

import threading
from typing import Literal, get_args

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.gates import Probe, QualityGateFailure, QualityGateReport, QualityGateRunner, check_coverage
from dpone_provider.quality.mint import Mint, Unique, invalid
from dpone_provider.quality.policy import QualityPolicy

ReceiptBoundary = Literal["pre_commit", "resume_validation", "post_commit"]
State = Literal["OPEN", "ISSUED", "PAYLOAD_ACCEPTED", "STATE_ACCEPTED"]
_BOUNDARIES: tuple[ReceiptBoundary, ...] = get_args(ReceiptBoundary)
_MINT = Mint()


@attrs.frozen(kw_only=True, eq=False)
class QualityGateReceipt(Unique):
    """One evaluation, bound to policy, run, load and boundary. Only ``QualityGateExecution.evaluate`` makes one.

    Equal only to itself; cannot be copied, pickled or evolved.
    """

    report: QualityGateReport
    boundary: ReceiptBoundary
    policy_snapshot_id: str
    policy_fingerprint: str
    run_id: str
    load_id: str
    _permit: object = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        _MINT.spend(self._permit)


class QualityGateExecution(Unique):
    """One load's right to evaluate its gates once and to use the receipt once. Safe to use from several threads."""

    def __init__(self, *, policy: QualityPolicy, run_id: str, load_id: str) -> None:
        self._policy = policy
        self._run_id = run_id
        self._load_id = load_id
        self._lock = threading.Lock()
        self._state: State = "OPEN"
        self._issued: QualityGateReceipt | None = None

    @property
    def state(self) -> State:
        """Where the machine stands."""
        return self._state

    def evaluate(self, *, source: Probe, target: Probe, boundary: str) -> QualityGateReceipt:
        """Run the gates and issue the receipt, also for a report that failed: ``accept_payload`` refuses that one.

        Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_INVALID for an unknown boundary or a second evaluation.
        """
        known = next((word for word in _BOUNDARIES if word == boundary), None)
        if known is None:
            raise invalid("The boundary is unknown.")
        with self._lock:
            self._advance("OPEN", "ISSUED")
            report = QualityGateRunner().evaluate(self._policy, source, target)
            self._issued = QualityGateReceipt(
                report=report,
                boundary=known,
                policy_snapshot_id=self._policy.snapshot_id,
                policy_fingerprint=self._policy.policy_fingerprint,
                run_id=self._run_id,
                load_id=self._load_id,
                permit=_MINT.permit(),
            )
            return self._issued

    def accept_payload(self, receipt: QualityGateReceipt | None, boundary: str) -> None:
        """Accept the receipt for the payload, once, at the boundary that the caller owns.

        With an empty policy None passes and authorizes nothing: the machine does not move (Q7). Raises ``DponeError``
        DPONE_QUALITY_GATE_RECEIPT_REQUIRED, ``…_MISMATCH`` or ``…_INVALID``, and ``QualityGateFailure`` for a receipt
        that is in order and blocks.
        """
        with self._lock:
            if receipt is None and not self._policy.gates:
                return
            owned = self._own(receipt)
            if owned.boundary != boundary:
                raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The receipt is of another boundary.")
            check_coverage(self._policy, owned.report)
            if self._state == "ISSUED" and not owned.report.passed:
                raise QualityGateFailure(owned.report, boundary=owned.boundary)
            self._advance("ISSUED", "PAYLOAD_ACCEPTED")

    def accept_state(self, receipt: QualityGateReceipt | None) -> None:
        """Accept the receipt for the state, once, after the payload. Raises like ``accept_payload``."""
        with self._lock:
            if receipt is None and not self._policy.gates:
                return
            self._own(receipt)
            self._advance("PAYLOAD_ACCEPTED", "STATE_ACCEPTED")

    def _own(self, receipt: object) -> QualityGateReceipt:
        if receipt is None:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "There is no quality receipt.")
        if type(receipt) is not QualityGateReceipt:
            raise invalid("This is not a quality receipt.")
        today = (self._policy.snapshot_id, self._policy.policy_fingerprint)
        bound = (getattr(receipt, "policy_snapshot_id", None), getattr(receipt, "policy_fingerprint", None))
        if bound != today:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The receipt is of another policy.")
        if receipt is not self._issued:
            raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "The receipt is of another execution.")
        return receipt

    def _advance(self, old: State, new: State) -> None:
        if self._state != old:
            raise invalid(f"The receipt was used out of order: {self._state} is not {old}.")
        self._state = new
