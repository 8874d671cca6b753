"""The replicas of a cluster, as ``system.clusters`` lists them, and where to dial each (A5).

A replica's identity is the name that the inventory gives it. What its own ``hostName()`` says, a short name say, or
what address a name resolves to today, identifies nothing.
"""

from __future__ import annotations

from typing import NoReturn

import attrs

from dpone_provider import canonical
from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.catalog import text
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed

_ROWS = """
SELECT host_name, host_address, port, shard_num, replica_num, internal_replication
FROM system.clusters WHERE cluster = {cluster:String}"""
_REMEDY = "Name a cluster of one shard whose replicas replicate among themselves (internal_replication)."


@attrs.frozen(kw_only=True, order=True)
class InventoryReplica:
    """One row. ``address``: what the server resolves the name to, "" when it cannot."""

    host: str
    address: str
    native_port: int
    shard_num: int
    replica_num: int
    internal_replication: bool


@attrs.frozen(kw_only=True)
class Inventory:
    """The replicas of one shard, sorted by name."""

    cluster: str
    replicas: tuple[InventoryReplica, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(replica.host for replica in self.replicas)

    @property
    def digest(self) -> str:
        """64 hex over the sorted rows, without the addresses: those may change under the same name."""
        rows = [attrs.asdict(replica) for replica in self.replicas]
        return canonical.digest([{name: row[name] for name in row if name != "address"} for row in rows])

    def endpoint(self, replica: InventoryReplica, connection: Endpoint) -> Endpoint:
        """Where a worker dials a replica: as ``replica_addresses`` says when there are any, else as advertised.

        Raises ``DponeError`` DPONE_CONNECTION_INVALID for a replica that they leave out.
        """
        if connection.replica_addresses:
            return connection.replica(replica.host)
        return attrs.evolve(connection, host=replica.host, native_port=replica.native_port)


def read_inventory(client: ControlClient, cluster: str) -> Inventory:
    """The inventory as one server tells it, in one SELECT.

    Raises ``DponeError`` DPONE_TARGET_UNSUPPORTED for anything but one shard of uniquely named replicas with internal
    replication, and ``StatementFailed``.
    """
    effect = Effect(kind="catalog_read", what="inventory of the cluster")
    found = client.query(effect, _ROWS, {"cluster": cluster}, settings=pins.READ)
    if not found:
        _unsupported(cluster, "is not known to the server")
    if any(type(number) is not int for row in found for number in row[2:]):
        raise StatementFailed(None, "an inventory whose numbers are none")
    replicas = sorted(
        InventoryReplica(
            host=text(host), address=text(address), native_port=port, shard_num=shard, replica_num=number,
            internal_replication=bool(internal),
        )
        for host, address, port, shard, number, internal in found
    )  # fmt: skip
    if len({replica.shard_num for replica in replicas}) != 1:
        _unsupported(cluster, "has more than one shard")
    if len({replica.host for replica in replicas}) != len(replicas) or not all(replica.host for replica in replicas):
        _unsupported(cluster, "names two replicas alike")
    if not all(replica.internal_replication for replica in replicas):
        _unsupported(cluster, "has no internal_replication: its tables do not replicate among themselves")
    return Inventory(cluster=cluster, replicas=tuple(replicas))


def require_same(client: ControlClient, claimed: Inventory) -> None:
    """Refuse when the inventory is not what it was, the addresses included: another server may answer now (A5).

    Raises ``DponeError`` DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH or as ``read_inventory`` does.
    """
    if read_inventory(client, claimed.cluster) != claimed:
        raise DponeError(
            "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
            "The inventory of the cluster changed since the load began; nothing was published.",
            remedy="Restore the inventory, then retry.",
            target_commit="not_started",
        )


def _unsupported(cluster: str, problem: str) -> NoReturn:
    message = f"The cluster {cluster} {problem}."
    raise DponeError("DPONE_TARGET_UNSUPPORTED", message, remedy=_REMEDY, target_commit="not_started")
