"""Mapped tasks: each index is an operation of its own, and an item that moved is never "already complete" (I6, F7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.warm import WarmAirflow
from tests.loads import Bench

# Two runs of one DAG run: the second one clears its tasks, with the items as they are by then.
TWICE = """
load = json.loads(os.environ["LOAD"])
def run_with(names):
    items = [{**load["source"], "path": name + ".csv"} for name in names]
    with DAG(os.environ["DAG_ID"], start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
        fixed = {"task_id": "refresh", "sink": load["sink"], "quality": load["quality"], "retries": 0}
        Dying.partial(**fixed).expand(source=items)
    return run_dag(dag)

class Dying(DponeLoadOperator):
    def notify(self, step, facts):
        with open(os.environ["STEPS"], "a") as steps:
            steps.write(step + "\\n")
        if step == os.environ.get("DIE_AT"):
            raise RuntimeError("the worker is lost")

first, states = run_with(json.loads(os.environ["FIRST"]))
os.environ.pop("DIE_AT", None)
open(os.environ["STEPS"], "w").close()
second, again = run_with(json.loads(os.environ["SECOND"]))
out({"same": first.run_id == second.run_id,
     "first": [states["refresh", index][0] for index in sorted(index for _, index in states)],
     "second": [again["refresh", index][0] for index in sorted(index for _, index in again)]})
"""


@attrs.frozen(kw_only=True)
class Mapped:
    """A DAG with one mapped load whose items are files; item ``a`` has the ids 1 to 5, ``b`` the ids 11 to 15."""

    airflow: WarmAirflow
    bench: Bench

    def twice(self, first: list[str], second: list[str], **environ: str) -> tuple[Any, str]:
        folder = self.bench.folder
        started = self.airflow.start(
            TWICE,
            folder,
            AIRFLOW_CONN_CH=connection_json(self.bench.sandbox),
            LOAD=json.dumps(self._load()),
            DAG_ID=self.bench.database,
            STEPS=str(folder / "steps"),
            FIRST=json.dumps(first),
            SECOND=json.dumps(second),
            **environ,
        )
        return started.answer(), started.said

    @property
    def steps(self) -> set[str]:
        """The steps of the second run."""
        return set((self.bench.folder / "steps").read_text(encoding="utf-8").split())

    def _load(self) -> dict[str, Any]:
        storage = {"clickhouse": {"engine": "MergeTree", "order_by": ["id"]}}
        return {
            "source": {"type": "file", "format": "csv"},
            "sink": {
                "type": "clickhouse",
                "connection_ref": "ch",
                "table": {"schema": self.bench.database, "name": self.bench.table},
                "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
                "columns": {"id": "UInt64", "name": "String"},
                "options": {"durable_quality_replay": True, "physical_design": {"storage": storage}},
            },
            "quality": {"gates": [{"id": "some", "type": "min_rows", "threshold": 1}]},
        }


@pytest.fixture
def mapped(sandbox: RunningSandbox, database: str, tmp_path: Path, warm: WarmAirflow) -> Mapped:
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    for name, start in (("a", 1), ("b", 11)):
        bench.write(start)
        (tmp_path / "source.csv").rename(tmp_path / f"{name}.csv")
    return Mapped(airflow=warm, bench=bench)


@pytest.mark.contract("I6", "I4")
def test_another_item_at_the_index_of_a_proven_commit_is_stopped_by_the_digest(mapped: Mapped) -> None:
    """Try 1 of item a died after its commit; by the retry, item b stands at its index."""
    found, said = mapped.twice(["a"], ["b"], DIE_AT="complete")
    assert (found["same"], found["first"], found["second"]) == (True, ["failed"], ["failed"])
    assert "MISMATCH" in said
    assert not mapped.steps & {"stage", "seal", "permit", "publish"}, "nothing was read and nothing published"
    assert mapped.bench.ids() == [1, 2, 3, 4, 5]


@pytest.mark.contract("I6", "F7")
def test_items_that_moved_after_a_complete_load_are_never_already_complete(mapped: Mapped) -> None:
    """A list that grew in front: index 0 has another item now, and its item of before is found by no other name."""
    found, said = mapped.twice(["a"], ["b", "a"])
    assert (found["same"], found["first"], found["second"]) == (True, ["success"], ["failed", "success"])
    # either item may come first: the digest stops index 0, or index 1 has ended its window by then
    assert "MISMATCH" in said or "WINDOW_ENDED" in said
    assert "stage" in mapped.steps, "the moved item was loaded, not taken for complete"
    assert mapped.bench.ids() == [1, 2, 3, 4, 5]
