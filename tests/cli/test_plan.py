"""``dpone plan``: what it says offline is what loads then do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.cli import plan as plan_command
from dpone_provider.clickhouse.authority_store import TABLE
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.digest import admission_digest
from dpone_provider.manifest.read import NOTE, load_spec, spec_from_values
from dpone_provider.replay.identity import Operation, Target
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Effect
from tests.cli.conftest import Desk
from tests.loads import Bench, OneEndpoint, endpoint_of
from tests.paths.bench import Appending

ROOT = Path(__file__).parents[2]
NAMES = ("--dag-id", "d", "--run-id", "r", "--task-id", "k", "--map-index", "3", "--namespace", "prod")
FIRST = {"", "the slot is empty", "there is no table yet", "there are rows to add"}
LATER = {"", "the slot is not empty", "the table exists", "there are rows to add"}


def planned(desk: Desk, *arguments: str) -> dict[str, Any]:
    ran = desk.dpone("plan", desk.manifest, *arguments, "--format", "json")
    assert ran.code == 0, ran
    assert ran.err == ""
    return ran.document


@pytest.mark.contract("I1", "O5")
def test_the_identity_is_the_one_that_a_load_with_these_names_has(paper: Desk) -> None:
    document = planned(paper, *NAMES)
    target = Target(cluster="", database="demo", table="t")
    process = load_spec(paper.manifest).process
    expected = Operation(
        namespace="prod", dag_id="d", run_id="r", task_id="k", map_index=3, process=process, target=target
    )
    assert document["identity"]["operation_id"] == expected.operation_id
    assert document["identity"]["admission_digest"] == admission_digest(load_spec(paper.manifest))
    staging = document["tables"]["staging"]
    assert staging.replace("<epoch>", "7") == f"demo.{expected.candidate(7)}"
    assert document["tables"]["authority"] == f"demo.{TABLE}"


@pytest.mark.contract("I2", "O6")
def test_without_a_run_id_it_says_that_a_fresh_one_would_be_made(paper: Desk) -> None:
    document = planned(paper)
    identity = document["identity"]
    assert identity["operation_id"] is None
    assert identity["fresh_run_id"] is True
    assert identity["made_of"]["run_id"] is None
    assert "fresh manual-" in identity["run_id_would_be"]
    assert "<operation id>" in document["tables"]["staging"]
    assert any("fresh run id" in item["what"] for item in document["unknown"])
    assert "fresh run id" in paper.dpone("plan", paper.manifest).out


@pytest.mark.contract("M10", "O5")
@pytest.mark.parametrize("form", ["text", "json"])
def test_it_says_that_it_is_no_live_certificate_and_what_cannot_be_known(paper: Desk, form: str) -> None:
    ran = paper.dpone("plan", paper.manifest, "--format", form)
    assert NOTE in ran.out
    for unknown in (
        "the connection",
        "the server",
        "the live table",
        "the authority",
        "the slot",
        "the source's columns",
    ):
        assert unknown in ran.out


@pytest.mark.contract("O5")
def test_the_checks_and_the_budget_are_those_of_the_manifest(paper: Desk) -> None:
    document = planned(paper)
    assert [(gate["id"], gate["type"]) for gate in document["checks"]["gates"]] == [
        ("rows", "row_count_reconciliation"),
        ("some", "min_rows"),
    ]
    acceptance = document["checks"]["acceptance"]
    assert acceptance["mode"] == "required"
    assert [side["side"] for side in acceptance["sides"]] == ["source", "staged"]
    assert (acceptance["null_counts"], acceptance["distinct_counts"]) == (["name"], ["id"])
    assert acceptance["columns"] is None  # the header of the file was not looked at
    assert document["budget"] == {"max_source_bytes": 100_000_000}
    assert document["columns"]["declared"] == {"id": "UInt64", "name": "Nullable(String)"}
    text = paper.dpone("plan", paper.manifest).out
    assert "side target, threshold 1" in text
    assert "100,000,000 bytes" in text


def _with_columns(desk: Desk, *, checks: str, mode: str = "required", target: bool = False) -> dict[str, Any]:
    text = desk_text(desk)
    text = text.replace("path: source.csv}", "path: source.csv, options: {column_names: [id, name, __dpone__x]}}")
    text = text.replace("mode: required", f"mode: {mode}").replace("target: false", f"target: {str(target).lower()}")
    text = text.replace("null_counts: [name], distinct_counts: [id]", checks)
    Path(desk.manifest).write_text(text, encoding="utf-8")
    return planned(desk)["checks"]["acceptance"]  # type: ignore[no-any-return]


def desk_text(desk: Desk) -> str:
    return Path(desk.manifest).read_text(encoding="utf-8")


def test_declared_source_columns_say_which_are_counted(paper: Desk) -> None:
    found = _with_columns(paper, checks="null_counts: business_columns, distinct_counts: all_columns")
    assert found["columns"] == {
        "null_counts": ["id", "name"],
        "distinct_counts": ["id", "name", "__dpone__x"],
        "missing": [],
    }


def test_a_column_that_the_declared_ones_lack_is_shown_not_raised(paper: Desk) -> None:
    found = _with_columns(paper, checks="null_counts: [nope], distinct_counts: [id]")
    assert found["columns"]["missing"] == ["nope"]
    assert "not among the source's columns: nope" in paper.dpone("plan", paper.manifest).out


def test_the_plain_route_observes_its_target_after_the_switch_and_before_anything_is_dropped(paper: Desk) -> None:
    paper.write_manifest(durable="false")
    found = _with_columns(paper, checks="null_counts: [id]", target=True)
    assert all(side["available"] for side in found["sides"])
    kinds = [kind for step in planned(paper)["steps"] for kind in step["effects"]]
    switch = kinds.index("exchange")
    assert kinds.index("query", switch) < kinds.index("drop", switch)


def test_an_observed_target_is_planned_with_its_reader(paper: Desk) -> None:
    found = _with_columns(paper, checks="null_counts: [id]", target=True)
    assert all(side["available"] for side in found["sides"])
    document = planned(paper)
    kinds = [kind for step in document["steps"] for kind in step["effects"]]
    assert kinds.index("reader_probe") < kinds.index("source_open")
    assert kinds.index("exchange") < kinds.index("observe")
    assert any("the reader" in item["what"] for item in document["unknown"])


def test_the_plain_route_names_no_authority_and_says_what_a_retry_does(paper: Desk) -> None:
    paper.write_manifest(durable="false")
    document = planned(paper, "--run-id", "r")
    assert document["route"]["name"] == "plain"
    assert "reads the source" in document["route"]["retry"]
    assert document["tables"]["authority"] is None
    assert not any(kind.startswith("authority") for step in document["steps"] for kind in step["effects"])
    token = "0" * 32
    operation = Operation.from_payload({"version": 1, **document["identity"]["made_of"]})
    assert document["tables"]["staging"].replace("<32 hex>", token) == f"demo.{operation.alone(token)}"
    assert "dropped at the end" in paper.dpone("plan", paper.manifest).out


def test_a_query_stands_as_its_hash_only() -> None:
    values = {"type": "clickhouse", "connection_ref": "ch", "query": "SELECT secret FROM t"}
    sink = {"type": "clickhouse", "connection_ref": "ch", "table": {"schema": "d", "name": "t"}}
    source = plan_command._source(spec_from_values(source=values, sink=sink, name="load").source)
    assert source["dataset"].startswith("source_query:")
    assert "secret" not in json.dumps(source)


@pytest.mark.contract("O1", "M11")
def test_a_bad_manifest_is_refused_as_check_refuses_it(paper: Desk) -> None:
    Path(paper.manifest).write_text(desk_text(paper).replace("type: min_rows", "type: min_row"), encoding="utf-8")
    checked = paper.dpone("check", paper.manifest, "--format", "json")
    ran = paper.dpone("plan", paper.manifest, "--format", "json")
    assert (ran.code, checked.code) == (2, 2)
    assert ran.document["problems"] == checked.document["problems"]
    assert ran.document["passed"] is False


@pytest.mark.contract("O1")
@pytest.mark.parametrize("arguments", [("--selector", "main.nope"), ("--map-index", "x"), ("--run-id", "")])
def test_wrong_usage_is_2_and_one_document(paper: Desk, arguments: tuple[str, ...]) -> None:
    ran = paper.dpone("plan", paper.manifest, *arguments, "--format", "json")
    assert ran.code == 2
    assert ran.document["passed"] is False


class Recorder(DirectWire):
    """The kinds of all effects, in order; batches of the source are part of the insert."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    def send(self, effect: Effect, call: Any) -> Any:
        if effect.kind != "source_read":
            self.kinds.append(effect.kind)
        return super().send(effect, call)


