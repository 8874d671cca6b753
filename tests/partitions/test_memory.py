"""What a worker holds at a time is a batch or a row group, however large its partition is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpone_provider.manifest.spec import LoadSpec
from tests.partitions.bench import Parts


@pytest.mark.slow
def test_memory_does_not_grow_with_the_size_of_a_partition(bench: Parts) -> None:
    def peak(rows: int, run_id: str) -> int:
        bench.ask(f"TRUNCATE TABLE {bench.database}.s")
        bench.ask(f"INSERT INTO {bench.database}.s SELECT number, repeat('x', 100) FROM numbers({rows})")
        most = 0

        def look() -> None:
            nonlocal most
            most = max(most, pa.total_allocated_bytes())

        bench.run(run_id, spec=spec(bench), check_cancelled=look)
        return most

    small, large = peak(400_000, "r1"), peak(2_000_000, "r2")
    assert large < max(2 * small, 64 << 20)


def spec(bench: Parts) -> LoadSpec:
    return bench.spec(partitions={"range": {"column": "id", "size": 1_000_000}, "workers": 2}, gates=())
