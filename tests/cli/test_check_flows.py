"""``dpone check`` of flows, fragments and configs, in folders and one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.cli.check import manifests
from tests.cli.conftest import Desk

FLOW = """\
kind: dpone.flow.v1
authoring: {source: nightly.flow.dpone.yaml}
defaults:
  sink: {type: clickhouse, connection_ref: wh, table: {schema: demo}}
fragments: [steps/orders.yaml]
"""
FRAGMENT = """\
kind: dpone.flow-fragment.v1
processes:
  - name: orders
    source: {type: file, format: csv, path: orders.csv}
    sink: {table: {name: orders}}
"""


@pytest.fixture(name="folder")
def _folder(paper: Desk) -> Path:
    folder = paper.folder / "flows"
    (folder / "steps").mkdir(parents=True)
    (folder / "nightly.flow.dpone.yaml").write_text(FLOW, encoding="utf-8")
    (folder / "steps" / "orders.yaml").write_text(FRAGMENT, encoding="utf-8")
    return folder


@pytest.mark.contract("O5", "M13")
def test_a_fragment_in_the_folder_is_checked_once_through_its_flow(paper: Desk, folder: Path) -> None:
    passed = paper.dpone("check", str(folder))
    assert passed.code == 0
    assert "1 manifest, 0 problems" in passed.out
    assert "well-formed: orders" in passed.out
    broken = FRAGMENT.replace("format: csv", "format: csv, extra: 1")
    (folder / "steps" / "orders.yaml").write_text(broken, encoding="utf-8")
    for paths in ([str(folder)], [str(folder / "steps" / "orders.yaml"), str(folder / "nightly.flow.dpone.yaml")]):
        problems = paper.dpone("check", *paths, "--format", "json").document["problems"]
        assert [(Path(p["file"]).name, p["line"], p["code"]) for p in problems] == [
            ("orders.yaml", 4, "DPONE_MANIFEST_UNKNOWN_KEY")
        ]


@pytest.mark.contract("O5", "M13")
def test_a_fragment_alone_passes_as_a_part_and_says_so(paper: Desk, folder: Path) -> None:
    path = str(folder / "steps" / "orders.yaml")
    for form in ("text", "json"):
        ran = paper.dpone("check", path, "--format", form)
        assert ran.code == 0
        assert "only its form was checked" in ran.out
    assert paper.dpone("check", path, "--format", "json").document["processes"] == []
    assert paper.dpone("run", path, "--format", "json").code == 2


@pytest.mark.contract("O5")
def test_a_fragment_that_no_flow_lists_is_still_told(paper: Desk, folder: Path) -> None:
    (folder / "steps" / "lost.yaml").write_text(FRAGMENT, encoding="utf-8")
    ran = paper.dpone("check", str(folder))
    assert ran.code == 0
    assert "lost.yaml: a well-formed part of a flow" in ran.out
    assert "only its form was checked" in ran.out
    assert "no certificate" in ran.out


@pytest.mark.contract("O5")
def test_a_config_is_found_in_a_folder(tmp_path: Path) -> None:
    for name, text in {"a.yaml": "kind: etl-config\n", "b.yaml": "kind: etl-configs\n", "c.yaml": "kind: x\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert manifests([str(tmp_path)]) == [str(tmp_path / "a.yaml")]