@pytest.mark.contract("O5", "D1")
@pytest.mark.parametrize(
    ("durable", "keep", "target"),
    [(True, False, False), (True, True, False), (True, False, True), (False, False, False), (False, True, False)],
    ids=["durable", "durable-keep", "durable-target", "plain", "plain-keep"],
)
def test_loads_have_exactly_the_planned_effects(
    sandbox: RunningSandbox,
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    durable: bool,
    keep: bool,
    target: bool,
) -> None:
    desk = provisioned(sandbox, database, tmp_path, capsys)
    desk.write_manifest(durable=str(durable).lower())
    text = desk_text(desk).replace("    options:\n", f"    options:\n      keep_previous: {str(keep).lower()}\n")
    Path(desk.manifest).write_text(text.replace("target: false", f"target: {str(target).lower()}"), encoding="utf-8")
    compare_plan_and_loads(desk, sandbox)


@pytest.mark.contract("O5", "D1", "X4")
@pytest.mark.parametrize("cursor", ["", "    cursor: {column: id}\n"], ids=["all", "cursor"])
def test_appends_have_exactly_the_planned_effects(
    sandbox: RunningSandbox, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], cursor: str
) -> None:
    bench = Appending(sandbox=sandbox, database=database, folder=tmp_path)
    bench.create()
    if cursor:
        bench.provision()
        bench.ask(f"DROP TABLE {database}.dpone_load_steps SYNC")
    bench.write(1)
    desk = Desk(folder=tmp_path, database=database, capture=capsys)
    Path(desk.manifest).write_text(
        f"""kind: dpone.batch.v1
defaults:
  name: add
  source:
    type: file
    format: csv
    path: source.csv
{cursor}  sink:
    type: clickhouse
    connection_ref: sink
    table: {{schema: {database}, name: t}}
    strategy: {{mode: append}}
    pre_sql: [SELECT 1]
    post_sql: [SELECT 2, SELECT 3]
quality:
  acceptance: {{enabled: true, capture: {{staged: false}}}}
schemas:
  source: {{tables: [t]}}
""",
        encoding="utf-8",
    )
    firsts = iter((1, 6))
    compare_plan_and_loads(desk, sandbox, before=lambda: bench.write(next(firsts)))
    text = " ".join(desk.dpone("plan", desk.manifest).out.split())
    assert "may add the same rows again" in text
    assert "Staged as" not in text
    assert ("only rows whose id is above the mark" in text) is bool(cursor)


