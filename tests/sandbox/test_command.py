"""The command line, as its users run it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_provider.sandbox.folder import SandboxFolder
from dpone_provider.sandbox.process import SandboxServer

ROOT = Path(__file__).parents[2]


def _run(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DPONE_SANDBOX_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "dpone_provider.sandbox", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
        input=stdin,
    )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    yield folder
    if SandboxFolder(path=folder).holder() is not None:
        SandboxServer().stop(folder)


@pytest.fixture(scope="module")
def running_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("command") / "home"
    assert _run(folder, "start").returncode == 0
    yield folder
    SandboxServer().stop(folder)


def test_start_status_stop(home: Path) -> None:
    start = _run(home, "start", "--format", "json")
    assert start.returncode == 0, start.stderr
    facts = json.loads(start.stdout)
    assert facts["connection"]["extra"] == {"http_port": facts["http_port"]}
    assert facts["connection"]["port"] == facts["tcp_port"]
    status = _run(home, "status", "--format", "json")
    assert status.returncode == 0
    assert json.loads(status.stdout) == facts
    stop = _run(home, "stop")
    assert stop.returncode == 0
    assert str(facts["pid"]) in stop.stdout
    after = _run(home, "status")
    assert (after.returncode, after.stdout.split(":")[0]) == (1, "stopped")
    assert _run(home, "stop").stderr.startswith("DPONE_SANDBOX_NOT_RUNNING")


def test_the_export_line_is_a_whole_connection(running_home: Path) -> None:
    line = _run(running_home, "status").stdout.splitlines()[-1]
    word, assignment = shlex.split(line)
    name, _, value = assignment.partition("=")
    connection = json.loads(value)
    running = SandboxServer().load(running_home)
    assert (word, name) == ("export", "AIRFLOW_CONN_DPONE_SANDBOX")
    assert connection == {
        "conn_type": "dpone_clickhouse",
        "host": "127.0.0.1",
        "port": running.tcp_port,
        "login": "dpone",
        "password": running.password,
        "extra": {"http_port": running.http_port},
    }


def test_sql_prints_a_table(running_home: Path) -> None:
    done = _run(running_home, "sql", "SELECT 'a [b]' AS word, 2 AS n, NULL AS nothing")
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in ("word", "a [b]", "NULL", "1 row"))


def test_sql_prints_json_of_a_database_from_standard_input(running_home: Path) -> None:
    statement = "SELECT currentDatabase() AS d, toDate('2020-01-02') AS day"
    done = _run(running_home, "sql", "-", "--database", "system", "--format", "json", stdin=statement)
    assert json.loads(done.stdout) == {
        "columns": [{"name": "d", "type": "String"}, {"name": "day", "type": "Date"}],
        "rows": [["system", "2020-01-02"]],
    }


def test_sql_without_a_result_says_done(running_home: Path) -> None:
    done = _run(running_home, "sql", "CREATE DATABASE IF NOT EXISTS made ENGINE = Atomic")
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_refused_statement_is_told_in_the_servers_words(running_home: Path) -> None:
    done = _run(running_home, "sql", "SELECT nothing")
    assert done.returncode == 1
    assert done.stderr.startswith("ClickHouse error 47:")
    assert "Stack trace" not in done.stderr


def test_help_names_every_option() -> None:
    done = _run(Path("unused"), "start", "--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--folder", "--tcp-port", "--http-port", "--zookeeper", "--format"))


def test_the_parser_imports_nothing_heavy() -> None:
    code = (
        "import sys, dpone_provider.sandbox.command\n"
        "print([n for n in ('rich', 'clickhouse_driver', 'attrs', 'chdb') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
