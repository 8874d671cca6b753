"""Partitions as an Airflow task: a retry goes on, a cleared task only checks, folders start at the DAG file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.test_in_process import ONCE, Desk
from tests.airflow.warm import WarmAirflow
from tests.loads import Bench
from tests.sandbox_fixture import ask

LOAD = {
    "source": {"type": "file", "format": "csv", "path": "part*.csv", "partitions": {"file": True, "workers": 1}},
    "sink": {"type": "clickhouse", "connection_ref": "ch", "strategy": {"mode": "partition_replace"}},
    "quality": {"gates": [{"id": "rows", "type": "row_count_reconciliation"}]},
}


@pytest.fixture
def split(sandbox: RunningSandbox, database: str, tmp_path: Path, warm: WarmAirflow) -> Desk:
    """Three files, and a table that is partitioned as they are."""
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_text(f"id,name\n{number},n\n", encoding="utf-8")
    columns = "(id UInt64, name String) ENGINE = MergeTree PARTITION BY id ORDER BY id"
    ask(sandbox, f"CREATE TABLE {database}.{bench.table} {columns}")
    return Desk(airflow=warm, bench=bench)


def load_of(desk: Desk) -> dict[str, Any]:
    table = {"schema": desk.bench.database, "name": desk.bench.table}
    return {**LOAD, "sink": {**LOAD["sink"], "table": table}}


@pytest.mark.contract("F3", "N2", "I3")
def test_a_retry_reads_nothing_again_that_a_lost_try_has_read(split: Desk, sandbox: RunningSandbox) -> None:
    found, said = split.run(ONCE, load=load_of(split), DIE_AT="verify")
    assert found["states"] == [["success", 2]], said
    assert split.bench.ids() == [0, 1, 2]
    assert (found["xcom"]["extracted_rows"], found["xcom"]["inserted_rows"]) == (0, 3)
    (folder,) = (split.bench.folder / ".dpone" / "transfers").iterdir()  # where the DAG file is
    assert json.loads((folder / "report.json").read_text())["passed"] is True
    assert sandbox.password not in "".join(path.read_text() for path in folder.glob("*.j*"))


@pytest.mark.contract("F3", "N4")
def test_a_cleared_task_checks_what_is_committed_and_replaces_nothing(split: Desk) -> None:
    found, said = split.run(
        """
        dag = make()
        run, _ = run_dag(dag)
        first = xcom(run, "refresh")
        again, states = run_dag(dag)  # clears the task of the same run, and runs it again
        out({"states": list(states.values()), "first": first, "second": xcom(again, "refresh")})
        """,
        load=load_of(split),
    )
    assert found["states"][0][0] == "success", said
    assert (found["first"]["inserted_rows"], found["second"]["inserted_rows"]) == (3, 0)
    assert found["second"]["replayed"] is True
    assert split.bench.ids() == [0, 1, 2]


@pytest.mark.contract("F1")
def test_inline_values_are_rendered_so_that_a_run_replaces_its_own_day(split: Desk, sandbox: RunningSandbox) -> None:
    table = f"{split.bench.database}.days"
    ask(sandbox, f"CREATE TABLE {table} (day Date, name String) ENGINE = MergeTree PARTITION BY day ORDER BY day")
    ask(sandbox, f"INSERT INTO {table} VALUES ('2026-01-01', 'old'), ('2026-01-02', 'old')")
    load = load_of(split)
    load["sink"]["table"] = {"schema": split.bench.database, "name": "days"}
    load["source"] = {
        "type": "clickhouse",
        "connection_ref": "ch",
        "query": "SELECT toDate('2026-01-01') + number AS day, 'new' AS name FROM numbers(5)",
        "partitions": {"list": {"column": "day", "values": ["{{ dag.start_date | ds }}"]}},
    }
    found, said = split.run(ONCE, load=load)
    assert found["states"] == [["success", 1]], said
    days = ask(sandbox, f"SELECT toString(day), name FROM {table} ORDER BY day")
    assert days == [("2026-01-01", "new"), ("2026-01-02", "old")]
