"""``load_dpone_dags``: a folder of manifests becomes DAGs, and a bad file hides no other (F1, F7; field report B26)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.api import load_dpone_dags
from tests.airflow.home import Home
from tests.airflow.manifests import ADVICE, BODY, BROKEN, HEAD, LOADER, bag_of, manifest
from tests.airflow.release import AIRFLOW_3, lacks, schedule

FLOW = """\
kind: dpone.flow.v1
authoring: {source: flow.dpone.yaml}
fragments: [part.dpone.yaml]
"""
FRAGMENT = """\
kind: dpone.flow-fragment.v1
processes:
  - name: from_part
    source: {type: clickhouse, connection_ref: there, table: {schema: a, name: b}}
    sink: {type: clickhouse, connection_ref: warehouse, table: {schema: shop, name: t}}
"""


def ten(folder: Path) -> Path:
    """Nine good manifests and a broken one, and the DAG file for them."""
    for number in range(9):
        manifest(folder / "loads" / f"load_{number}.dpone.yaml")
    (folder / "loads" / "broken.dpone.yaml").write_text(BROKEN, encoding="utf-8")
    return folder / "dags.py"


@pytest.mark.contract("F7")
@pytest.mark.parametrize("in_bundle", [False, pytest.param(True, marks=lacks("bundles"))])
def test_of_ten_manifests_nine_load_and_the_broken_one_is_an_import_error_of_its_own(
    tmp_path: Path, in_bundle: bool
) -> None:
    """Field report B26. In a bundle, Airflow 3 names files from the bundle's folder on."""
    bag = bag_of(ten(tmp_path), LOADER, tmp_path if in_bundle else None)
    assert sorted(bag.dags) == [f"load_{number}" for number in range(9)]
    file = "loads/broken.dpone.yaml" if in_bundle else str(tmp_path / "loads" / "broken.dpone.yaml")
    assert list(bag.import_errors) == [file]
    assert "broken.dpone.yaml:5:9: DPONE_MANIFEST_MISSING_KEY" in bag.import_errors[file]


@pytest.mark.contract("F7")
def test_airflow_schedules_the_nine_while_it_shows_the_error_of_the_tenth(airflow_home: Home, tmp_path: Path) -> None:
    """What Airflow keeps: an error under the DAG file's own name would make all DAGs of the file stale."""
    ten(tmp_path).write_text(LOADER, encoding="utf-8")
    found, _ = airflow_home.run(
        """
        from pathlib import Path
        from tests.airflow.release import keep_parsed
        file = Path(os.environ["HERE"]) / "dags.py"
        keep_parsed(file)
        out(keep_parsed(file))
        """,
        folder=tmp_path,
        HERE=str(tmp_path),
    )
    assert found["dags"] == {f"load_{number}": [False, False] for number in range(9)}
    ((file, text),) = found["errors"].items()
    assert file == ("loads/broken.dpone.yaml" if AIRFLOW_3 else str(tmp_path / "loads" / "broken.dpone.yaml"))
    assert ":5:9: " in text


@pytest.mark.contract("F7")
def test_a_bag_that_is_none_gets_the_errors_raised(tmp_path: Path) -> None:
    """An Airflow that validates otherwise than those we know is told too, if less precisely."""
    ten(tmp_path)
    names: dict[str, Any] = {"__file__": str(tmp_path / "dags.py")}
    assert len(load_dpone_dags("loads", names)) == 9
    refused = names.pop(next(name for name in names if name.startswith("dpone:refused:")))
    with pytest.raises(Exception, match=r"broken\.dpone\.yaml:5:9"):
        refused.validate()


def test_outside_of_airflow_the_errors_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ten(tmp_path)
    with caplog.at_level(logging.ERROR):
        load_dpone_dags(tmp_path / "loads", {"__file__": str(tmp_path / "dags.py")})
    assert "broken.dpone.yaml:5:9" in caplog.text


@pytest.mark.contract("F7")
@pytest.mark.parametrize(("asked", "made"), [("load_3", ["load_3"]), ("named", ["named"]), ("nowhere", [])])
def test_for_a_task_only_its_dag_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, made: list[str]
) -> None:
    """Whether the file's name or the manifest says the DAG's id; the broken file beside it is not even read."""
    file = ten(tmp_path)
    manifest(tmp_path / "loads" / "z.dpone.yaml", 'metadata: {airflow: {dag_id: "na\\x6ded"}}\n')
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", asked)
    bag = bag_of(file, LOADER)
    assert sorted(bag.dags) == made
    assert (bag.import_errors == {}) is (asked == "load_3")


@pytest.mark.contract("F7")
@pytest.mark.parametrize("asked", [None, "same"])
def test_two_files_with_one_dag_id_are_both_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    """A file that is added later never takes the place of a DAG that is there; not for a running task either."""
    manifest(tmp_path / "loads" / "same.dpone.yaml")
    manifest(tmp_path / "loads" / "other.dpone.yaml", "metadata:\n  airflow:\n    dag_id: same\n")
    manifest(tmp_path / "loads" / "third.dpone.yaml")
    if asked:
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", asked)
    bag = bag_of(tmp_path / "dags.py", LOADER)
    assert sorted(bag.dags) == ([] if asked else ["third"])
    assert {Path(file).name: "DPONE_MANIFEST_DUPLICATE" in text for file, text in bag.import_errors.items()} == {
        "same.dpone.yaml": True,
        "other.dpone.yaml": True,
    }
    assert "other.dpone.yaml:4:5: " in bag.import_errors[str(tmp_path / "loads" / "other.dpone.yaml")]


@pytest.mark.contract("F7")
def test_a_second_folder_never_takes_the_place_of_a_dag(tmp_path: Path) -> None:
    manifest(tmp_path / "loads" / "same.dpone.yaml")
    manifest(tmp_path / "more" / "same.dpone.yaml")
    manifest(tmp_path / "more" / "other.dpone.yaml")
    bag = bag_of(tmp_path / "dags.py", LOADER + "load_dpone_dags('more', globals())\n")
    assert sorted(bag.dags) == ["other", "same"]
    assert bag.dags["same"].get_task("totals").manifest == "loads/same.dpone.yaml"
    assert list(bag.import_errors) == [str(tmp_path / "more" / "same.dpone.yaml")]


@pytest.mark.contract("F7")
def test_what_airflow_refuses_hides_no_other_dag(tmp_path: Path) -> None:
    """Field report B26 again: a cron expression that only Airflow can judge."""
    advice = 'metadata: {airflow: {schedule: "61 4 * * *", start_date: 2026-01-01}}\n'
    manifest(tmp_path / "loads" / "refused.dpone.yaml", advice)
    manifest(tmp_path / "loads" / "good.dpone.yaml")
    bag = bag_of(tmp_path / "dags.py", LOADER)
    assert list(bag.dags) == ["good"]
    (text,) = bag.import_errors.values()
    assert "refused.dpone.yaml:2:21: DPONE_MANIFEST_VALUE" in text
    assert "61" in text


@pytest.mark.contract("F7")
def test_a_schedule_needs_a_start_date_where_airflow_demands_one(tmp_path: Path) -> None:
    """In 2.11. No date is invented: it would be one from which 2.11 catches up."""
    manifest(tmp_path / "loads" / "undated.dpone.yaml", "metadata: {airflow: {schedule: '@daily'}}\n")
    manifest(tmp_path / "loads" / "good.dpone.yaml")
    bag = bag_of(tmp_path / "dags.py", LOADER)
    refused = "".join(bag.import_errors.values())
    assert sorted(bag.dags) == (["good", "undated"] if AIRFLOW_3 else ["good"])
    assert ("undated.dpone.yaml:2:21: DPONE_MANIFEST_VALUE" in refused) is not AIRFLOW_3
    assert ("start_date" in refused) is not AIRFLOW_3


