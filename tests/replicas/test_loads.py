"""A load of one shard with two replicas, without trouble."""

from __future__ import annotations

import pytest

from dpone_provider.cli.outcome_screen import outcome_screen
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import failure_document
from dpone_provider.wire import DirectWire
from tests.loads import Bench
from tests.replicas.bench import PairBench
from tests.sandbox_fixture import FIRST, SECOND


def test_a_load_publishes_one_generation_on_every_replica(bench: PairBench) -> None:
    for first, publication in ((100, "publish_first"), (200, "exchange")):
        bench.write(first)
        wire = DirectWire()
        outcome = bench.run(f"run {first}", spec=bench.spec(target=True), wire=wire)
        assert bench.lives() == (outcome.generation, outcome.generation)
        assert bench.each() == [list(range(first, first + 5))] * 2
        assert bench.leftovers() == []
        assert (wire.counts[publication], wire.counts["insert"], wire.counts["create_table"]) == (2, 1, 2)
        record = bench.record()
        assert (record.phase, record.owner, record.replicas) == ("COMPLETE", "", (FIRST, SECOND))


@pytest.mark.contract("D3")
def test_the_document_of_a_load_of_a_cluster_says_that_data_replication_is_unverified(bench: PairBench) -> None:
    """A success, its replay, what Airflow keeps of it, and a failure; never the document of one server."""
    bench.write(100)
    for _ in range(2):
        outcome = bench.run("r1")
        assert outcome.document()["data_replication"] == "UNVERIFIED"
        assert outcome.summary()["data_replication"] == "UNVERIFIED"
    assert outcome.replayed
    shown = {fact.label: fact.value for fact in outcome_screen(outcome.document()).facts}
    assert shown["Data replication"].startswith("UNVERIFIED: ")
    error = DponeError("DPONE_SERVER_UNREACHABLE")
    assert failure_document(error, bench.spec(), bench.identity())["data_replication"] == "UNVERIFIED"
    alone = Bench.spec(bench)
    assert "data_replication" not in failure_document(error, alone, bench.identity())
