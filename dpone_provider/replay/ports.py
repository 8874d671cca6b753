"""What the replay room asks of the outside: the authority store, the catalog and the publisher.

Every port method performs exactly one statement, once, and raises ``dpone_provider.wire.StatementFailed`` when it
does not come back clean. Nothing here retries (A4). ``replica`` is an inventory name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.receipt import QualityGateReceipt
from dpone_provider.replay.target_reader import BUDGET_SECONDS, BoundedTargetAcceptanceReader


@attrs.frozen(kw_only=True)
class StoredRow:
    """The columns of one authority row, unparsed."""

    target_key: str
    operation_id: str
    phase: str
    owner: str
    record: str
    record_sha256: str


@attrs.frozen(kw_only=True)
class Slot:
    """What one read of the authority found. ``rows``: 0 or 1 ``(row, version)`` pairs, more is ambiguous (A5).

    ``now_ms``: the server's clock at the read, Unix milliseconds.
    """

    rows: tuple[tuple[StoredRow, int], ...]
    now_ms: int


@attrs.frozen(kw_only=True)
class Expect:
    """What a CAS demands of the row that it replaces (A2)."""

    version: int
    operation_id: str
    owner: str
    phase: str


class AuthorityStore(Protocol):
    """The KeeperMap table of the target's database (protocol 2)."""

    def admit(self) -> None:
        """Check schema, engine text, path and key on every replica, read-only (A1).

        Raises ``DponeError`` DPONE_REPLAY_AUTHORITY_UNSUPPORTED.
        """

    def read(self, target_key: str, *, replica: str | None = None) -> Slot:
        """Read one key, through one replica (None = the first)."""

    def create(self, row: StoredRow) -> None:
        """Strict INSERT, sent once."""

    def update(self, row: StoredRow, expect: Expect) -> None:
        """Strict conditional UPDATE of all non-key columns, sent once. Zero matching rows is a silent success."""


@attrs.frozen(kw_only=True)
class NamedTable:
    """A table of the catalog: unquoted name, lower-case UUID text, COMMENT."""

    name: str
    uuid: str
    comment: str


@attrs.frozen(kw_only=True)
class CatalogFacts:
    """One SELECT on ``system.tables`` of one replica.

    ``live``: the target table itself, None when there is none. ``private``: every table whose name starts with
    ``<table>__dpone_<operation_id[:12]>_``, sorted by name.
    """

    live: NamedTable | None
    private: tuple[NamedTable, ...]


class Catalog(Protocol):
    """The catalog of one replica, for one target and one operation."""

    def facts(self, replica: str, private_prefix: str) -> CatalogFacts: ...


class Publisher(Protocol):
    """The only statements that may change names of tables. Names are unquoted, in the target's database."""

    def exchange(self, replica: str, candidate: str) -> None:
        """``EXCHANGE TABLES db.table AND db.candidate``."""

    def publish_first(self, replica: str, candidate: str) -> None:
        """``RENAME TABLE db.candidate TO db.table``: there is no table yet."""

    def rename(self, replica: str, old: str, new: str) -> None:
        """``RENAME TABLE db.old TO db.new``: a fence, or a move to the trash name."""

    def drop(self, replica: str, name: str) -> None:
        """``DROP TABLE db.name``: the name is free at once; running readers of the table are not waited for."""


@attrs.frozen(kw_only=True)
class StagingOrder:
    """What an attempt asks to be staged: a table of this private name, UUID and last COMMENT line.

    ``load_id``: the id of this staging, 32 hex. ``keep_alive`` must be called at least every second or so while
    staging: it refreshes the claim and raises when the attempt was fenced or cancelled; the staging must then abort
    and let that error pass.
    """

    name: str
    uuid: str
    mark: str
    load_id: str
    keep_alive: Callable[[], None]


@attrs.frozen(kw_only=True)
class StagedProof:
    """What a proven staging says, as capsule parts (protocol 5): canonical-JSON mappings, counts in rows.

    ``target_plan``: what must be observed of the live generation, None when nothing must. ``receipt``: of the gates,
    accepted for the payload; whoever ends the load accepts it for the state.
    """

    rows: int
    source_probe: Mapping[str, Any]
    target_probe: Mapping[str, Any]
    report: Mapping[str, Any]
    acceptance: Mapping[str, Any]
    effective_plan: Mapping[str, Any]
    desired: Mapping[str, Any]
    target_plan: Mapping[str, Any] | None = None
    receipt: QualityGateReceipt | None = None


class Stager(Protocol):
    """Reads the source into one private generation and proves it."""

    def admit(self) -> None:
        """Refuse a target that cannot be published to. Reads only; asked before the slot is claimed for a staging.

        What is sealed already is finished without it: nothing that changed since may keep a proven commit open.
        """

    def stage(self, order: StagingOrder) -> StagedProof:
        """Stage, check gates, observe. Raises ``DponeError`` when the source, the staging or a gate fails."""


def _unchanging() -> None:
    return None


@attrs.frozen(kw_only=True)
class Ports:
    """What a session works through.

    ``notify(step, facts)`` tells each step before it acts; ``check_cancelled`` raises when the attempt must not go
    on; ``new_id`` gives 32 hex, ``new_uuid`` a UUID text; ``clock`` is monotonic seconds. ``reader`` observes the
    live generation within ``observe_within`` seconds; None: nothing can be observed (R1). ``require_inventory`` raises
    when the replicas are not those of the claim any more; asked before the permit (A5).
    """

    store: AuthorityStore
    catalog: Catalog
    publisher: Publisher
    new_id: Callable[[], str]
    new_uuid: Callable[[], str]
    clock: Callable[[], float]
    notify: Callable[[str, dict[str, Any]], None]
    check_cancelled: Callable[[], None]
    reader: BoundedTargetAcceptanceReader | None = None
    observe_within: float = BUDGET_SECONDS
    require_inventory: Callable[[], None] = _unchanging


def required_reader(ports: Ports) -> BoundedTargetAcceptanceReader:
    """The reader. Raises DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED when a target must be observed and there is none."""
    if ports.reader is None:
        raise DponeError(
            "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
            "quality.acceptance asks for the target, and there is nothing that can observe it.",
            remedy="Compose the sink with a target_acceptance_reader, or set capture.target to false.",
        )
    return ports.reader
