"""``dpone check``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dpone_provider.cli.check import manifests
from dpone_provider.errors import DponeError
from tests.cli.conftest import Desk

BAD = """\
kind: dpone.batch.v1
defaults:
  source: {type: file, format: csv, path: x.csv, durable_quality_replay: true}
  sink:
    type: clickhouse
    connection_ref: wh
    table: {schema: demo, name: t}
    options: {durable_quality_replay: "yes"}
schemas:
  main: {tables: [t]}
"""


@pytest.mark.contract("M10", "O5")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_pass_says_that_it_is_no_live_certificate(paper: Desk, form: str) -> None:
    ran = paper.dpone("check", paper.manifest, "--format", form)
    assert ran.code == 0
    assert "offline" in ran.out
    assert "no certificate" in ran.out


@pytest.mark.contract("M11", "O5")
def test_every_problem_is_told_at_once_with_its_place_and_remedy(paper: Desk) -> None:
    bad = paper.folder / "bad.yaml"
    bad.write_text(BAD, encoding="utf-8")
    ran = paper.dpone("check", str(bad))
    assert ran.code == 2
    assert f"{bad}:3:" in ran.out
    assert f"{bad}:8:" in ran.out
    assert "DPONE_REPLAY_SELECTOR_MISPLACED" in ran.out
    assert "DPONE_REPLAY_SELECTOR_TYPE" in ran.out
    assert "sink: {options: {durable_quality_replay: true}}" in ran.out


@pytest.mark.contract("M11")
def test_check_and_run_tell_the_same_problems(paper: Desk) -> None:
    bad = paper.folder / "bad.yaml"
    bad.write_text(BAD, encoding="utf-8")
    checked = paper.dpone("check", str(bad), "--format", "json").document["problems"]
    ran = paper.dpone("run", str(bad), "--format", "json")
    assert ran.code == 2
    told = [
        {key: value for key, value in error.items() if key != "next_step"} for error in ran.document["result"]["errors"]
    ]
    assert told == checked
    assert len(checked) >= 2


@pytest.mark.contract("O5")
def test_one_bad_file_does_not_hide_the_others(paper: Desk) -> None:
    (paper.folder / "bad.yaml").write_text(BAD, encoding="utf-8")
    ran = paper.dpone("check", str(paper.folder), "--format", "json")
    assert ran.code == 2
    assert [process["file"] for process in ran.document["processes"]] == [paper.manifest]
    assert {problem["file"] for problem in ran.document["problems"]} == {str(paper.folder / "bad.yaml")}


@pytest.mark.contract("M11", "O5")
def test_a_problem_has_exactly_its_seven_fields_for_files_and_folders_alike(paper: Desk) -> None:
    bad = paper.folder / "bad.yaml"
    bad.write_text(BAD, encoding="utf-8")
    fields = {"file": str, "line": int, "column": int, "path": str, "code": str, "message": str, "remedy": str}
    told = []
    for path in (str(bad), str(paper.folder)):
        document = paper.dpone("check", path, "--format", "json").document
        assert document["passed"] is False
        told.append(document["problems"])
    assert told[0] == told[1] != []
    for problem in told[0]:
        assert {name: type(value) for name, value in problem.items()} == fields
        assert problem["message"]
        assert problem["remedy"]


@pytest.mark.contract("O5")
def test_a_folder_is_searched_for_our_manifests_only(tmp_path: Path) -> None:
    ours = {"a.yaml": "kind: dpone.batch.v1\n", "deep/b.yml": "# note\n'kind': \"dpone.batch.v1\"\n"}
    others = {
        "c.yaml": "kind: Deployment\n",
        "d.yaml": "spec:\n  kind: dpone.batch.v1\n",
        "e.json": '{"kind": "dpone.batch.v1"}',
        ".git/f.yaml": "kind: dpone.batch.v1\n",
    }
    for name, text in (ours | others).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert manifests([str(tmp_path), str(tmp_path / "a.yaml")]) == [str(tmp_path / name) for name in ours]


@pytest.mark.contract("O5")
def test_a_folder_without_a_manifest_is_no_pass(tmp_path: Path) -> None:
    with pytest.raises(DponeError, match="holds no manifest"):
        manifests([str(tmp_path)])


@pytest.mark.contract("O5")
def test_a_missing_file_is_a_problem(paper: Desk) -> None:
    ran = paper.dpone("check", "nowhere.yaml")
    assert ran.code == 2
    assert "nowhere.yaml:1:1: DPONE_MANIFEST_UNREADABLE" in ran.out


@pytest.mark.contract("O5")
def test_check_opens_no_socket_looks_up_no_connection_and_imports_no_driver(paper: Desk) -> None:
    script = """
import sys
def hook(event, args):
    if event.startswith(("socket.", "subprocess.")):
        raise SystemExit(f"forbidden: {event}")
    if event == "open" and "connections" in str(args[0]):
        raise SystemExit("forbidden: connections")
sys.addaudithook(hook)
import json
from dpone_provider.cli.main import main
code = main(["check", sys.argv[1], "--format", "json"])
heavy = {"pyarrow", "clickhouse_driver", "clickhouse_connect", "rich", "airflow", "socket", "subprocess", "asyncio"}
print(json.dumps(sorted(heavy & set(sys.modules))), file=sys.stderr)
raise SystemExit(code)
"""
    import subprocess

    done = subprocess.run([sys.executable, "-c", script, paper.manifest], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == []
