"""Running the gates: counted facts of both sides in, one report out (Q1, Q2, Q8, G8).

Pure: the same policy and probes always give the same report, so a stored report can be checked by running again. The
report's payload is an allow-list: fixed codes of at most 64 characters, whole numbers and SHA-256 digests, never free
text, SQL or rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.quality.failure import QualityGateFailure
from dpone_provider.quality.gate_spec import GateSpec
from dpone_provider.quality.mint import Mint, Unique, invalid
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.problems import is_count
from dpone_provider.quality.verdicts import METRICS, SHA256, Facts, Metric, Probe, verdict

__all__ = ["GateResult", "Probe", "QualityGateFailure", "QualityGateReport", "QualityGateRunner", "check_coverage"]

REPORT_KIND = "dpone.data_quality.gates.v1"
Status = Literal["passed", "failed", "warned"]
NOT_PASSED: Mapping[str, Status] = {"error": "failed", "warn": "warned"}
NO_ANSWERS: Mapping[str, int | None] = MappingProxyType({})
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MINT = Mint()


@attrs.frozen(kw_only=True)
class GateResult:
    """The outcome of one gate. ``metrics``: sorted ``(name, value)`` pairs of the gate type's allow-list."""

    gate_id: str
    type: str
    severity: str
    status: Status
    code: str
    metrics: tuple[tuple[str, Metric], ...] = ()

    def payload(self) -> dict[str, Any]:
        """The JSON form."""
        values = {name: getattr(self, name) for name in ("gate_id", "type", "severity", "status", "code")}
        return {**values, "metrics": dict(self.metrics)}


@attrs.frozen(kw_only=True, eq=False)
class QualityGateReport(Unique):
    """What the gates of one policy said, in the policy's order. Only ``QualityGateRunner`` makes one.

    Anyone may make the empty one that is bound to no policy, as older versions did: it stands for no gates at all (Q7).
    Two reports are equal when their payloads are.
    """

    results: tuple[GateResult, ...] = ()
    policy_fingerprint: str = ""
    _permit: object = attrs.field(default=None, repr=False)
    kind: str = attrs.field(default=REPORT_KIND, init=False)

    def __attrs_post_init__(self) -> None:
        if self._permit is not None or not self.unbound:
            _MINT.spend(self._permit)

    @property
    def unbound(self) -> bool:
        """Is it the empty report of no policy?"""
        return self.results == () and self.policy_fingerprint == ""

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
            "kind": self.kind,
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


class QualityGateRunner:
    """The one place where gates are evaluated."""

    def evaluate(
        self, policy: QualityPolicy, source: Probe, target: Probe, answers: Mapping[str, int | None] = NO_ANSWERS
    ) -> QualityGateReport:
        """Evaluate every gate of the policy, in order.

        ``target``: the staged rows, or the live ones after a commit; ``answers``: gate id → the scalar of an SQL gate.
        An answer that is missing or no count is unavailable: its gate cannot pass.
        """
        results = tuple(
            _result(gate, Facts(source=source, target=target, answer=answers.get(gate.id))) for gate in policy.gates
        )
        return QualityGateReport(results=results, policy_fingerprint=policy.policy_fingerprint, permit=_MINT.permit())


def check_coverage(policy: QualityPolicy, report: QualityGateReport) -> None:
    """Is this the report of exactly this policy: fingerprint, and every gate once, in order (Q3)?

    Raises ``DponeError`` DPONE_QUALITY_GATE_RECEIPT_INVALID (malformed, or more than a report may say, Q8),
    ``…_REQUIRED`` (bound to no policy) or ``…_MISMATCH`` (another policy or coverage).
    """
    if type(report) is not QualityGateReport or type(report.results) is not tuple or report.kind != REPORT_KIND:
        raise invalid("The gate report is malformed.")
    if any(type(result) is not GateResult for result in report.results):
        raise invalid("A gate result is malformed.")
    fingerprint = report.policy_fingerprint
    if policy.gates and fingerprint == "":
        raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED", "The gate report is bound to no policy.")
    if type(fingerprint) is not str or not SHA256.fullmatch(fingerprint):
        raise invalid("The fingerprint of the gate report is malformed.")
    expected = [(gate.id, gate.type, gate.severity) for gate in policy.gates]
    reported = [(result.gate_id, result.type, result.severity) for result in report.results]
    if fingerprint != policy.policy_fingerprint or reported != expected:
        raise DponeError("DPONE_QUALITY_GATE_RECEIPT_MISMATCH", "The gate report is of another policy or coverage.")
    if not all(_is_sound(result) for result in report.results):
        raise invalid("A gate result says what it may not.")


def _is_sound(result: GateResult) -> bool:
    """Has it a status that its severity can have, a code, and metrics of its type's allow-list alone?"""
    if result.status not in ("passed", NOT_PASSED[result.severity]):
        return False
    if type(result.code) is not str or not _CODE.fullmatch(result.code) or type(result.metrics) is not tuple:
        return False
    return all(_is_metric(result.type, metric) for metric in result.metrics)


def _is_metric(gate_type: str, metric: object) -> bool:
    if type(metric) is not tuple or len(metric) != 2 or type(metric[0]) is not str:
        return False
    name, value = metric
    is_digest = type(value) is str and SHA256.fullmatch(value) is not None
    return name in METRICS[gate_type] and (is_count(value) or is_digest)


def _result(gate: GateSpec, facts: Facts) -> GateResult:
    holds, code, metrics = verdict(gate, facts)
    status: Status = "passed" if holds else NOT_PASSED[gate.severity]
    return GateResult(
        gate_id=gate.id,
        type=gate.type,
        severity=gate.severity,
        status=status,
        code=code,
        metrics=tuple(sorted(metrics.items())),
    )