HASH = "{id: values, type: typed_hash_reconciliation, mode: sample}"
ASKED = "{id: keys, type: unique, sql: id}, {id: known, type: custom_sql, sql: 'SELECT 0 FROM {table} LIMIT 1'}"


@pytest.mark.contract("O5", "D1", "Q1")
@pytest.mark.parametrize(("durable", "gates"), [("true", HASH), ("false", HASH), ("false", f"{HASH}, {ASKED}")])
def test_loads_ask_their_gates_as_planned(
    sandbox: RunningSandbox,
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    durable: str,
    gates: str,
) -> None:
    desk = provisioned(sandbox, database, tmp_path, capsys)
    desk.write_manifest(durable=durable)
    text = desk_text(desk)
    start, end = text.index("  gates:\n"), text.index("  acceptance:\n")
    Path(desk.manifest).write_text(f"{text[:start]}  gates: [{gates}]\n{text[end:]}", encoding="utf-8")
    compare_plan_and_loads(desk, sandbox)
    assert "sample" in desk.dpone("plan", desk.manifest).out


def provisioned(sandbox: RunningSandbox, database: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk with a source of its own and an authority."""
    bench = Bench(sandbox=sandbox, database=database, folder=folder)
    bench.provision()
    bench.write(1)
    return Desk(folder=folder, database=database, capture=capsys)


def compare_plan_and_loads(desk: Desk, sandbox: RunningSandbox, before: Callable[[], None] = lambda: None) -> None:
    """Two loads, into no table and into one, send what was planned for them."""
    for run_id, holds in (("first", FIRST), ("later", LATER)):
        before()
        steps = planned(desk, "--run-id", run_id)["steps"]
        expected = [kind for step in steps if (step["when"] or "") in holds for kind in step["effects"]]
        wire = Recorder()
        identity = RunIdentity(run_id=run_id, dag_id="manual", task_id="t")
        spec = load_spec(desk.manifest)
        run_load(spec, identity, OneEndpoint(where=endpoint_of(sandbox)), Surroundings(wire=wire))
        assert wire.kinds == expected


@pytest.mark.contract("O5", "M10")
def test_plan_opens_no_socket_imports_no_driver_and_is_quick(paper: Desk) -> None:
    script = """
import sys
def hook(event, args):
    if event.startswith(("socket.", "subprocess.")):
        raise SystemExit(f"forbidden: {event}")
sys.addaudithook(hook)
import json
from dpone_provider.cli.main import main
code = main(["plan", sys.argv[1], "--run-id", "r"])
heavy = {"pyarrow", "clickhouse_driver", "clickhouse_connect", "rich", "airflow", "socket", "subprocess", "asyncio"}
print(json.dumps(sorted(heavy & set(sys.modules))), file=sys.stderr)
raise SystemExit(code)
"""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", script, paper.manifest],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stderr) == []
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.3, seconds  # CPU seconds: other tests share the machine
