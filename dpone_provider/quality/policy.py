"""The quality policy of a load: gates and acceptance, their digests, and the one parser of ``quality`` (Q1, Q2, X1)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import attrs

from dpone_provider.canonical import digest
from dpone_provider.quality.acceptance_policy import (
    CODE as ACCEPTANCE_CODE,
)
from dpone_provider.quality.acceptance_policy import (
    AcceptanceMetricConfigurationError,
    AcceptanceMetricPolicy,
    read_acceptance,
)
from dpone_provider.quality.gate_spec import CODE as GATES_CODE
from dpone_provider.quality.gate_spec import HASH_TYPE, GateSpec, Tolerance, read_gates
from dpone_provider.quality.problems import FieldProblem, Path, Reader

__all__ = [
    "AcceptanceMetricConfigurationError",
    "AcceptanceMetricPolicy",
    "FieldProblem",
    "GateSpec",
    "QualityPolicy",
    "Tolerance",
    "parse_quality",
]

SNAPSHOT_KIND = "dpone.quality.policy.v1"


def _as_tuple(gates: Iterable[GateSpec]) -> tuple[GateSpec, ...]:
    return tuple(gates)


def _together(_: object, __: attrs.Attribute[Any], gates: tuple[GateSpec, ...]) -> None:
    if len({gate.id for gate in gates}) != len(gates):
        raise ValueError("gate ids must be unique")
    if len({gate.mode for gate in gates if gate.type == HASH_TYPE}) > 1:
        raise ValueError("typed hashes must have one mode")


@attrs.frozen(kw_only=True)
class QualityPolicy:
    """Everything that quality demands of a load, normalized and immutable. ``acceptance`` None = not configured.

    Raises ``ValueError`` for two gates with one id, and for typed hashes of two modes.
    """

    gates: tuple[GateSpec, ...] = attrs.field(default=(), converter=_as_tuple, validator=_together)
    acceptance: AcceptanceMetricPolicy | None = None

    def snapshot(self) -> dict[str, Any]:
        """The canonical JSON form: ``{kind, gates, acceptance}``. SQL as its SHA-256; disabled acceptance as null."""
        return {
            "kind": SNAPSHOT_KIND,
            "gates": [gate.snapshot(ordinal) for ordinal, gate in enumerate(self.gates)],
            "acceptance": None if self.acceptance is None else self.acceptance.snapshot(),
        }

    @cached_property
    def snapshot_id(self) -> str:
        """``sha256:`` + digest of the snapshot."""
        return "sha256:" + digest(self.snapshot())

    @cached_property
    def policy_fingerprint(self) -> str:
        """``sha256:`` + digest of the ordered gates alone: the policy that a receipt is bound to (Q2)."""
        return "sha256:" + digest(self.snapshot()["gates"])


def parse_quality(raw: object, *, path: Path = ("quality",)) -> tuple[QualityPolicy, list[FieldProblem]]:
    """The policy of an authored ``quality`` mapping, and every problem at once: gates first, then acceptance.

    ``raw``: plain values; ``path``: where it stands. An absent block is ``QualityPolicy()``; null is refused. Never
    raises for bad input; with problems the policy holds the well-formed parts only and must not be used.
    """
    reader = Reader(code=GATES_CODE)
    gates: tuple[GateSpec, ...] = ()
    acceptance = None
    fields = reader.mapping(raw, path, ("gates", "acceptance"))
    if fields is not None and "gates" in fields:
        gates = read_gates(fields["gates"], (*path, "gates"), reader)
    if fields is not None and "acceptance" in fields:
        reader.code = ACCEPTANCE_CODE
        acceptance = read_acceptance(fields["acceptance"], (*path, "acceptance"), reader)
    return QualityPolicy(gates=gates, acceptance=acceptance), reader.problems
