"""The quality policy that a load began with, held fast while it runs (Q6)."""

from __future__ import annotations

import attrs

from dpone_provider.canonical import digest
from dpone_provider.errors import Boundary, DponeError
from dpone_provider.quality.policy import QualityPolicy


@attrs.frozen(kw_only=True)
class QualityExecutionSnapshot:
    """The policy of one execution, and the digest it had before anything was touched."""

    policy: QualityPolicy
    policy_snapshot_id: str = attrs.field(init=False)

    @policy_snapshot_id.default
    def _identify(self) -> str:
        if type(self.policy) is not QualityPolicy:
            raise TypeError("a snapshot is taken of a QualityPolicy")
        return _identity(self.policy)

    @classmethod
    def of(cls, policy: QualityPolicy) -> QualityExecutionSnapshot:
        """The snapshot of a policy, taken now."""
        return cls(policy=policy)

    def require_unchanged(self, current: QualityPolicy, boundary: Boundary | None) -> None:
        """Is ``current``, the policy as it is configured now, still the one of the beginning?

        Both are digested anew: no cached digest hides a change. Raises ``DponeError`` DPONE_QUALITY_POLICY_DRIFT with
        the caller's ``boundary`` (None: before anything was committed).
        """
        known = type(current) is QualityPolicy and _identity(current) == self.policy_snapshot_id
        if not known or _identity(self.policy) != self.policy_snapshot_id:
            raise DponeError("DPONE_QUALITY_POLICY_DRIFT", boundary=boundary)


def _identity(policy: QualityPolicy) -> str:
    return "sha256:" + digest(policy.snapshot())
