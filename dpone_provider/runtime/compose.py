"""The one composition root.

A LoadSpec, connections and an identity become a running load (architecture, one way through the house).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import attrs

from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
from dpone_provider.clickhouse.catalog import ClickHouseCatalog, TableState
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.inventory import Inventory, read_inventory, require_same
from dpone_provider.clickhouse.publisher import ClickHousePublisher
from dpone_provider.errors import DponeError
from dpone_provider.load.admission import admit_target
from dpone_provider.load.operation import observes_target, operation_of
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.load.refusals import unreadable
from dpone_provider.load.spreading import Replication, admit_macros
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.spec import ClickHouseSource, LoadSpec, SourceSpec, SqlSource
from dpone_provider.native.files import Files, LocalFiles
from dpone_provider.replay.claim import STALE_CLAIM_AFTER_MS, Claimant
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import Ports
from dpone_provider.replay.session import QualityReplaySession
from dpone_provider.replay.target_reader import BUDGET_SECONDS, BoundedTargetAcceptanceReader
from dpone_provider.runtime.connections import Connections
from dpone_provider.runtime.sink import ClickHouseSink
from dpone_provider.sources.sql.endpoint import SourceEndpoint
from dpone_provider.wire import DirectWire, StatementFailed, Wire

REPLICA = "single"
"""The name of the one server of a load without a cluster."""
Reached = tuple[ControlClient, Inventory | None, Mapping[str, ControlClient]]
Notify = Callable[[str, dict[str, Any]], None]


def _silent(step: str, facts: dict[str, Any]) -> None:
    return None


def _going_on() -> None:
    return None


@attrs.frozen(kw_only=True)
class Surroundings:
    """Everything that a load takes from outside and that tests replace.

    Wire, clock, randomness, cancellation, telling. ``observe_within``: seconds that an observation may take.
    ``replication``: what brings rows to the other replicas of a cluster. ``files``: the local disk of a transfer.
    """

    notify: Notify = _silent
    check_cancelled: Callable[[], None] = _going_on
    wire: Wire = attrs.field(factory=DirectWire)
    clock: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = attrs.field(default=lambda: uuid.uuid4().hex)
    new_uuid: Callable[[], str] = attrs.field(default=lambda: str(uuid.uuid4()))
    stale_after_ms: int = STALE_CLAIM_AFTER_MS
    observe_within: float = BUDGET_SECONDS
    replication: Replication = attrs.field(factory=Replication)
    files: Files = attrs.field(factory=LocalFiles)


@attrs.frozen(kw_only=True)
class Composition:
    """The adapters of one load, and what identifies it. ``clients``: one for each replica, by its sorted name.

    ``inventory``: of the cluster, None for one server; it is read through ``door``, the connection's own host.
    ``kept``: closed at the end of the load, on every path.
    """

    spec: LoadSpec
    identity: RunIdentity
    operation: Operation
    around: Surroundings
    sink: ClickHouseSink
    source: SourceEndpoint | None
    door: ControlClient
    clients: Mapping[str, ControlClient]
    inventory: Inventory | None
    catalog: ClickHouseCatalog
    publisher: ClickHousePublisher
    kept: ExitStack

    def session(self, notify: Notify) -> QualityReplaySession:
        """A session of the durable route that tells ``notify``, its authority admitted (A1). Raises ``DponeError``."""
        store = ClickHouseReplayQualityStore(self.clients, self.authority_database)
        try:
            store.admit()
        except StatementFailed as failed:
            raise unreadable(failed, "the authority") from None
        claimant = Claimant(
            operation=self.operation,
            admission_digest=admission_digest(self.spec),
            owner=self.around.new_id(),
            replicas=self.replicas,
            stale_after_ms=self.around.stale_after_ms,
            **({"inventory_digest": self.inventory.digest} if self.inventory is not None else {}),
        )
        ports = Ports(
            store=store,
            catalog=self.catalog,
            publisher=self.publisher,
            new_id=self.around.new_id,
            new_uuid=self.around.new_uuid,
            clock=self.around.clock,
            notify=notify,
            check_cancelled=self.around.check_cancelled,
            reader=self.reader(),
            observe_within=self.around.observe_within,
            require_inventory=self._require_inventory,
        )
        return QualityReplaySession(ports, claimant, self.spec.quality, keep_previous=self.spec.sink.keep_previous)

    @property
    def replicas(self) -> tuple[str, ...]:
        """The names of the replicas, sorted."""
        return tuple(self.clients)

    @property
    def control(self) -> ControlClient:
        """The first replica."""
        return self.clients[self.replicas[0]]

    @property
    def replication(self) -> Replication | None:
        """What brings rows to the other replicas; None for one server."""
        return self.around.replication if self.inventory is not None else None

    @property
    def engine(self) -> str:
        """The engine that the live table must have, and a new generation gets."""
        replication = self.replication
        return replication.engine if replication is not None else "MergeTree"

    @property
    def database(self) -> str:
        """The target's database."""
        return self.spec.sink.table.database

    @property
    def authority_database(self) -> str:
        """The database of the authority: the connection's, else the target's."""
        return self.sink.connector.authority_database or self.database

    @property
    def observes(self) -> bool:
        """Whether the live target is observed: the selector is on and acceptance asks for it."""
        return observes_target(self.spec)

    def admit_target(self) -> TableState | None:
        """The live table, admitted for this route (M7); None when there is none yet."""
        if self.inventory is not None:
            admit_macros(tuple(self.clients.items()))
        state = admit_target(self.clients, self.spec.sink.table, self.engine)
        if self.observes and self.sink.target_acceptance_reader is None:
            from dpone_provider.reader.admission import admit_reader_settings

            for client in self.clients.values():
                admit_reader_settings(client)
        return state

    def _require_inventory(self) -> None:
        if self.inventory is not None:
            require_same(self.door, self.inventory)

    def reader(self) -> BoundedTargetAcceptanceReader | None:
        """The reader that the sink brings, else a supervised one of its own connection, where one is needed (R1)."""
        if not self.observes or self.sink.target_acceptance_reader is not None:
            return self.sink.target_acceptance_reader
        from dpone_provider.reader.target_reader import SupervisedTargetReader

        return SupervisedTargetReader(
            {name: client.endpoint for name, client in self.clients.items()},
            wire=self.around.wire,
            new_id=self.around.new_id,
            clock=self.around.clock,
            check_cancelled=self.around.check_cancelled,
        )


