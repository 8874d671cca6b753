"""A load of two real servers, or three, on one real ZooKeeper.

The servers have no listener for data replication. So the one thing that is not real is ``Copied``: the generations are
plain MergeTree tables, and what replication would do is done by a query from server to server.
"""

from __future__ import annotations

from typing import Any

import attrs

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.provision import apply
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.load.spreading import Replication
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire
from tests.loads import Bench, endpoint_of
from tests.sandbox_fixture import HOSTS, SandboxPair, ask


def copied(pair: SandboxPair, **changes: Any) -> Replication:
    """Replication that tests can have: the other servers fetch what the first one took."""

    def spread(database: str, table: str) -> None:
        first = pair.first
        where = f"'{first.host}:{first.tcp_port}', '{database}', '{table}', '{first.user}', '{first.password}'"
        for other in pair.servers[1:]:
            ask(other, f"INSERT INTO {database}.{table} SELECT * FROM remote({where})")

    return Replication(**{"engine": "MergeTree", "spread": spread, "within": 10.0, **changes})


def dialled(pair: SandboxPair, **changes: Any) -> Endpoint:
    """The connection: the first server, and where each replica is."""
    addresses = tuple((name, one.host, one.tcp_port) for name, one in named(pair).items())
    return endpoint_of(pair.first, replica_addresses=addresses, **changes)


def named(pair: SandboxPair) -> dict[str, RunningSandbox]:
    """The servers by their names in the inventory."""
    return dict(zip(HOSTS, pair.servers, strict=False))


def servers(pair: SandboxPair) -> tuple[RunningSandbox, ...]:
    return pair.servers


@attrs.frozen(kw_only=True)
class PairBench(Bench):
    """One target table on every server. What ``Bench`` looks at is the first one."""

    pair: SandboxPair
    cluster: str = "main"

    def provision(self) -> None:
        """Create the authority on every server, as the platform owner would."""
        clients = {name: ControlClient(endpoint_of(one), DirectWire()) for name, one in named(self.pair).items()}
        try:
            apply(clients, self.database)
        finally:
            for client in clients.values():
                client.close()

    def spec(self, **asked: Any) -> LoadSpec:
        """The load of one server, of the cluster."""
        spec = Bench.spec(self, **asked)
        design = attrs.evolve(spec.sink.design, engine="ReplicatedMergeTree")
        return attrs.evolve(spec, sink=attrs.evolve(spec.sink, cluster=self.cluster, design=design))

    def run(self, run_id: str = "r1", **around: Any) -> LoadOutcome:
        """Run the load once, as one attempt."""
        seam = {"endpoint": dialled(self.pair), "replication": copied(self.pair)}
        return Bench.run(self, run_id, **{"spec": self.spec(), **seam, **around})

    @property
    def others(self) -> list[Bench]:
        """What is true on each of the other servers."""
        return [
            Bench(sandbox=server, database=self.database, folder=self.folder, table=self.table)
            for server in self.pair.servers[1:]
        ]

    @property
    def second(self) -> Bench:
        """What is true on the second server."""
        return self.others[0]

    def lives(self) -> tuple[str | None, ...]:
        """The UUIDs that are live."""
        return (self.live(), *(other.live() for other in self.others))

    def each(self) -> list[list[int]]:
        """The live ids on each."""
        return [self.ids(), *(other.ids() for other in self.others)]

    def leftovers(self) -> list[str]:
        """Names of private tables of this table, on any server."""
        names = {*self.private(), *(name for other in self.others for name in other.private())}
        return sorted(name for name in names if name.startswith(f"{self.table}__"))
