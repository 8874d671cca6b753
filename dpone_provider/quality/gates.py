"""Running the gates: counted facts of both sides in, one report out (Q1, Q2, Q8, G8).

Pure: the same policy and probes always give the same report, so a stored report can be checked by running again. The
report's payload is an allow-list: fixed codes of at most 64 characters and whole numbers, never free text, SQL or rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Literal

import attrs

from dpone_provider import canonical
from dpone_provider.errors import Boundary, DponeError
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.mint import Mint, Unique, invalid
from dpone_provider.quality.policy import QualityPolicy

REPORT_KIND = "dpone.data_quality.gates.v1"
STATUSES = ("passed", "failed", "warned")
_HASH = re.compile(r"(sha256:)?[0-9a-f]{64}")
_MINT = Mint()

Status = Literal["passed", "failed", "warned"]


def _row_count(_: object, __: object, value: Any) -> None:
    if value is not None and not (type(value) is int and 0 <= value <= canonical.MAX_INTEGER):
        raise ValueError("row_count must be a whole number of rows, or None when nobody counted")


def _typed_hash(_: object, __: object, value: Any) -> None:
    if value is not None and not (type(value) is str and _HASH.fullmatch(value)):
        raise ValueError("typed_hash must be a SHA-256 in lower-case hex, or None when nobody computed it")


@attrs.frozen(kw_only=True)
class Probe:
    """What is known of one side. ``row_count``: rows, None when nobody counted; ``typed_hash``: SHA-256 hex, or None.

    None makes the gates that need the fact fail; zero rows is a fact. Raises ``ValueError`` for anything else.
    """

    row_count: int | None = attrs.field(default=None, validator=_row_count)
    typed_hash: str | None = attrs.field(default=None, validator=_typed_hash)

    def payload(self) -> dict[str, Any]:
        """The JSON form ``{row_count, typed_hash}`` that a capsule stores."""
        return {"row_count": self.row_count, "typed_hash": self.typed_hash}


@attrs.frozen(kw_only=True)
class GateResult:
    """The outcome of one gate. ``metrics``: sorted ``(name, whole number)`` pairs of the gate type's allow-list."""

    gate_id: str
    type: str
    severity: str
    status: Status
    code: str
    metrics: tuple[tuple[str, int], ...] = ()

    def payload(self) -> dict[str, Any]:
        """The JSON form."""
        values = {name: getattr(self, name) for name in ("gate_id", "type", "severity", "status", "code")}
        return {**values, "metrics": dict(self.metrics)}


@attrs.frozen(kw_only=True, eq=False)
class QualityGateReport(Unique):
    """What the gates of one policy said, in the policy's order. Only ``QualityGateRunner`` makes one.

    Two reports are equal when their payloads are.
    """

    results: tuple[GateResult, ...]
    policy_fingerprint: str
    _permit: object = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        _MINT.spend(self._permit)

    @property
    def passed(self) -> bool:
        """Did no gate of severity error fail?"""
        return all(result.status != "failed" for result in self.results)

    @property
    def blocking(self) -> tuple[GateResult, ...]:
        """The failed gates of severity error."""
        return tuple(result for result in self.results if result.status == "failed")

    def payload(self) -> dict[str, Any]:
        """The JSON form ``{kind, passed, results}`` that a capsule stores."""
        return {
            "kind": REPORT_KIND,
            "passed": self.passed,
            "results": [result.payload() for result in self.results],
        }

    def same_as(self, payload: object) -> bool:
        """Is a stored payload exactly this report's, type by type (``1`` is not ``true``)? (G8)"""
        try:
            return canonical.encode(payload) == canonical.encode(self.payload())
        except canonical.NotCanonical:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QualityGateReport) and self.same_as(other.payload())

    def __hash__(self) -> int:
        return hash(canonical.encode(self.payload()))


class QualityGateFailure(DponeError):
    """A blocking gate failed. ``report`` has every result."""

    def __init__(self, report: QualityGateReport, *, boundary: Boundary | None = None) -> None:
        self.report = report
        gates = [{"gate_id": result.gate_id, "code": result.code} for result in report.blocking]
        listed = ", ".join(f"{gate['gate_id']} ({gate['code']})" for gate in gates)
        message = f"Blocking gates failed: {listed}."
        super().__init__("DPONE_QUALITY_GATES_FAILED", message, boundary=boundary, context={"gates": gates})


