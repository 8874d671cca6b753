"""``DponeDag`` and ``DponeTaskGroup``: what a manifest becomes, and what wins over it (F1, F7)."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator

from dpone_provider.api import DponeDag, DponeTaskGroup
from dpone_provider.manifest.problems import ManifestError
from tests.airflow.examples import Examples
from tests.airflow.manifests import ADVICE, BODY, BROKEN, bag_of, manifest
from tests.airflow.release import schedule


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return manifest(tmp_path / "orders.dpone.yaml")


@pytest.mark.contract("F7")
def test_a_manifest_becomes_one_task_a_process_in_the_order_of_depends_on(file: Path) -> None:
    dag = DponeDag(manifest=file)
    assert dag.dag_id == "orders"
    assert {task.task_id: (task.process, sorted(task.upstream_task_ids)) for task in dag.tasks} == {
        "erp_orders": ("erp_orders", []),
        "totals": ("totals", ["erp_orders"]),
    }
    assert (schedule(dag), sorted(dag.tags), dag.owner) == ("0 4 * * *", ["a", "b"], "x")
    assert dag.start_date == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_a_dag_knows_the_file_that_made_it(file: Path) -> None:
    assert DponeDag(manifest=file).fileloc == __file__


@pytest.mark.contract("F7")
def test_a_process_says_more_about_its_task_than_the_file_does(file: Path) -> None:
    dag = DponeDag(manifest=file)
    orders, totals = dag.get_task("erp_orders"), dag.get_task("totals")
    assert (orders.retries, orders.pool, orders.execution_timeout) == (5, "slow", datetime.timedelta(seconds=60))
    assert (totals.retries, totals.pool, totals.retry_delay) == (2, "default_pool", datetime.timedelta(seconds=60))


@pytest.mark.contract("F7")
def test_python_wins_over_the_manifest(file: Path) -> None:
    dag = DponeDag(
        "mine", manifest=file, schedule=None, tags=["c"], default_args={"retries": 7, "queue": "q"},
        operator_args={"pool": "fast", "namespace": "staging"},
    )  # fmt: skip
    assert (dag.dag_id, schedule(dag), sorted(dag.tags)) == ("mine", None, ["c"])
    orders, totals = dag.get_task("erp_orders"), dag.get_task("totals")
    assert (orders.retries, totals.retries) == (5, 7), "a process's own metadata is over default_args"
    assert (orders.pool, totals.pool, totals.queue, totals.owner) == ("fast", "fast", "q", "x")
    assert (orders.namespace, orders.retry_delay) == ("staging", datetime.timedelta(seconds=60))
    assert DponeDag(manifest=file, operator_args={"retries": 1}).get_task("erp_orders").retries == 1


@pytest.mark.contract("F7")
def test_the_table_is_an_outlet_named_by_the_connection_that_is_used(file: Path) -> None:
    config = {"warehouse": "wh_production", "unused": "other"}
    orders = DponeDag(manifest=file, connection_config=config).get_task("erp_orders")
    assert [asset.uri for asset in orders.outlets] == ["clickhouse://wh_production/shop/orders"]
    assert orders.connections == {"warehouse": "wh_production"}
    plain = DponeDag(manifest=file).get_task("erp_orders")
    assert [asset.uri for asset in plain.outlets] == ["clickhouse://warehouse/shop/orders"]
    assert plain.connections is None


@pytest.mark.contract("F7")
@pytest.mark.parametrize(
    ("said", "uris"),
    [
        ("[clickhouse://wh/shop/orders, s3://b/c]", ["clickhouse://wh/shop/orders", "s3://b/c"]),
        ("clickhouse://wh/shop/orders", ["clickhouse://wh/shop/orders"]),
    ],
)
def test_a_dag_can_wait_for_assets(tmp_path: Path, said: str, uris: list[str]) -> None:
    advice = f"metadata: {{airflow: {{start_date: 2026-01-01, schedule: {said}}}}}\n"
    dag = DponeDag(manifest=manifest(tmp_path / "m.dpone.yaml", advice))
    assert schedule(dag) == uris


def test_every_advice_of_the_grammar_reaches_airflow(tmp_path: Path) -> None:
    from dpone_provider.manifest.airflow_advice import DAG_KEYS, TASK_KEYS

    said = {name: rule.example for name, rule in DAG_KEYS.items()}
    dag = DponeDag(manifest=manifest(tmp_path / "m.dpone.yaml", f"metadata: {json.dumps({'airflow': said})}\n"))
    task = dag.get_task("totals")
    for name in TASK_KEYS:
        value = getattr(task, name)
        assert (value.total_seconds() if isinstance(value, datetime.timedelta) else value) == said[name], name
    for name in DAG_KEYS.keys() - TASK_KEYS.keys():
        value = schedule(dag) if name == "schedule" else getattr(dag, name)
        if isinstance(value, datetime.timedelta):
            value = value.total_seconds()
        if isinstance(value, datetime.datetime):
            moment = datetime.datetime.fromisoformat(said[name])
            assert value == (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)), name
        else:
            assert (sorted(value) if isinstance(value, set) else value) == said[name], name


@pytest.mark.contract("F7", "M11")
def test_a_bad_manifest_is_refused_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "bad.dpone.yaml"
    file.write_text(BROKEN, encoding="utf-8")
    for make in (DponeDag, DponeTaskGroup):
        with pytest.raises(ManifestError, match=r"bad\.dpone\.yaml:5:9: DPONE_MANIFEST_"):
            make(manifest=file)


def test_a_fragment_is_no_dag(tmp_path: Path) -> None:
    file = tmp_path / "part.dpone.yaml"
    file.write_text("kind: dpone.flow-fragment.v1\nprocesses: []\n", encoding="utf-8")
    with pytest.raises(ManifestError, match="a fragment has no DAG of its own"):
        DponeDag(manifest=file)


@pytest.mark.parametrize("name", ["manifest", "process", "task_id", "connections", "dag", "source"])
def test_what_the_manifest_says_cannot_be_said_again(file: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"operator_args cannot set {name}"):
        DponeDag(manifest=file, operator_args={name: "x"})


@pytest.mark.contract("F7")
def test_a_group_has_the_same_task_ids_and_stands_in_an_order(file: Path) -> None:
    with DAG("outer", schedule=None, default_args={"queue": "outer"}) as dag:
        group = DponeTaskGroup(manifest=file)
        group >> BaseOperator(task_id="after")
    assert group.group_id == "orders_loads"
    assert set(dag.task_dict) == {"erp_orders", "totals", "after"}
    assert dag.get_task("after").upstream_task_ids == {"totals"}
    totals = dag.get_task("totals")
    assert (totals.owner, totals.retries, totals.queue) == ("x", 2, "outer")


@pytest.mark.contract("F7")
def test_two_groups_of_one_manifest_stand_in_one_dag_when_their_ids_are_prefixed(file: Path) -> None:
    with DAG("outer", schedule=None) as dag:
        for name, reference in (("test", "wh_test"), ("live", "wh_live")):
            DponeTaskGroup(name, manifest=file, prefix_group_id=True, connection_config={"warehouse": reference})
    assert set(dag.task_dict) == {f"{group}.{name}" for group in ("test", "live") for name in ("erp_orders", "totals")}
    assert dag.get_task("live.totals").process == "totals"


@pytest.mark.contract("F7", "I3")
def test_a_manifest_is_found_from_the_dag_file_wherever_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a DAG that nothing holds is found by the bag."""
    manifest(tmp_path / "here" / "loads" / "orders.dpone.yaml")
    monkeypatch.chdir("/")
    text = "# airflow\nfrom dpone_provider.api import DponeDag\nDponeDag(manifest='loads/orders.dpone.yaml')\n"
    bag = bag_of(tmp_path / "here" / "dags.py", text)
    assert bag.import_errors == {}
    task = bag.dags["orders"].get_task("totals")
    assert task.manifest == "loads/orders.dpone.yaml"
    assert task._spec().process == "totals"


