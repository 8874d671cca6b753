"""``dpone run`` against a real server."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import load_spec
from dpone_provider.runtime.compose import operation_of
from dpone_provider.sandbox.process import RunningSandbox
from tests.cli.conftest import Desk
from tests.sandbox_fixture import Sql

CANARY = "p@ss'w/rd"
FIELDS = {"manifest", "process", "selector", "run_id", "passed", "result", "attempts"}
FAILURE_FIELDS = FIELDS | {"error_code", "quality_gates", "evidence", "failure_context", "replay_details"}
RESULT_FIELDS = {
    "status",
    "inserted_rows",
    "updated_rows",
    "final_rows",
    "extracted_rows",
    "duration_seconds",
    "errors",
}


def ids(sql: Sql, desk: Desk) -> list[int]:
    return [number for (number,) in sql(f"SELECT id FROM {desk.database}.t ORDER BY id")]


def private(sql: Sql, desk: Desk) -> list[str]:
    found = sql(f"SELECT name FROM system.tables WHERE database = '{desk.database}' AND position(name, '__dpone_') > 0")
    return [name for (name,) in found]


@pytest.mark.contract("O1", "O2")
def test_a_first_run_publishes_and_says_so_in_one_document(desk: Desk, sql: Sql) -> None:
    ran = desk.load()
    assert (ran.code, ran.err) == (0, "")
    assert set(ran.document) >= FIELDS
    assert ran.document["passed"] is True
    assert (ran.document["run_id"], ran.document["selector"], ran.document["process"]) == ("r1", "main.t", "main_t")
    result = ran.document["result"]
    assert set(result) == RESULT_FIELDS | {"details"}
    assert (result["status"], result["inserted_rows"], result["final_rows"]) == ("succeeded", 3, 3)
    assert result["details"]["target_commit"] == "proven"
    assert ids(sql, desk) == [1, 2, 3]
    assert private(sql, desk) == []


@pytest.mark.contract("O3", "I1", "P7")
def test_the_exact_command_again_replays_and_repeats_nothing(desk: Desk) -> None:
    first = desk.load().document
    desk.write_csv("9,z")
    again = desk.load()
    assert again.code == 0
    effects = {name: again.document["effects"][name] for name in ("source_reads", "inserts", "exchanges")}
    assert effects == {"source_reads": 0, "inserts": 0, "exchanges": 0}
    result = again.document["result"]
    assert (result["extracted_rows"], result["inserted_rows"], result["final_rows"]) == (0, 0, 3)
    original = result["details"]["reconciliation_metrics"]["quality_replay"]["replayed_from"]
    assert original == {"run_id": "r1", "load_id": first["result"]["details"]["load_id"]}
    assert result["details"]["operation_id"] == first["result"]["details"]["operation_id"]


@pytest.mark.contract("O3")
def test_a_first_run_carries_no_replay_and_a_replay_says_it_in_words(desk: Desk) -> None:
    first = desk.load(form="text")
    again = desk.load(form="text")
    assert "nothing repeated" not in first.out
    assert "nothing repeated: 0 source reads, 0 inserts, 0 publications" in again.out
    assert "\x1b" not in first.out + first.err + again.out + again.err


@pytest.mark.contract("I2")
def test_another_run_id_is_another_operation_and_reads_the_source(desk: Desk, sql: Sql) -> None:
    first = desk.load().document
    desk.write_csv("7,x", "8,y")
    second = desk.load(run_id="r2").document
    assert second["effects"]["source_reads"] == 1
    assert second["result"]["details"]["operation_id"] != first["result"]["details"]["operation_id"]
    assert ids(sql, desk) == [7, 8]


@pytest.mark.contract("I2", "O2")
def test_without_a_run_id_every_call_is_new_and_its_id_is_told(desk: Desk) -> None:
    text = desk.load(run_id=None, form="text")
    document = desk.load(run_id=None).document
    assert document["run_id"].startswith("manual-")
    assert document["effects"]["source_reads"] == 1
    told = [line for line in text.err.splitlines() if line.startswith("run id manual-")]
    assert len(told) == 1
    assert told[0].split()[-1] != document["run_id"]
    named = desk.dpone(
        "run", desk.manifest, "--run-id", document["run_id"], "--connections", desk.connections, "--format", "json"
    )
    assert named.document["effects"]["source_reads"] == 0


@pytest.mark.contract("I1")
def test_the_schedulers_names_give_the_same_operation(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DPONE__NAMESPACE", "prod")
    document = desk.load("--task-id", "load", "--map-index", "4").document
    identity = RunIdentity(namespace="prod", dag_id="d1", run_id="r1", task_id="load", map_index=4)
    expected = operation_of(load_spec(desk.manifest), identity).operation_id
    assert document["result"]["details"]["operation_id"] == expected


@pytest.mark.contract("I3")
def test_another_folder_and_working_directory_are_the_same_operation(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.load()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    monkeypatch.chdir(moved)
    (moved / "m2.yaml").write_text(Path(desk.manifest).read_text(encoding="utf-8"), encoding="utf-8")
    ran = desk.dpone(
        *("run", "m2.yaml", "--run-id", "r1", "--dag-id", "d1", "--connections", desk.connections, "--format", "json")
    )
    assert ran.document["effects"]["source_reads"] == 0


def break_nothing(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.write_manifest(path="nowhere.csv")


def unknown_connection(desk: Desk, sandbox: RunningSandbox) -> None:
    Path(desk.connections).write_text("{}", encoding="utf-8")


def unreachable(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.connect(sandbox, port=9)


def http_unreachable(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.connect(sandbox, extra={"http_port": 9})


def wrong_password(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.connect(sandbox, password=CANARY)


def empty_password(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.connect(sandbox, password="")


def ragged(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.write_csv("7,x", "8,y,surprise", "9,z")


def unknown_column(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.write_csv("7,x,1", header="id,name,surprise")


def too_few_rows(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.write_manifest(min_rows=100)


def does_not_fit(desk: Desk, sandbox: RunningSandbox) -> None:
    desk.write_csv("-1,x")


BAD = [
    (break_nothing, 1, "DPONE_SOURCE_NOT_FOUND"),
    (unknown_connection, 2, "DPONE_CONNECTION_UNKNOWN"),
    (unreachable, 1, "DPONE_SERVER_UNREACHABLE"),
    (http_unreachable, 1, "DPONE_SERVER_UNREACHABLE"),
    (wrong_password, 1, "DPONE_SERVER_AUTHENTICATION"),
    (empty_password, 1, "DPONE_SERVER_AUTHENTICATION"),
    (ragged, 1, "DPONE_SOURCE_INVALID"),
    (unknown_column, 1, "DPONE_SOURCE_COLUMN_UNKNOWN"),
    (too_few_rows, 1, "DPONE_QUALITY_GATES_FAILED"),
    (does_not_fit, 1, "DPONE_SOURCE_VALUE_REFUSED"),
]


@pytest.mark.contract("O1", "O4", "P8")
@pytest.mark.parametrize(("spoil", "code", "name"), BAD, ids=[spoil.__name__ for spoil, _, _ in BAD])
@pytest.mark.parametrize("durable", ["true", "false"])
def test_bad_input_is_told_and_leaves_everything_as_it_was(
    desk: Desk, sandbox: RunningSandbox, sql: Sql, spoil: Any, code: int, name: str, durable: str
) -> None:
    desk.write_manifest(durable=durable)
    desk.load(run_id="before")
    spoil(desk, sandbox)
    if durable == "false":
        text = Path(desk.manifest).read_text(encoding="utf-8").replace("replay: true", "replay: false")
        Path(desk.manifest).write_text(text, encoding="utf-8")
    ran = desk.load()
    assert (ran.code, ran.document["error_code"]) == (code, name)
    assert set(ran.document) >= FAILURE_FIELDS
    assert set(ran.document["result"]) == RESULT_FIELDS
    assert ran.document["result"]["errors"][0]["next_step"]
    assert ran.err.count("\n") == 1
    assert name in ran.err
    assert "__dpone_" not in ran.out
    assert not ran.says(CANARY)
    assert ids(sql, desk) == [1, 2, 3]
    assert private(sql, desk) == []
    desk.connect(sandbox)
    if durable == "true" and code == 1:
        slot = desk.status().document["slot"]
        assert (slot["owner"], slot["phase"] in ("REJECTED", "COMPLETE")) == ("released", True)


@pytest.mark.contract("O1", "O2")
@pytest.mark.parametrize(
    "arguments", [("nowhere.yaml",), ("m.yaml", "--selector", "main.other"), ("m.yaml", "--run-id", "")]
)
def test_a_failure_before_the_process_is_known_has_the_same_fields(
    paper: Desk, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(paper.folder)
    ran = paper.dpone("run", *arguments, "--format", "json")
    assert ran.code == 2
    assert set(ran.document) == FAILURE_FIELDS
    assert set(ran.document["result"]) == RESULT_FIELDS
    assert "target_commit" not in ran.document["replay_details"]


@pytest.mark.contract("O4")
def test_a_retry_after_a_failed_attempt_counts_both(desk: Desk) -> None:
    desk.write_csv("7,x", "-8,y")
    assert desk.load().code == 1
    desk.write_csv("7,x", "8,y")
    document = desk.load().document
    assert document["attempts"] == 2
    assert [attempt["number"] for attempt in document["result"]["details"]["attempts"]] == [1, 2]


@pytest.mark.contract("O5")
def test_status_follows_a_load(desk: Desk) -> None:
    loaded = desk.load().document["result"]["details"]
    document = desk.status().document
    assert (document["slot"]["phase"], document["slot"]["owner"]) == ("COMPLETE", "released")
    assert document["asked"] == {
        "operation_id": loaded["operation_id"],
        "relation": "this",
        "same_configuration": True,
    }
    assert document["generation"]["live"] == document["generation"]["sealed"] == loaded["generation"]
    assert document["capsule"]["state"] == "COMPLETE"
    assert document["private_tables"] == []
    assert document["next_step"].startswith("Nothing to do")
    assert desk.status(run_id="r2").document["asked"]["relation"] == "another"
    assert desk.status(run_id=None).document["asked"]["relation"] == "not asked"
    assert "\x1b" not in desk.status(form="text").out


@pytest.mark.contract("O5")
def test_status_changes_nothing(desk: Desk, sql: Sql) -> None:
    desk.load()
    rows = f"SELECT *, _version FROM {desk.database}.dpone_replay_authority"
    before = sql(rows)
    desk.status()
    desk.status(run_id="r2")
    assert sql(rows) == before


@pytest.mark.contract("O1")
def test_a_secret_in_a_connections_file_or_variable_is_never_shown(
    desk: Desk, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPONE_DEBUG", "1")
    uri = f"dpone-clickhouse://{sandbox.user}:p%40ss%27w%2Frd@{sandbox.host}:{sandbox.tcp_port}"
    monkeypatch.setenv("AIRFLOW_CONN_WH", f"{uri}/?http_port={sandbox.http_port}")
    by_variable = desk.dpone("run", desk.manifest, "--format", "json")
    Path(desk.connections).write_text(f'{{"wh": {{"password": "{CANARY}", ', encoding="utf-8")
    malformed = desk.load()
    desk.connect(sandbox, password=CANARY, port="nine")
    wrong_field = desk.load()
    assert by_variable.document["error_code"] == "DPONE_SERVER_AUTHENTICATION"
    assert [ran.code for ran in (by_variable, malformed, wrong_field)] == [1, 2, 2]
    for ran in (by_variable, malformed, wrong_field):
        assert "Traceback" in ran.err or "File " in ran.err
        for secret in (CANARY, "p%40ss", json.dumps(CANARY)[1:-1]):
            assert not ran.says(secret)


@pytest.mark.contract("P7", "O5")
def test_a_committed_retry_imports_neither_arrow_nor_the_bulk_driver_nor_rich(desk: Desk) -> None:
    desk.load()
    script = (
        "import sys, json; from dpone_provider.cli.main import main; code = main(sys.argv[1:]); "
        "heavy = {'pyarrow', 'clickhouse_connect', 'rich', 'airflow', 'numpy', 'pandas', 'ruamel.yaml.rt'}; "
        "print(json.dumps(sorted(heavy & set(sys.modules))), file=sys.stderr); sys.exit(code)"
    )
    command = ["run", desk.manifest, "--run-id", "r1", "--dag-id", "d1", "--connections", desk.connections]
    done = subprocess.run(
        [sys.executable, "-c", script, *command, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["details"]["replayed"] is True
    assert json.loads(done.stderr) == []


@pytest.mark.contract("O1")
def test_on_a_terminal_progress_moves_and_the_outcome_is_one_screen(desk: Desk) -> None:
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "dpone_provider.cli.main", "run", desk.manifest, "--run-id", "r1"]
    process = subprocess.Popen(
        [*command, "--connections", desk.connections],
        stdout=inner,
        stderr=inner,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(inner)
    shown = b""
    while True:
        try:
            piece = os.read(outer, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(outer)
    assert process.wait(timeout=30) == 0
    text = shown.decode()
    assert "\x1b[" in text
    assert "Is the new table live?" in text
    assert text.rstrip().endswith("╯") or "╯" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")
