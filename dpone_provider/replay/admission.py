"""What must hold before an attempt claims the slot to stage: nothing is written, no source is touched (M7, R1, R2)."""

from __future__ import annotations

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.identity import governed_by
from dpone_provider.replay.ports import Ports, Stager, required_reader
from dpone_provider.replay.record import Found


@attrs.frozen(kw_only=True)
class Admission:
    """Asked once an attempt. A proven commit is finished without it, whatever has become of the rest."""

    ports: Ports
    me: Claimant
    policy: QualityPolicy
    cleaner: Cleaner

    def require_reader(self) -> None:
        """Refuse an attempt that could not observe what it must. Raises ``DponeError`` …_UNSUPPORTED (R1)."""
        if self._observes:
            required_reader(self.ports)

    def admit(self, found: Found, stager: Stager) -> None:
        """The target, the authority's memory, the reader. Raises ``DponeError``."""
        stager.admit()
        if found.record is None:
            self._refuse_forgotten()
        if self._observes:
            self.ports.notify("reader", {})
            required_reader(self.ports).ready()

    @property
    def _observes(self) -> bool:
        return self.policy.acceptance is not None and "target" in self.policy.acceptance.sides

    def _refuse_forgotten(self) -> None:
        """The authority knows nothing, and this operation's own generation is live: it must not load twice (D4)."""
        for replica in self.me.replicas:
            live = self.cleaner.facts(replica).live
            if live is not None and governed_by(live.comment) == self.me.operation.operation_id:
                raise DponeError(
                    "DPONE_REPLAY_QUALITY_EVIDENCE_REQUIRED",
                    "This operation has published the live table before, and the authority has no record of it.",
                    remedy="Restore the authority's data, or set `reprocess` to load again as a new operation.",
                    target_commit="unknown",
                )
