"""The private tables of a replacement, one a partition: made like the live one, and none left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Final

import attrs

from dpone_provider.clickhouse import partitions
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.partitions import Staged, Within
from dpone_provider.load.refusals import staging_failed
from dpone_provider.manifest.spec import TableRef
from dpone_provider.replay.cleanup import Cleaned, Cleaner
from dpone_provider.replay.identity import Operation
from dpone_provider.wire import StatementFailed, Wire

EVERYTHING: Final = Within()


@attrs.frozen(kw_only=True)
class OwnTables:
    """Tables of one operation on one server, by partition id. ``create`` and ``look`` may be called by the workers."""

    table: TableRef
    operation: Operation
    replica: str
    cleaner: Cleaner
    sink: Endpoint
    wire: Wire
    new_id: Callable[[], str]
    new_uuid: Callable[[], str]
    names: dict[str, str] = attrs.field(factory=dict, init=False)
    _uuids: set[str] = attrs.field(factory=set, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def create(self, partition_id: str) -> str:
        """Make the table of a partition and return its name. Raises ``DponeError`` DPONE_STAGING_FAILED."""
        with self._lock:
            name, uuid = self.operation.alone(self.new_id()), self.new_uuid()
            self.names[partition_id] = name
            self._uuids.add(uuid)
        database, live = self.table.database, self.table.name
        try:
            with closing(self._client()) as client:
                partitions.create_like(client, database, name, uuid, live, self.operation.mark(0))
        except StatementFailed as failed:
            raise staging_failed(failed, "The table of a partition could not be created") from failed
        return name

    def look(self, partition_id: str, within: Within | None, kind: str) -> Staged:
        """What the table of a partition holds. Raises ``DponeError`` DPONE_STAGING_FAILED."""
        try:
            with closing(self._client()) as client:
                name = self.names[partition_id]
                return partitions.staged_partitions(client, self.table.database, name, within or EVERYTHING, kind)
        except StatementFailed as failed:
            raise staging_failed(failed, "A staged partition could not be counted") from failed

    def sweep(self) -> None:
        """Drop what earlier attempts of this operation left, its generations among them."""
        facts = self.cleaner.facts(self.replica)
        live = facts.live.uuid if facts.live is not None else None
        mine = [each for each in facts.private if each.uuid != live and self.operation.marks(each.comment)]
        self.cleaner.drop(self.replica, mine)

    def drop(self) -> Cleaned:
        """Drop every table that was made, or may have been. Failures are recorded, never raised."""
        try:
            private = self.cleaner.facts(self.replica).private
        except StatementFailed:
            return Cleaned(failed=tuple(self.names.values()))
        return self.cleaner.drop(self.replica, [each for each in private if each.uuid in self._uuids])

    def _client(self) -> ControlClient:
        return ControlClient(self.sink, self.wire, met=True)
