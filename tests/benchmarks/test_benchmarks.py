"""The benchmarks run, check their contenders and end with one line of JSON; their cost promises are theirs to show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_fixture import Postgres

ROOT = Path(__file__).parents[2]


def last_line(*command: str) -> dict[str, Any]:
    """The last line of a command's stdout as JSON."""
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout.splitlines()[-1])
    assert isinstance(document, dict)
    return document


@pytest.mark.slow
def test_the_load_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.load", "--quick")
    contenders = {"bare", "governed", "governed_distinct", "plain", "insert_arrow", "driver_rows", "governed_twice"}
    assert contenders <= document["figures"].keys()
    assert len(document["targets"]) == 4


@pytest.mark.slow
def test_the_startup_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.startup", "--runs", "5")
    assert document["figures"].keys() == {"interpreter", "retry", "check", "import"}
    assert len(document["targets"]) == 3


@pytest.mark.slow
@pytest.mark.contract("R3")
def test_the_reader_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.reader", "--quick")
    assert {"observe_seconds", "probe_seconds", "share_cpu"} <= document["figures"].keys()
    assert len(document["targets"]) == 2


@pytest.mark.slow
def test_the_postgres_benchmark_ends_with_all_its_figures(postgres: Postgres) -> None:
    document = last_line("-m", "benchmarks.postgres", "--rows", "20000", "--rounds", "1")
    assert document["figures"].keys() == {"adbc", "psycopg", "bare_adbc", "bare_psycopg"}
    assert len(document["targets"]) == 1


@pytest.mark.slow
@pytest.mark.contract("F8")
def test_the_parse_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.parse", "--runs", "1")
    assert document["figures"].keys() == {"parse_200", "parse_1000", "check_one", "check_200"}
    assert next(one for one in document["targets"] if "among" in one["target"])["value"] < 1.5, "it is linear"


@pytest.mark.slow
def test_the_quality_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.quality", "--quick")
    assert {"none", "gates", "nulls", "distinct", "sample", "hash", "sql", "all"} == document["figures"].keys()
    assert document["figures"]["none"]["ratio"] == 1


@pytest.mark.slow
def test_the_partitions_benchmark_ends_with_all_its_figures() -> None:
    document = last_line("-m", "benchmarks.partitions", "--quick")
    assert len(document["figures"]) == 6
    assert len(document["targets"]) == 3


def test_an_exact_distinct_count_of_numbers_imports_no_pandas() -> None:
    """Arrow's ``to_numpy`` would: 0.15 CPU-seconds and 40 MiB where it is installed."""
    code = """if True:
        import json, sys
        import numpy, pyarrow as pa
        from dpone_provider.sources.observe import SourceObserver
        numbers = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(numpy.array([7, 7, 8]).tobytes())])
        batch = pa.RecordBatch.from_arrays([numbers], schema=pa.schema([pa.field("id", pa.int64())]))
        observer = SourceObserver(batch.schema, distinct_columns=["id"])
        observer.observe(batch)
        print(json.dumps({"distinct": dict(observer.distinct_counts), "pandas": "pandas" in sys.modules}))
    """
    assert last_line("-c", code) == {"distinct": {"id": 2}, "pandas": False}


def test_a_typed_hash_imports_no_pandas() -> None:
    code = """if True:
        import json, sys
        import numpy, pyarrow as pa
        from dpone_provider.sources.typed_hash import MultisetHasher
        ends, text = numpy.array([0, 1, 2, 3], numpy.int32), pa.py_buffer(b"aab")
        names = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\\3"), pa.py_buffer(ends.tobytes()), text])
        batch = pa.RecordBatch.from_arrays([names], schema=pa.schema([pa.field("name", pa.string())]))
        columns = (("name", "Nullable(String)"),)
        ways = ({}, {"mode": "sample", "key": ["name"]})
        hashers = [MultisetHasher(batch.schema, columns, **way) for way in ways]
        for hasher in hashers:
            hasher.add(batch)
        print(json.dumps({"hashes": len({hasher.digest() for hasher in hashers}), "pandas": "pandas" in sys.modules}))
    """
    assert last_line("-c", code) == {"hashes": 2, "pandas": False}
