"""What ``dpone status`` saw: one value, and what follows from it without a judgement (O5). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.replay.claim import STALE_CLAIM_AFTER_MS
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import CatalogFacts
from dpone_provider.replay.record import AuthorityRecord, Found

Relation = Literal["not asked", "unknown", "none", "this", "another", "ended"]
Live = Literal["generation", "predecessor", "some", "other", "unknown", "nothing sealed"]


@attrs.frozen(kw_only=True)
class Sighting:
    """What was read.

    ``operation``: the one asked for, or None. ``problem``: why the authority cannot be used, "" = it can.
    ``found`` None: no authority is used or usable. ``facts``: the live table and every private table of the target,
    on the first replica that answers. ``replicas``: of a cluster, what each showed, None for one that does not answer.
    """

    spec: LoadSpec
    operation: Operation | None
    admission_digest: str
    authority: str
    problem: str
    found: Found | None
    archived: bool
    facts: CatalogFacts
    replicas: Mapping[str, CatalogFacts | None] = attrs.field(factory=dict)

    @property
    def silent(self) -> tuple[str, ...]:
        """The replicas that do not answer."""
        return tuple(name for name, facts in self.replicas.items() if facts is None)

    @property
    def record(self) -> AuthorityRecord | None:
        """What the slot holds, None = nothing, or no authority."""
        return self.found.record if self.found is not None else None

    @property
    def capsule(self) -> QualityReplayCapsule | None:
        """The sealed proof. Raises ``CapsuleError`` when it cannot be trusted."""
        if self.found is None or self.found.record is None or self.found.record.capsule is None:
            return None
        return QualityReplayCapsule.parse(self.found.record.capsule, row_version=self.found.version)

    @property
    def age_ms(self) -> int:
        """How long ago the slot was written, by the server's clock."""
        if self.found is None or self.found.record is None:
            return 0
        return max(0, self.found.now - self.found.record.refreshed_at)

    @property
    def patience(self) -> int:
        """Seconds until another operation may take a slot that is held, 0 = now. True of what time can free only."""
        held = self.record is not None and self.record.owner
        return max(0, -(-(STALE_CLAIM_AFTER_MS - self.age_ms) // 1000)) if held else 0


def relation(saw: Sighting) -> Relation:
    """How the operation asked for stands to the slot; "unknown" without an authority that can be read."""
    if saw.operation is None:
        return "not asked"
    if saw.found is None:
        return "unknown"
    record = saw.record
    if record is None:
        return "none"
    if record.operation == saw.operation:
        return "this"
    ended = any(item.operation_id == saw.operation.operation_id for item in record.ended)
    return "ended" if ended or saw.archived else "another"


def live_is(saw: Sighting, record: AuthorityRecord | None) -> Live:
    """Which table is live, by UUID; "some": the generation, and elsewhere still the predecessor."""
    if record is None or record.generation is None:
        return "nothing sealed"
    found = {_live_on(facts, record) for facts in (saw.replicas or {"": saw.facts}).values() if facts is not None}
    if "other" in found:
        return "other"
    if saw.silent:
        return "unknown"
    return found.pop() if len(found) == 1 else "some"


def _live_on(facts: CatalogFacts, record: AuthorityRecord) -> Live:
    live = facts.live.uuid if facts.live is not None else None
    if live == record.generation:
        return "generation"
    return "predecessor" if live in record.predecessor.values() else "other"


def is_staged(saw: Sighting, record: AuthorityRecord) -> bool:
    """Whether the sealed generation stands under a private name."""
    return any(table.uuid == record.generation for table in saw.facts.private)
