"""Private tables that may go: what an operation left behind, and the way to drop it (protocol 4; P5).

A table is dropped only under a name that nobody else ever uses, after that name was seen to hold the very UUID that
was listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import Catalog, CatalogFacts, NamedTable, Publisher
from dpone_provider.replay.record import AuthorityRecord
from dpone_provider.wire import StatementFailed


@attrs.frozen(kw_only=True)
class Cleaned:
    """What a cleaning did.

    Names dropped, names left alone because they are not ours, names that could not be dropped.
    """

    dropped: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def __add__(self, other: Cleaned) -> Cleaned:
        return Cleaned(
            dropped=self.dropped + other.dropped, left=self.left + other.left, failed=self.failed + other.failed
        )


def leftovers(
    operation: Operation,
    facts: CatalogFacts,
    *,
    below: int,
    keep: Iterable[str | None],
    also: Iterable[str | None] = (),
) -> tuple[tuple[NamedTable, ...], tuple[str, ...]]:
    """Private tables of epochs strictly below ``below``: those to drop, and the names of those that are not ours.

    ``keep``: UUIDs that must stay. ``also``: UUIDs to drop whatever their comment says (the predecessor); any other
    table is dropped only when its COMMENT names this operation.
    """
    kept, named = set(keep), set(also)
    live = facts.live.uuid if facts.live is not None else None
    drop: list[NamedTable] = []
    foreign: list[str] = []
    for table in facts.private:
        epoch = operation.epoch_of(table.name)
        if epoch is None or epoch >= below or table.uuid in kept or table.uuid == live:
            continue
        if table.uuid in named or operation.marks(table.comment):
            drop.append(table)
        else:
            foreign.append(table.name)
    return tuple(drop), tuple(foreign)


@attrs.frozen(kw_only=True)
class Cleaner:
    """Drops listed tables of one operation on one replica at a time."""

    operation: Operation
    catalog: Catalog
    publisher: Publisher
    new_id: Callable[[], str]

    def facts(self, replica: str) -> CatalogFacts:
        """One catalog read."""
        return self.catalog.facts(replica, self.operation.private_prefix)

    def drop(self, replica: str, tables: Iterable[NamedTable]) -> Cleaned:
        """Drop the listed tables; failures are recorded, never raised."""
        cleaned = Cleaned()
        for table in tables:
            cleaned += self._drop_one(replica, table)
        return cleaned

    def discard(self, replica: str, uuid: str) -> Cleaned:
        """Drop the table of this UUID wherever it stands under a private name."""
        try:
            private = self.facts(replica).private
        except (StatementFailed, DponeError):
            return Cleaned(failed=(replica,))
        return self.drop(replica, [table for table in private if table.uuid == uuid])

    def clean(
        self, replica: str, *, below: int, keep: Iterable[str | None], also: Iterable[str | None] = ()
    ) -> Cleaned:
        """List and drop. A failure to list is a failure named after the replica."""
        try:
            tables, foreign = leftovers(self.operation, self.facts(replica), below=below, keep=keep, also=also)
        except StatementFailed:
            return Cleaned(failed=(replica,))
        return Cleaned(left=foreign) + self.drop(replica, tables)

    def _drop_one(self, replica: str, table: NamedTable) -> Cleaned:
        epoch = self.operation.epoch_of(table.name) or 0
        doomed = table.name
        try:
            if not self.operation.is_trash(doomed):
                doomed = self.operation.trash(epoch, self.new_id())
                self.publisher.rename(replica, table.name, doomed)
            if not _holds(self.facts(replica), doomed, table.uuid):
                return Cleaned(failed=(table.name,))
            self.publisher.drop(replica, doomed)
        except StatementFailed:
            return Cleaned(failed=(table.name,))
        return Cleaned(dropped=(table.name,))


def sweep(cleaner: Cleaner, record: AuthorityRecord, before: AuthorityRecord | None, *, retire: bool) -> None:
    """After a verified claim: drop what earlier attempts left, and the operation ``before`` that had the slot.

    Nobody else drops the latter: no permit of it is open, and it may never come back. ``retire`` the table that it
    replaced too: only where both are configured alike and keep no table on purpose (``keep_previous``).
    """
    for replica in record.replicas:
        keep = (record.generation, *record.predecessor.values())
        cleaner.clean(replica, below=record.epoch, keep=keep)
        if before is not None:
            complete = before.phase == "COMPLETE"
            also = (before.predecessor.get(replica),) if complete and retire else ()
            keep = (before.generation,) if complete else ()
            attrs.evolve(cleaner, operation=before.operation).clean(
                replica, below=before.epoch + 2, keep=keep, also=also
            )


def _holds(facts: CatalogFacts, name: str, uuid: str) -> bool:
    return any(table.name == name and table.uuid == uuid for table in facts.private)
