"""What the inventory of a cluster is, what is refused, and where its replicas are dialled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.inventory import Inventory, read_inventory, require_same
from dpone_provider.clickhouse.replica import health, replica_macro
from dpone_provider.clickhouse.staging import create_generation
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import PhysicalDesign
from dpone_provider.wire import DirectWire, StatementFailed
from tests.loads import endpoint_of
from tests.sandbox_fixture import FIRST, SECOND, SandboxPair, ask

UUID = "0191c0de-0000-7000-8000-00000000000a"


@pytest.fixture
def first(sandbox_pair: SandboxPair) -> Iterator[ControlClient]:
    client = ControlClient(endpoint_of(sandbox_pair.first), DirectWire())
    yield client
    client.close()


@pytest.fixture
def second(sandbox_pair: SandboxPair) -> Iterator[ControlClient]:
    client = ControlClient(endpoint_of(sandbox_pair.second), DirectWire())
    yield client
    client.close()


@pytest.mark.contract("A5")
def test_an_inventory_is_its_sorted_rows_on_every_server(first: ControlClient, second: ControlClient) -> None:
    found = read_inventory(first, "main")
    assert found == read_inventory(second, "main")
    assert found.names == (FIRST, SECOND)
    assert [(row.native_port, row.shard_num, row.replica_num) for row in found.replicas] == [(9000, 1, 2), (9000, 1, 1)]
    assert len(found.digest) == 64


@pytest.mark.contract("A5")
@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ("nowhere", "is not known to the server"),
        ("shards", "has more than one shard"),
        ("twice", "names two replicas alike"),
        ("outer", "has no internal_replication"),
    ],
)
def test_other_clusters_are_refused(first: ControlClient, cluster: str, problem: str) -> None:
    with pytest.raises(DponeError, match=problem) as caught:
        read_inventory(first, cluster)
    assert caught.value.code == "DPONE_TARGET_UNSUPPORTED"
    assert not caught.value.retryable


@pytest.mark.contract("A5")
@pytest.mark.parametrize("change", ["native_port", "shard_num", "replica_num", "host", "address"])
def test_every_change_of_a_row_is_drift_and_only_a_new_address_keeps_the_digest(
    first: ControlClient, change: str
) -> None:
    found = read_inventory(first, "main")
    row = found.replicas[0]
    value = {"host": "127.0.0.10", "address": "10.0.0.9"}.get(change, 77)
    moved = attrs.evolve(found, replicas=(attrs.evolve(row, **{change: value}), *found.replicas[1:]))
    assert (moved.digest == found.digest) is (change == "address")
    require_same(first, found)
    with pytest.raises(DponeError, match="inventory of the cluster changed") as caught:
        require_same(first, moved)
    assert caught.value.code == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"


def test_a_replica_is_dialled_where_the_connection_says_and_else_where_it_is_advertised(first: ControlClient) -> None:
    inventory: Inventory = read_inventory(first, "main")
    replica = inventory.replicas[1]
    plain = Endpoint(host="gate", native_port=19000, user="u", password="p")
    assert inventory.endpoint(replica, plain) == attrs.evolve(plain, host=SECOND, native_port=9000)
    told = attrs.evolve(plain, replica_addresses=((SECOND, "10.0.0.2", 9100),))
    found = inventory.endpoint(replica, told)
    assert (found.host, found.native_port, found.user) == ("10.0.0.2", 9100, "u")
    with pytest.raises(DponeError, match=f"has no replica '{FIRST}'"):
        inventory.endpoint(inventory.replicas[0], told)


@pytest.mark.contract("A5")
def test_a_replicated_generation_is_alike_on_every_server_and_says_how_it_fares(
    sandbox_pair: SandboxPair, first: ControlClient, second: ControlClient, make: Callable[[ControlClient], None]
) -> None:
    """Without data replication the tables stay read-only; each knows of the other by the one Keeper tree."""
    make(first)
    make(second)
    engines = [
        ask(server, "SELECT engine_full FROM system.tables WHERE database = 'inv' AND name = 'g'")
        for server in (sandbox_pair.first, sandbox_pair.second)
    ]
    assert engines[0] == engines[1]
    assert "'/clickhouse/tables/{uuid}', '{replica}'" in engines[0][0][0]
    assert [replica_macro(client) for client in (first, second)] == [FIRST, SECOND]
    for client in (first, second):
        found = health(client, "inv", "g")
        assert found is not None
        assert (found.readonly, found.queue, found.total) == (1, 0, 2)
    assert health(first, "inv", "none") is None


@pytest.fixture
def make(sandbox_pair: SandboxPair) -> Iterator[Callable[[ControlClient], None]]:
    """Creates a replicated generation in a database of its own."""

    def create(client: ControlClient) -> None:
        design = PhysicalDesign(engine="ReplicatedMergeTree", order_by=("id",))
        create_generation(
            client, database="inv", name="g", uuid=UUID, columns=[("id", "UInt64")], design=design, comment="c"
        )

    for server in (sandbox_pair.first, sandbox_pair.second):
        ask(server, "CREATE DATABASE inv ENGINE = Atomic")
    yield create
    for server in (sandbox_pair.first, sandbox_pair.second):
        ask(server, "DROP DATABASE inv SYNC")


def test_a_server_without_the_macro_says_so_by_an_error(sandbox_pair: SandboxPair, client: ControlClient) -> None:
    with pytest.raises(StatementFailed) as caught:
        replica_macro(client)
    assert caught.value.code is not None
