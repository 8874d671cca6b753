"""The staged refresh without authority: stage, gates, one switch, drop the old generation (selector omitted or false).

Its retry reads the source again: without the authority nobody can know whether a lost switch was applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.replay.cleanup import Cleaned, Cleaner
from dpone_provider.replay.identity import Operation, generated
from dpone_provider.replay.ports import CatalogFacts, Publisher, StagedProof, Stager, StagingOrder
from dpone_provider.wire import StatementFailed


@attrs.frozen(kw_only=True)
class Published:
    """A published plain refresh."""

    proof: StagedProof
    generation: str
    load_id: str
    cleaned: Cleaned


class PlainRefresh:
    """One run of a plain staged refresh on one replica.

    The private name is used by this run alone, so that no other run's table can be switched or dropped by it. It is no
    trash name: what stands under it gets one before it is dropped, so that a late switch of this name finds nothing.
    """

    def __init__(
        self,
        operation: Operation,
        replica: str,
        cleaner: Cleaner,
        publisher: Publisher,
        *,
        load_id: str,
        new_id: Callable[[], str],
        new_uuid: Callable[[], str],
        notify: Callable[[str, dict[str, Any]], None],
        check_cancelled: Callable[[], None],
        keep_previous: bool,
    ) -> None:
        self._operation = operation
        self._replica = replica
        self._cleaner = cleaner
        self._publisher = publisher
        self._notify = notify
        self._check_cancelled = check_cancelled
        self._keep_previous = keep_previous
        self._order = StagingOrder(
            name=operation.alone(new_id()),
            uuid=new_uuid(),
            mark=operation.mark(0),
            load_id=load_id,
            keep_alive=check_cancelled,
        )

    def run(self, stager: Stager, committed: Callable[[], None]) -> Published:
        """Stage, publish, clean; ``committed`` is called in between, once the new table is proven live (X3).

        Raises ``DponeError``; ``target_commit`` is set on it. What ``committed`` raises rolls nothing back.
        """
        sent = live = False
        try:
            self._sweep()
            self._notify("stage", {})
            proof = stager.stage(self._order)
            before = self._cleaner.facts(self._replica)
            self._check_cancelled()
            self._notify("publish", {"replica": self._replica})
            sent = True
            self._switch(first=before.live is None)
            after = self._proven()
            live = True
            cleaned = self._settle(before, after, committed)
        except StatementFailed as failed:
            raise self._unanswered(sent) from failed
        except BaseException as error:
            if not sent:
                self._cleaner.discard(self._replica, self._order.uuid)
            if isinstance(error, DponeError) and error.target_commit is None:
                error.target_commit = "proven" if live else "unknown" if sent else "not_started"
            raise
        return Published(proof=proof, generation=self._order.uuid, load_id=self._order.load_id, cleaned=cleaned)

    def _switch(self, *, first: bool) -> None:
        try:
            if first:
                self._publisher.publish_first(self._replica, self._order.name)
            else:
                self._publisher.exchange(self._replica, self._order.name)
        except StatementFailed:
            return  # the catalog decides

    def _proven(self) -> CatalogFacts:
        """The catalog after the switch, which must show the generation live."""
        after = self._cleaner.facts(self._replica)
        if after.live is None or after.live.uuid != self._order.uuid:
            self._cleaner.discard(self._replica, self._order.uuid)
            raise DponeError("DPONE_PUBLICATION_UNCERTAIN")
        return after

    def _settle(self, before: CatalogFacts, after: CatalogFacts, committed: Callable[[], None]) -> Cleaned:
        try:
            committed()
        except DponeError:
            self._retire(before, after)
            raise
        return self._retire(before, after)

    def _retire(self, before: CatalogFacts, after: CatalogFacts) -> Cleaned:
        if before.live is None or self._keep_previous:
            return Cleaned()
        old = [table for table in after.private if table.uuid == before.live.uuid]
        return self._cleaner.drop(self._replica, old)

    def _sweep(self) -> None:
        """Drop what earlier runs of this operation left.

        Own stagings and, after a kill, the generation they replaced.
        """
        facts = self._cleaner.facts(self._replica)
        live = facts.live.uuid if facts.live is not None else None
        mine = [
            table
            for table in facts.private
            if table.uuid != live
            and self._operation.epoch_of(table.name) == 0
            and (self._operation.marks(table.comment) or (generated(table.comment) and not self._keep_previous))
        ]
        self._cleaner.drop(self._replica, mine)

    def _unanswered(self, sent: bool) -> DponeError:
        if sent:
            return DponeError("DPONE_PUBLICATION_UNCERTAIN", target_commit="unknown")
        self._cleaner.discard(self._replica, self._order.uuid)
        return DponeError("DPONE_STAGING_FAILED", "The server stopped answering.", target_commit="not_started")