# An evaluation says whether the gate holds, a code, and the metrics of its allow-list.
Verdict = tuple[bool, str, Mapping[str, int]]


class QualityGateRunner:
    """The one place where gates are evaluated."""

    def evaluate(self, policy: QualityPolicy, source: Probe, target: Probe) -> QualityGateReport:
        """Evaluate every gate of the policy, in order. ``target``: the staged rows, or the live ones after a commit."""
        results = tuple(_result(gate, source, target) for gate in policy.gates)
        return QualityGateReport(results=results, policy_fingerprint=policy.policy_fingerprint, permit=_MINT.permit())


def check_coverage(policy: QualityPolicy, report: QualityGateReport) -> None:
    """Is this the report of exactly this policy: fingerprint, and every gate once, in order (Q3)?

    Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_INVALID (malformed) or ``…_MISMATCH`` (another policy or coverage).
    """
    if type(report) is not QualityGateReport or type(report.results) is not tuple:
        raise invalid("The gate report is malformed.")
    for result in report.results:
        if type(result) is not GateResult or result.status not in STATUSES:
            raise invalid("A gate result is malformed.")
    expected = [(gate.id, gate.type, gate.severity) for gate in policy.gates]
    reported = [(result.gate_id, result.type, result.severity) for result in report.results]
    if report.policy_fingerprint != policy.policy_fingerprint or reported != expected:
        raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The gate report is of another policy or coverage.")


def _result(gate: GateSpec, source: Probe, target: Probe) -> GateResult:
    evaluation = EVALUATIONS.get(gate.type, _not_available)
    holds, code, metrics = evaluation(gate, source, target)
    status: Status = "passed" if holds else "failed" if gate.severity == "error" else "warned"
    return GateResult(
        gate_id=gate.id,
        type=gate.type,
        severity=gate.severity,
        status=status,
        code=code,
        metrics=tuple(sorted(metrics.items())),
    )


def _not_available(gate: GateSpec, source: Probe, target: Probe) -> Verdict:
    return False, "gate_type_not_available", {}


def _row_count_reconciliation(gate: GateSpec, source: Probe, target: Probe) -> Verdict:
    if source.row_count is None:
        return False, "source_row_count_unavailable", {}
    if target.row_count is None:
        return False, "target_row_count_unavailable", {}
    difference = abs(source.row_count - target.row_count)
    allowed = _allowed_rows(gate, source.row_count)
    metrics = {
        "source_rows": source.row_count,
        "target_rows": target.row_count,
        "difference_rows": difference,
        "allowed_rows": allowed,
    }
    holds = difference <= allowed
    return holds, "rows_reconciled" if holds else "rows_outside_tolerance", metrics


def _allowed_rows(gate: GateSpec, source_rows: int) -> int:
    """The tolerance in whole rows, exact: an authored ``0.1`` is one tenth, not its nearest binary float."""
    if gate.tolerance is None:
        return 0
    value = Fraction(str(gate.tolerance.value))
    exact = value if gate.tolerance.mode == "absolute" else value * source_rows / 100
    return min(int(exact), canonical.MAX_INTEGER)


def _min_rows(gate: GateSpec, source: Probe, target: Probe) -> Verdict:
    side = gate.side or "target"
    rows = (source if side == "source" else target).row_count
    if rows is None:
        return False, f"{side}_row_count_unavailable", {}
    if type(gate.threshold) is not int:
        return False, "threshold_missing", {}
    holds = rows >= gate.threshold
    metrics = {"rows": rows, "threshold_rows": gate.threshold}
    return holds, "rows_reach_threshold" if holds else "rows_below_threshold", metrics


EVALUATIONS: dict[str, Callable[[GateSpec, Probe, Probe], Verdict]] = {
    "row_count_reconciliation": _row_count_reconciliation,
    "min_rows": _min_rows,
}