@pytest.mark.contract("F7", "M13")
def test_a_flow_is_a_dag_and_its_fragment_is_none(tmp_path: Path) -> None:
    (tmp_path / "loads").mkdir()
    (tmp_path / "loads" / "flow.dpone.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "loads" / "part.dpone.yaml").write_text(FRAGMENT, encoding="utf-8")
    bag = bag_of(tmp_path / "dags.py", LOADER)
    assert {name: list(dag.task_dict) for name, dag in bag.dags.items()} == {"flow": ["from_part"]}
    assert bag.import_errors == {}
    (tmp_path / "loads" / "part.dpone.yaml").write_text(FRAGMENT.replace("sink:", "sunk:"))
    bag = bag_of(tmp_path / "dags.py", LOADER)
    assert list(bag.import_errors) == [str(tmp_path / "loads" / "flow.dpone.yaml")]
    assert "part.dpone.yaml:" in bag.import_errors[str(tmp_path / "loads" / "flow.dpone.yaml")]


@pytest.mark.contract("F7")
def test_only_files_of_the_suffix_are_manifests_and_a_folder_must_be_there(tmp_path: Path) -> None:
    manifest(tmp_path / "loads" / "a.dpone.yml")
    manifest(tmp_path / "loads" / "b.yaml")
    manifest(tmp_path / "loads" / "below" / "c.dpone.yaml")
    (tmp_path / "loads" / "d.dpone.yaml").mkdir()
    assert list(bag_of(tmp_path / "dags.py", LOADER).dags) == ["a"]
    with pytest.raises(NotADirectoryError, match="nowhere"):
        load_dpone_dags("nowhere", {"__file__": str(tmp_path / "dags.py")})
    with pytest.raises(TypeError, match="dag_id is said by each manifest"):
        load_dpone_dags("loads", {"__file__": str(tmp_path / "dags.py")}, dag_id="x")


@pytest.mark.contract("F7")
def test_a_dag_hides_no_name_of_the_dag_file(tmp_path: Path) -> None:
    """A manifest may be called as a module that the DAG file uses."""
    manifest(tmp_path / "loads" / "os.dpone.yaml")
    bag = bag_of(tmp_path / "dags.py", "import os\n" + LOADER + "assert os.path\n")
    assert (list(bag.dags), bag.import_errors) == (["os"], {})


@pytest.mark.contract("F7")
def test_what_is_said_for_the_folder_holds_for_every_dag(tmp_path: Path) -> None:
    names = {"__file__": str(tmp_path / "dags.py")}
    for name in ("a", "b"):
        manifest(tmp_path / "loads" / f"{name}.dpone.yaml")
    made = load_dpone_dags(
        "loads", names, connection_config={"warehouse": "wh2"}, operator_args={"queue": "q"}, schedule=None
    )
    assert sorted(made) == ["a", "b"]
    for dag in made.values():
        task = dag.get_task("totals")
        assert (schedule(dag), task.queue, task.connections) == (None, "q", {"warehouse": "wh2"})
        assert task.manifest == f"loads/{dag.dag_id}.dpone.yaml"
        assert dag.fileloc == str(tmp_path / "dags.py")


TRAPS = """
import json, sys, time
touched = []
def trap(event, args):
    if event in ("socket.connect", "subprocess.Popen", "os.system", "os.fork", "sqlite3.connect"):
        touched.append(event)
    if event == "import" and args[0].split(".")[0] in ("pyarrow", "clickhouse_driver", "clickhouse_connect", "rich"):
        touched.append("import " + args[0])
import datetime, os
import gusty, dagfactory
from airflow.providers.common.compat.sdk import DAG, BaseOperator, Variable
from airflow.providers.common.compat.sdk import BaseHook
from airflow.models.connection import Connection
from tests.airflow.release import DagBag
from tests.airflow.release import DagSerialization
BaseHook.get_connection = classmethod(lambda cls, ref: touched.append("connection " + ref))
Connection.get_connection_from_secrets = classmethod(lambda cls, ref: touched.append("connection " + ref))
Variable.get = classmethod(lambda cls, key, *a, **k: touched.append("variable " + key))
with DAG("plain", start_date=datetime.datetime(2026, 1, 1), schedule="0 4 * * *") as dag:
    BaseOperator(task_id="what_airflow_itself_does_once")
DagSerialization.from_dict(DagSerialization.to_dict(dag))
sys.addaudithook(trap)
"""


@pytest.mark.contract("F1", "F7", "F8")
def test_parsing_touches_nothing_whichever_way_the_dags_are_made(airflow_home: Home, tmp_path: Path) -> None:
    """Field report B20: 200 manifests in a folder, and the examples of every other way."""
    for number in range(200):
        body = BODY.replace("schema: shop", f"schema: shop{number}")
        manifest(tmp_path / "loads" / f"load_{number}.dpone.yaml", body=body)
    (tmp_path / "dags.py").write_text(LOADER, encoding="utf-8")
    found, _ = airflow_home.run(
        """
        before = time.process_time()
        many = DagBag(os.environ["HERE"] + "/dags.py")
        texts = [json.dumps(DagSerialization.to_dict(dag)) for dag in many.dags.values()]
        seconds = time.process_time() - before
        examples = os.environ["DPONE_ROOT"] + "/dags_examples/"
        files = ("folder.py", "by_hand.py", "dag_factory/loads.py", "gusty/loads.py")
        ways = [DagBag(examples + name) for name in files]
        texts += [json.dumps(DagSerialization.to_dict(dag)) for bag in ways for dag in bag.dags.values()]
        errors = [bag.import_errors for bag in (many, *ways) if bag.import_errors]
        out({"touched": touched, "dags": len(texts), "seconds": seconds, "errors": errors,
             "objects": [text for text in texts if " object at 0x" in text]})
        """,
        folder=tmp_path,
        prelude=TRAPS,
        HERE=str(tmp_path),
        AIRFLOW__DAG_FACTORY__ENABLE_TELEMETRY="False",
    )
    assert found["touched"] == []
    assert (found["errors"], found["objects"]) == ([], [])
    assert found["dags"] == 206
    assert found["seconds"] < 3  # CPU, under whatever else the machine does; benchmarks/parse.py measures


@pytest.mark.contract("F1")
def test_a_serialized_dag_of_a_manifest_round_trips_byte_for_byte(airflow_home: Home, tmp_path: Path) -> None:
    manifest(tmp_path / "loads" / "orders.dpone.yaml", ADVICE)
    (tmp_path / "dags.py").write_text(LOADER, encoding="utf-8")
    found, _ = airflow_home.run(
        """
        dag = DagBag(os.environ["HERE"] + "/dags.py").dags["orders"]
        first = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        back = DagSerialization.from_dict(json.loads(json.dumps(first)))
        from tests.airflow.release import OperatorSerialization
        ours = {"manifest", "process", "connections", "outlets", "retries", "task_id", "task_type", "_task_module"}
        changed = []
        for wrapped in first["dag"]["tasks"]:
            task = wrapped["__var"]
            after = json.loads(json.dumps(OperatorSerialization.serialize_operator(back.task_dict[task["task_id"]])))
            changed += [[key, task[key], after.get(key)] for key in ours & task.keys() if task[key] != after.get(key)]
        out({"changed": changed, "text": json.dumps(first["dag"]["tasks"]), "touched": touched})
        """,
        folder=tmp_path,
        prelude=TRAPS,
        HERE=str(tmp_path),
    )
    assert (found["changed"], found["touched"]) == ([], [])
    assert "0x" not in found["text"]
    assert str(tmp_path) not in found["text"]
    assert HEAD.strip() not in found["text"], "the manifest itself stays in its file"
