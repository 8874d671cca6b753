"""A load of one shard with two replicas, without trouble."""

from __future__ import annotations

from dpone_provider.wire import DirectWire
from tests.replicas.bench import PairBench


def test_a_load_publishes_one_generation_on_every_replica(bench: PairBench) -> None:
    for first, publication in ((100, "publish_first"), (200, "exchange")):
        bench.write(first)
        wire = DirectWire()
        outcome = bench.run(f"run {first}", spec=bench.spec(target=True), wire=wire)
        assert bench.lives() == (outcome.generation, outcome.generation)
        assert bench.both() == [list(range(first, first + 5))] * 2
        assert bench.leftovers() == []
        assert (wire.counts[publication], wire.counts["insert"], wire.counts["create_table"]) == (2, 1, 2)
        record = bench.record()
        assert (record.phase, record.owner, record.replicas) == ("COMPLETE", "", ("ch-1", "ch-2"))
