"""Loads among gusty's task files: a manifest by the parse hook, and a task file with plain values (F7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.airflow.examples import Examples
from tests.airflow.manifests import BROKEN, manifest

pytest.importorskip("gusty")


@pytest.mark.contract("F7")
def test_a_manifest_and_a_task_file_of_one_folder_load_in_order(examples: Examples) -> None:
    found = examples.run(("gusty/loads.py", "gusty_airlines"))
    assert found["gusty_airlines"] == {"demo_airlines": "success", "airline_letters": "success"}
    assert (examples.count("airlines"), examples.count("airline_letters")) == (8, 7)


@pytest.mark.contract("F7")
def test_every_process_of_a_manifest_is_a_task_with_its_dependencies(tmp_path: Path) -> None:
    from gusty import create_dag

    from dpone_provider.dags.gusty import parse_manifest

    manifest(tmp_path / "nightly" / "orders.dpone.yaml")
    hooks: dict[str, Any] = {".yaml": parse_manifest}
    dag = create_dag(str(tmp_path / "nightly"), schedule=None, parse_hooks=hooks, latest_only=False)
    assert {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} == {
        "erp_orders": [],
        "totals": ["erp_orders"],
    }
    orders = dag.get_task("erp_orders")
    assert (orders.retries, orders.pool) == (5, "slow")
    assert orders._spec().process == "erp_orders"
    assert [asset.uri for asset in orders.outlets] == ["clickhouse://warehouse/shop/orders"]


def test_a_bad_manifest_says_its_line_through_gusty_too(tmp_path: Path) -> None:
    from dpone_provider.dags.gusty import parse_manifest

    file = tmp_path / "bad.dpone.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    with pytest.raises(Exception, match=r"bad\.dpone\.yaml:5:9"):
        parse_manifest(str(file))
