"""The one generation that an attempt may stage: ordered, staged, sealed or dropped (protocol 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.replay.capsule import V2
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.cleanup import Cleaner
from dpone_provider.replay.observation import request_of
from dpone_provider.replay.ports import Ports, StagedProof, Stager, StagingOrder, required_reader
from dpone_provider.replay.proof import seal
from dpone_provider.replay.record import AuthorityRecord


class Generation:
    """What this attempt stages. ``order`` is set once the staging began."""

    def __init__(self, ports: Ports, me: Claimant, cleaner: Cleaner) -> None:
        self._ports = ports
        self._me = me
        self._cleaner = cleaner
        self._proof: StagedProof | None = None
        self.order: StagingOrder | None = None

    @property
    def uuid(self) -> str | None:
        """The generation's UUID, None before the staging began."""
        return self.order.uuid if self.order is not None else None

    def stage(self, record: AuthorityRecord, stager: Stager, *, keep_alive: Callable[[], None]) -> StagedProof:
        """Stage under the record's epoch and prove it. Raises what the stager raises."""
        self.order = StagingOrder(
            name=record.operation.candidate(record.epoch),
            uuid=self._ports.new_uuid(),
            mark=record.operation.mark(record.epoch),
            load_id=self._ports.new_id(),
            keep_alive=keep_alive,
        )
        self._ports.notify("stage", {"epoch": record.epoch})
        self._proof = stager.stage(self.order)
        return self._proof

    def sealed(
        self, record: AuthorityRecord, policy: QualityPolicy, predecessor: Mapping[str, str | None]
    ) -> AuthorityRecord:
        """The PREPARED record with the capsule. Raises when it could outgrow its bound (C4)."""
        if self.order is None or self._proof is None:
            raise LookupError("nothing is staged")
        capsule = seal(self._me, policy, self._proof, self.order.load_id)
        if capsule.kind == V2:
            required_reader(self._ports).reserve(request_of(capsule.core, self._ports.new_id()))
        sealed = attrs.evolve(
            record,
            phase="PREPARED",
            generation=self.order.uuid,
            predecessor=predecessor,
            candidates=dict.fromkeys(self._me.replicas, self.order.name),
            capsule=capsule.encode(),
        )
        self._ports.notify("seal", {"core_digest": capsule.core_digest, "record": sealed})
        sealed.reserve(capsule.largest())
        return sealed

    def drop(self) -> None:
        """Drop it wherever it stands under a private name. What cannot be dropped is swept by the next attempt."""
        if self.order is not None:
            for replica in self._me.replicas:
                self._cleaner.discard(replica, self.order.uuid)


def rejected(reason: str) -> DponeError:
    """The error of a generation that is discarded before it was sealed."""
    if reason == "live_on_some_replicas":
        return DponeError("DPONE_TARGET_UNSUPPORTED", "The target is live on some replicas only.")
    return DponeError("DPONE_STAGING_FAILED", "The staged generation disappeared before it was sealed.")
