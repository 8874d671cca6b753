"""Every DAG file and every YAML on the page about DAGs is parsed as Airflow would (D1, F7)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.manifest.airflow_advice import DAG_KEYS, TASK_KEYS
from dpone_provider.manifest.read import check_file
from tests.docs.markdown import DOCS, blocks

PAGE = DOCS / "airflow.md"
LOADS = ["erp_orders", "erp_totals"]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every block of the page under the name that the page gives it."""
    monkeypatch.setenv("AIRFLOW__DAG_FACTORY__ENABLE_TELEMETRY", "False")
    for block in blocks(PAGE):
        assert block.file, f"{PAGE.name}:{block.line}: the block has no name to save it under"
        file = tmp_path / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
    shutil.copy(tmp_path / "manifests" / "orders.dpone.yaml", tmp_path / "gusty_orders")
    return tmp_path


@pytest.mark.contract("D1", "F7")
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("folder.py", {"orders": LOADS}),
        ("by_hand.py", {"orders_by_hand": LOADS}),
        ("group.py", {"orders_and_report": [*LOADS, "report"]}),
        ("tasks.py", {"single_loads": ["erp_orders", "orders_copy"]}),
        ("mapped.py", {"mapped_loads": ["load"]}),
        ("dag_factory.py", {"orders_of_dag_factory": LOADS}),
        ("gusty_dag.py", {"gusty_orders": [*LOADS, "orders_copy"]}),
    ],
)
def test_a_dag_file_of_the_page_makes_what_the_page_says(saved: Path, file: str, expected: dict[str, Any]) -> None:
    from tests.airflow.release import bag

    found = bag(saved / file)
    assert found.import_errors == {}
    assert {name: sorted(dag.task_dict) for name, dag in found.dags.items()} == expected


def test_every_dag_file_of_the_page_is_among_them(saved: Path) -> None:
    files = {block.file for block in blocks(PAGE) if block.language == "python"}
    tested = {"folder.py", "by_hand.py", "group.py", "tasks.py", "mapped.py", "dag_factory.py", "gusty_dag.py"}
    assert files == tested


@pytest.mark.contract("D1")
def test_a_task_of_the_page_finds_its_process(saved: Path) -> None:
    from tests.airflow.release import bag

    for file in ("folder.py", "by_hand.py", "group.py", "tasks.py", "dag_factory.py", "gusty_dag.py"):
        for dag in bag(saved / file).dags.values():
            for task in dag.tasks:
                if task.task_type == "DponeLoadOperator":
                    assert task._spec().process == task.process, f"{file}: {task.task_id}"


@pytest.mark.contract("D1")
def test_the_page_names_every_key_of_the_advice(saved: Path) -> None:
    assert check_file(saved / "manifests" / "orders.dpone.yaml").passed
    text = PAGE.read_text(encoding="utf-8")
    for name in (*DAG_KEYS, *TASK_KEYS):
        assert f"`{name}`" in text, name
