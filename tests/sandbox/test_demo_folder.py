"""The demo empties the folder of an earlier demo, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.demo import story
from dpone_provider.sandbox.demo.stack import AirflowStack
from dpone_provider.sandbox.process import SandboxServer


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DponeError, match="is no demo's") as refused:
        story.prepare(tmp_path)
    assert refused.value.code == "DPONE_DEMO_FAILED"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_place_of_a_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine", encoding="utf-8")
    with pytest.raises(DponeError, match="cannot be used"):
        story.prepare(place)
    assert place.read_text(encoding="utf-8") == "mine"


def test_what_an_earlier_demo_left_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "demo", tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").touch()
    story.prepare(home)
    (home / "logs").mkdir()
    (home / "link").symlink_to(outside)
    story.prepare(home)
    assert sorted(path.name for path in home.iterdir()) == [".dpone-demo", "dags"]
    assert (outside / "mine.txt").exists()


def test_the_folder_of_a_demo_whose_server_still_runs_is_refused(tmp_path: Path) -> None:
    story.prepare(tmp_path)
    server = SandboxServer()
    running = server.start(SandboxConfig(folder=tmp_path / "clickhouse", bound_to_starter=True))
    try:
        with pytest.raises(DponeError) as refused:
            story.prepare(tmp_path)
        assert refused.value.code == "DPONE_SANDBOX_FOLDER_HELD"
        assert server.status(running.folder).state == "running"
    finally:
        server.stop(running.folder)


def test_the_demos_airflow_takes_no_setting_and_no_proxy_of_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "somebody.elses.Backend")
    monkeypatch.setenv("no_proxy", "example.com")
    environ = AirflowStack(tmp_path, {"AIRFLOW_CONN_DPONE_DEMO": "given"})._environ
    assert "AIRFLOW__SECRETS__BACKEND" not in environ
    assert environ["AIRFLOW_CONN_DPONE_DEMO"] == "given"
    assert environ["no_proxy"] == environ["NO_PROXY"] == "127.0.0.1"