@pytest.mark.contract("F7")
def test_a_function_of_another_folder_that_makes_the_dag_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its relative paths are its own; the task finds the manifest all the same."""
    manifest(tmp_path / "lib" / "orders.dpone.yaml")
    helper = "from dpone_provider.api import DponeDag\ndef make():\n    return DponeDag(manifest='orders.dpone.yaml')\n"
    (tmp_path / "lib" / "made_elsewhere.py").write_text(helper, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    bag = bag_of(tmp_path / "dags.py", "# airflow dag\nimport made_elsewhere\nmade_elsewhere.make()\n")
    assert bag.import_errors == {}
    assert bag.dags["orders"].get_task("totals")._spec().process == "totals"


def serialized(dag: Any) -> Any:
    from tests.airflow.release import DagSerialization

    return json.loads(json.dumps(DagSerialization.to_dict(dag)))


@pytest.mark.contract("F1")
def test_a_serialized_dag_holds_what_was_declared_and_nothing_of_this_machine(tmp_path: Path) -> None:
    texts = set()
    for folder, path in (("one", "'orders.dpone.yaml'"), ("two", "Path(__file__).with_name('orders.dpone.yaml')")):
        manifest(tmp_path / folder / "orders.dpone.yaml")
        text = (
            f"# airflow\nfrom pathlib import Path\nfrom dpone_provider.api import DponeDag\nDponeDag(manifest={path})\n"
        )
        tasks = serialized(bag_of(tmp_path / folder / "dags.py", text).dags["orders"])["dag"]["tasks"]
        texts.add(json.dumps(tasks, sort_keys=True))
    assert len(texts) == 1
    text = texts.pop()
    assert "0x" not in text
    assert str(tmp_path) not in text


def test_the_advice_is_in_no_digest(tmp_path: Path) -> None:
    from dpone_provider.manifest.digest import admission_digest
    from dpone_provider.manifest.read import check_file

    with_advice = check_file(manifest(tmp_path / "a.yaml", ADVICE)).processes
    without = check_file(manifest(tmp_path / "b.yaml", "", BODY.replace("retries: 5, ", ""))).processes
    assert list(map(admission_digest, with_advice)) == list(map(admission_digest, without))


@pytest.mark.contract("F7", "M15")
def test_the_examples_of_a_folder_and_of_dags_by_hand_load(examples: Examples) -> None:
    both = {"demo_airlines": "success", "demo_airline_letters": "success"}
    by_hand = "by_hand.py"
    found = examples.run(("folder.py", "airlines"), (by_hand, "airlines_by_hand"), (by_hand, "airlines_and_more"))
    assert found == {
        "airlines": both,
        "airlines_by_hand": both,
        "airlines_and_more": {**both, "publish_report": "success"},
    }
    assert (examples.count("airlines"), examples.count("airline_letters")) == (8, 7)
