"""The logical workload of a partition transfer: which partitions count, each once, and what their counts are (N2, N3).

P planned, A active in this attempt, S committed by an earlier one and skipped, R those of S that are active again:
P = A + S - R. A sum is unknown as soon as one of its parts is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from dpone_provider import canonical
from dpone_provider.native.checkpoint import Ledger
from dpone_provider.native.partition import TransferPartition
from dpone_provider.quality.problems import is_count
from dpone_provider.quality.scope import QualityScopeSummary
from dpone_provider.quality.verdicts import Probe

KIND = "native_transfer"
Ids = frozenset[str]


def _ids(values: Iterable[str]) -> Ids:
    return frozenset(values)


@attrs.frozen(kw_only=True)
class NativeTransferContext:
    """What an attempt starts from: its partitions, what earlier attempts left, and how the target is replaced.

    ``mode`` partition_replace skips what is committed; full_refresh loads all of it again unless nothing is left to do.
    """

    partitions: tuple[TransferPartition, ...]
    ledger: Ledger
    mode: Literal["full_refresh", "partition_replace"] = attrs.field(
        validator=attrs.validators.in_(("full_refresh", "partition_replace"))
    )


@attrs.frozen(kw_only=True)
class NativeSnapshots:
    """Both sides of the logical workload, for the gates. A hash over partitions does not exist: it is None."""

    source: Probe
    target: Probe


@attrs.frozen(kw_only=True)
class NativeTransferQualityScope:
    """P, A, S and R as sets of partition ids. Raises ``ValueError`` where P = A + S - R and R = A & S do not hold."""

    planned: Ids = attrs.field(converter=_ids)
    active: Ids = attrs.field(converter=_ids)
    skipped: Ids = attrs.field(converter=_ids)
    reactivated: Ids = attrs.field(converter=_ids)

    def __attrs_post_init__(self) -> None:
        if self.planned != self.active | self.skipped or self.reactivated != self.active & self.skipped:
            raise ValueError("the partitions do not add up")

    @classmethod
    def from_context(cls, context: NativeTransferContext) -> NativeTransferQualityScope:
        """The scope of an attempt: a checkpoint of a partition that is not planned today is stale and counts nowhere.

        To a full refresh it says that the generation holds what the source has no more: all is loaded again.
        """
        planned = frozenset(each.partition_id for each in context.partitions)
        every = frozenset(each for each in context.ledger.latest if context.ledger.is_committed(each))
        committed = every & planned
        active = planned - committed
        if context.mode == "full_refresh" and (active or every != committed):
            active = planned
        return cls(planned=planned, active=active, skipped=committed, reactivated=active & committed)

    @property
    def resume_only(self) -> bool:
        """Is everything committed, so that the sink is not touched? Never where nothing is planned."""
        return bool(self.planned) and not self.active

    @property
    def digest(self) -> str:
        """``sha256:`` over the canonical JSON of the four sorted sets."""
        return f"sha256:{canonical.digest({name: sorted(ids) for name, ids in attrs.asdict(self).items()})}"

    def summary(self) -> QualityScopeSummary:
        """Counts and the digest, for receipt and report."""
        return QualityScopeSummary(
            kind=KIND,
            digest=self.digest,
            planned_count=len(self.planned),
            active_count=len(self.active),
            skipped_committed_count=len(self.skipped),
            reactivated_count=len(self.reactivated),
        )

    def projected_snapshots(
        self, exported: Mapping[str, object], staged: Mapping[str, object], ledger: Ledger
    ) -> NativeSnapshots:
        """Before the commit: rows by id of what is active, and the committed rows of what stays skipped."""
        return NativeSnapshots(
            source=Probe(row_count=self._with_committed(exported, ledger)),
            target=Probe(row_count=self._with_committed(staged, ledger)),
        )

    def committed_snapshots(self, ledger: Ledger) -> NativeSnapshots:
        """After the commit: the committed rows of all that is planned, on both sides."""
        rows = total(_committed_rows(ledger, each) for each in self.planned)
        return NativeSnapshots(source=Probe(row_count=rows), target=Probe(row_count=rows))

    def resume_snapshots(self, ledger: Ledger) -> NativeSnapshots:
        """As ``committed_snapshots``, where everything is skipped; else unknown."""
        return self.committed_snapshots(ledger) if self.resume_only else NativeSnapshots(source=Probe(), target=Probe())

    def null_counts(
        self, columns: Iterable[str], exported: Mapping[str, Mapping[str, object]], ledger: Ledger
    ) -> dict[str, int | None]:
        """The source's NULLs by column: of what is active as exported, and of what stays skipped as committed."""
        skipped = {each: ledger.committed(each) for each in self.skipped - self.active}
        parts: list[Mapping[str, Any]] = [exported.get(each, {}) for each in self.active]
        parts += [{} if found is None else found.null_counts for found in skipped.values()]
        return {column: total(part.get(column) for part in parts) for column in columns}

    def _with_committed(self, current: Mapping[str, object], ledger: Ledger) -> int | None:
        stays = self.skipped - self.reactivated
        return total([*(current.get(each) for each in self.active), *(_committed_rows(ledger, each) for each in stays)])


def total(counts: Iterable[object]) -> int | None:
    """The sum, or None where one of the counts or the sum is no whole number of 0 to 2**64-1. No counts: 0."""
    result = 0
    for count in counts:
        if not is_count(count):
            return None
        result += count
    return result if is_count(result) else None


def _committed_rows(ledger: Ledger, partition_id: str) -> int | None:
    found = ledger.committed(partition_id)
    return None if found is None else found.rows
