"""The memory of a client that streams a source does not grow with the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

READ = """
import json, re, sys
from pathlib import Path
from dpone_provider.manifest.spec import FileSource
from dpone_provider.sources.fit import derive_columns, plan_fit
from dpone_provider.sources.open import open_source
from dpone_provider.wire import DirectWire
form, path = sys.argv[1:]
with open_source(FileSource(format=form, path=path), None, wire=DirectWire()) as source:
    fit = plan_fit(source.schema, derive_columns(source.schema, required=frozenset()))
    for batch in source.batches():
        fit.convert(batch)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(json.dumps([source.rows, int(peak[1]) // 1024]))
"""


def peak(form: str, path: Path) -> tuple[int, int]:
    """Rows read and the reader's peak RSS in MiB (``ru_maxrss`` would be the parent's at the fork)."""
    done = subprocess.run([sys.executable, "-c", READ, form, str(path)], capture_output=True, text=True, check=True)
    rows, mebibytes = json.loads(done.stdout)
    return rows, mebibytes


def write(form: str, path: Path, million: float) -> None:
    rows, rng = int(million * 1_000_000), np.random.default_rng(1)
    columns = {f"n{place}": rng.integers(0, 1_000_000, rows) for place in range(8)}
    table = pa.table({**columns, "s": pa.array(rng.integers(0, 4_000, rows)).cast(pa.string())})
    if form == "parquet":
        pq.write_table(table, path, row_group_size=300_000)
    else:
        arrow_csv.write_csv(table, path)


@pytest.mark.parametrize(("form", "million"), [("parquet", 1.0), ("csv", 1.0)])
def test_peak_memory_is_flat_when_rows_double(tmp_path: Path, form: str, million: float) -> None:
    found = {}
    for factor in (1, 2):
        path = tmp_path / f"{factor}.{form}"
        write(form, path, million * factor)
        found[factor] = peak(form, path)
        assert found[factor][0] == int(million * factor * 1_000_000)
        path.unlink()
    assert found[1][1] < 300
    assert found[2][1] - found[1][1] < 40
