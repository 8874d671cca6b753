"""A commit that a later attempt repeats with other rows: no resume may take the older count for what is live."""

from __future__ import annotations

import pytest

from tests.partitions.bench import Parts
from tests.partitions.disk import NoReport, committed


@pytest.mark.contract("N2", "N3", "N5")
def test_a_partition_that_is_committed_again_is_counted_by_what_is_live(bench: Parts) -> None:
    bench.ask(f"ALTER TABLE {bench.database}.s DELETE WHERE id < 10 SETTINGS mutations_sync = 2")
    bench.refused("DPONE_TRANSFER_REPORT", files=NoReport())
    bench.ask(f"ALTER TABLE {bench.database}.s DELETE WHERE id IN (11, 12) SETTINGS mutations_sync = 2")
    bench.fill(0, 10)  # a partition before all others
    for artefact in bench.artefacts():
        artefact.unlink()
    bench.refused("DPONE_TRANSFER_CHECKPOINT", files=committed(3))  # the journal is written anew first
    assert len(bench.ids()) == 38
    bench.run()
    report = bench.report()
    assert report is not None
    assert (report["rows"], len(bench.ids())) == (38, 38)