def _source_of(spec: SourceSpec, connections: Connections) -> SourceEndpoint | None:
    """Where the source is; None for files."""
    if isinstance(spec, SqlSource):
        return connections.sql_endpoint(spec.connection_ref)
    return connections.endpoint(spec.connection_ref) if isinstance(spec, ClickHouseSource) else None


@contextmanager
def reached(connection: Endpoint, cluster: str, wire: Wire) -> Iterator[Reached]:
    """The connection's own host, the inventory of ``cluster``, a client a replica; "": the one server is its replica.

    Only the host is asked something yet, and only about a cluster. Raises ``DponeError``.
    """
    with ExitStack() as opened:

        def client(where: Endpoint) -> ControlClient:
            return opened.enter_context(closing(ControlClient(where, wire)))

        door = client(connection)
        if not cluster:
            yield door, None, {REPLICA: door}
            return
        try:
            inventory = read_inventory(door, cluster)
        except StatementFailed as failed:
            raise unreadable(failed, "the cluster") from None
        yield door, inventory, {row.host: client(inventory.endpoint(row, connection)) for row in inventory.replicas}


@contextmanager
def compose(
    spec: LoadSpec,
    identity: RunIdentity,
    connections: Connections,
    around: Surroundings,
    sink: ClickHouseSink | None = None,
) -> Iterator[Composition]:
    """Resolve connections and build the adapters; everything is closed on every path.

    ``sink``: composed by trusted code; None: of the manifest's connection.
    """
    sink = sink or ClickHouseSink(connections.endpoint(spec.sink.connection_ref), spec.sink.durable_quality_replay)
    if sink.durable_quality_replay is not spec.sink.durable_quality_replay:
        raise DponeError("DPONE_ROUTE_UNSUPPORTED", "The sink was composed with another durable_quality_replay.")
    source = _source_of(spec.source, connections)
    table = spec.sink.table
    with (
        reached(sink.connector, spec.sink.cluster, around.wire) as (door, inventory, clients),
        ExitStack() as kept,
    ):
        yield Composition(
            spec=spec,
            identity=identity,
            operation=operation_of(spec, identity),
            around=around,
            sink=sink,
            source=source,
            door=door,
            clients=clients,
            inventory=inventory,
            catalog=ClickHouseCatalog(clients, table.database, table.name),
            publisher=ClickHousePublisher(clients, table.database, table.name),
            kept=kept,
        )
