"""``dpone plan`` of a load by partitions: what it says offline is what such loads do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_provider.cli.plan_steps import Places, steps
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from tests.cli.conftest import Desk
from tests.cli.test_plan import LATER, Recorder, planned
from tests.partitions.bench import Parts

MODES = pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
FUNCTION = "its key is a function of the column"
ASKED = {"enabled": True, "mode": "required", "capture": {"staged": False}, "checks": {"null_counts": ["name"]}}


def expected(spec: LoadSpec, key: str, *more: str) -> list[str]:
    """The effects that the plan has for a load of one partition into a live table with this partition key."""
    places = Places(target="d.t", staging="d.p", authority="")
    holds = LATER | ({FUNCTION} if key != "id" else set()) | set(more)
    return [kind for step in steps(spec, places) if step.when in holds for kind in step.effects]


@pytest.mark.contract("O5", "D1")
@MODES
@pytest.mark.parametrize(
    ("parts", "key", "acceptance"),
    [
        ({"range": {"column": "id", "size": 100}}, "intDiv(id, 100)", None),
        ({"range": {"column": "id", "size": 100}}, "id", ASKED),
        ({"list": {"column": "id", "values": [1]}}, "id", None),
        ({"file": True}, "intDiv(id, 100)", ASKED),
    ],
    ids=["range", "range-observed", "list", "file"],
)
def test_loads_by_partitions_have_exactly_the_planned_effects(
    sandbox: RunningSandbox, database: str, tmp_path: Path, mode: str, parts: dict[str, Any], key: str, acceptance: Any
) -> None:
    bench = Parts(sandbox=sandbox, database=database, folder=tmp_path)
    bench.create(key)
    bench.fill(1, 2)
    (tmp_path / "one.csv").write_text("id,name\n1,n\n")
    source = {"type": "file", "format": "csv", "path": "*.csv"} if "file" in parts else None
    spec = bench.spec(
        mode, partitions=parts, acceptance=acceptance, source=source, pre_sql=["SELECT 1"], post_sql=["SELECT 2"]
    )
    wire = Recorder()
    bench.run(spec=spec, wire=wire)
    assert wire.kinds == expected(spec, key)


@pytest.mark.contract("O5", "D1")
def test_a_column_that_may_hold_null_is_asked_for_it_as_planned(
    sandbox: RunningSandbox, database: str, tmp_path: Path
) -> None:
    bench = Parts(sandbox=sandbox, database=database, folder=tmp_path)
    bench.create("id")
    bench.fill(1, 2)
    query = f"SELECT toNullable(id) AS id, name FROM {database}.s"
    source = {"type": "clickhouse", "connection_ref": "source", "query": query}
    spec = bench.spec("partition_replace", partitions={"list": {"column": "id", "values": [1]}}, source=source)
    wire = Recorder()
    bench.run(spec=spec, wire=wire)
    assert wire.kinds == expected(spec, "id", "the column may hold NULL")


MANIFEST = """\
kind: dpone.batch.v1
defaults:
  source:
    type: sql
    connection_ref: erp
    table: {{schema: sales, name: t}}
    partitions: {parts}
  sink: {{type: clickhouse, connection_ref: w, table: {{schema: demo}}, strategy: {{mode: {mode}}}}}
schemas: {{main: {{tables: [t]}}}}
"""


def document(paper: Desk, parts: str, mode: str = "full_refresh") -> dict[str, Any]:
    Path(paper.manifest).write_text(MANIFEST.format(parts=parts, mode=mode), encoding="utf-8")
    return planned(paper, "--run-id", "r")


@pytest.mark.contract("O5")
def test_it_says_what_a_partition_is_and_where_everything_is_kept(paper: Desk) -> None:
    plan = document(paper, "{range: {column: id, size: 5}, workers: 3, folder: kept, artifacts: 's3://lake/x'}")
    own = plan["identity"]["operation_id"]
    assert plan["partitions"] == {
        "by": "range",
        "column": "id",
        "size": 5,
        "count": None,
        "workers": 3,
        "folder": f"{Path(paper.manifest).parent}/kept/{own}",
        "artifacts": f"s3://lake/x/{own}",
    }
    text = " ".join(paper.dpone("plan", paper.manifest).out.split())
    assert "as many as the source has, by range of id, 5 wide; 3 at a time" in text
    assert "<operation id>" in text


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("parts", "count"),
    [("{range: {column: id, bounds: [1, 5]}}", 3), ("{list: {column: id, values: [7, 8]}}", 2)],
)
def test_it_counts_the_partitions_that_the_manifest_names(paper: Desk, parts: str, count: int) -> None:
    found = document(paper, parts)
    assert found["partitions"]["count"] == count
    assert found["partitions"]["artifacts"] == f"{found['partitions']['folder']}/artifacts"


@pytest.mark.contract("O5", "N4")
@MODES
def test_it_says_what_a_retry_does_and_that_nothing_staged_is_observed(paper: Desk, mode: str) -> None:
    plan = document(paper, "{list: {column: id, values: [7]}}", mode)
    assert (plan["route"]["name"], plan["route"]["mode"]) == ("partitioned", mode)
    assert "only checks" in plan["route"]["retry"]
    assert any("the partitions" in item["what"] for item in plan["unknown"])
    replaced = [step for step in plan["steps"] if "ALTER TABLE … REPLACE PARTITION" in step["statements"]]
    assert bool(replaced) is (mode == "partition_replace")
    assert ("Old table" in paper.dpone("plan", paper.manifest).out) is not bool(replaced)


def test_it_warns_that_open_partitions_take_away_what_the_source_does_not_hold(paper: Desk) -> None:
    replaced = {
        parts: document(paper, f"{{range: {{column: id, {parts}}}}}", "partition_replace")["steps"]
        for parts in ("bounds: [1, 5]", "size: 5")
    }
    warned = {parts: any("outer ones are open" in step["what"] for step in steps) for parts, steps in replaced.items()}
    assert warned == {"bounds: [1, 5]": True, "size: 5": False}


def test_a_load_that_is_not_split_has_no_partitions(paper: Desk) -> None:
    assert planned(paper)["partitions"] is None


@pytest.mark.contract("O5")
def test_check_names_what_a_partition_is_and_where_its_checkpoints_are(paper: Desk) -> None:
    document(paper, "{range: {column: id, size: 5}, workers: 3, folder: kept}")
    text = paper.dpone("check", paper.manifest).out
    assert f"main.t (by range of id, 3 at a time, kept in {Path(paper.manifest).parent}/kept)" in text
