"""What reading PostgreSQL into Arrow costs: ``python -m benchmarks.postgres [--rows 1000000] [--rounds 3]``.

A private server with one table; every contender reads all of it in a process of its own, one after another in every
round. Medians of CPU seconds of the client, imports apart, and of the server. The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any, Final

import psutil

from tests.postgres_fixture import Postgres, postgres_server

TABLE: Final = """CREATE TABLE public.orders AS SELECT g::int8 AS id, g % 1000 AS customer, 'order ' || g AS title,
 (g % 100000 / 100.0)::numeric(12, 2) AS price, g / 7.0::float8 AS weight, g % 3 = 0 AS paid,
 timestamptz '2024-01-01 00:00Z' + g * interval '1 second' AS placed, date '2024-01-01' + g % 365 AS due,
 CASE WHEN g % 10 > 0 THEN 'note ' || g % 50 END AS note FROM generate_series(1, {rows}) AS g"""
WORDS: Final = {
    "adbc": "dpone through ADBC",
    "psycopg": "dpone through psycopg, a server-side cursor",
    "bare_adbc": "ADBC alone: numeric stays text, nothing is checked",
    "bare_psycopg": "psycopg alone: rows of Python values, no Arrow",
}
FASTER: Final = 2.0
CHILD: Final = """
import json, sys, time
name, parameters = json.loads(sys.argv[1])
import pyarrow as pa
from adbc_driver_postgresql import dbapi
import psycopg
from psycopg.conninfo import make_conninfo
from dpone_provider.manifest.spec import SqlSource
from dpone_provider.sources.open import open_source
from dpone_provider.sources.sql import postgres
from dpone_provider.sources.sql.endpoint import PostgresEndpoint
from dpone_provider.wire import DirectWire

def dpone():
    endpoint = PostgresEndpoint(ref="pg", parameters=parameters, adbc=name == "adbc")
    with open_source(SqlSource(connection_ref="pg", table="orders"), endpoint, wire=DirectWire()) as source:
        return sum(batch.num_rows for batch in source.batches())

def bare_adbc():
    with dbapi.connect(make_conninfo(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM orders")
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())

def bare_psycopg():
    with psycopg.connect(**parameters) as connection, connection.cursor("rows", binary=True) as cursor:
        cursor.execute("SELECT * FROM orders")
        rows = 0
        while part := cursor.fetchmany(65536):
            rows += len(part)
        return rows

run = {"bare_adbc": bare_adbc, "bare_psycopg": bare_psycopg}.get(name, dpone)
wall, cpu = time.perf_counter(), time.process_time()
rows = run()
print(json.dumps({"rows": rows, "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))
"""


def one_run(server: Postgres, name: str, rows: int) -> dict[str, float]:
    """One contender, once. ``server``: CPU seconds of its session."""
    postmaster = psutil.Process(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))
    before = _children(postmaster)
    given = json.dumps([name, dict(server.endpoint().parameters)])
    done = subprocess.run([sys.executable, "-c", CHILD, given], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    if found["rows"] != rows:
        raise AssertionError(f"{name} read {found['rows']} of {rows} rows")
    server.quiet()
    time.sleep(0.1)  # until the postmaster has reaped the session
    return {**found, "server": _children(postmaster) - before}


def _children(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def measure(rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Medians by contender."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in WORDS}
    with postgres_server() as server:
        server.sql(TABLE.format(rows=rows))
        server.sql("GRANT SELECT ON orders TO reader")
        server.sql("VACUUM ANALYZE orders")
        for _ in range(rounds):
            for name, kept in runs.items():
                kept.append(one_run(server, name, rows))
    return {name: {key: median(run[key] for run in kept) for key in kept[0]} for name, kept in runs.items()}


def main() -> None:
    """Run, and show a table, the target and the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    figures: dict[str, dict[str, Any]] = measure(chosen.rows, chosen.rounds)
    print(f"{'':54}{'client CPU s':>14}{'rows/CPU s':>14}{'server CPU s':>14}{'wall s':>9}")
    for name, found in figures.items():
        found["rows_per_cpu_second"] = round(chosen.rows / found["cpu"])
        print(
            f"{WORDS[name]:54}{found['cpu']:14.2f}{found['rows_per_cpu_second']:14,}"
            f"{found['server']:14.2f}{found['wall']:9.2f}"
        )
    ratio = figures["psycopg"]["cpu"] / figures["adbc"]["cpu"]
    met = "met" if ratio >= FASTER else "NOT MET"
    print(f"ADBC reads at least {FASTER:g} times the rows of psycopg a CPU second: {ratio:.1f} ({met})")
    target = {"target": "adbc over psycopg", "value": ratio, "met": ratio >= FASTER}
    print(json.dumps({"rows": chosen.rows, "figures": figures, "targets": [target]}))


if __name__ == "__main__":
    main()
