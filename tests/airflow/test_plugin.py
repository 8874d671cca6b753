"""The plugin and the link in Airflow itself: what they import, that they are found, that the real REST API is asked."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.airflow.home import Home
from tests.airflow.release import lacks
from tests.page import documents

BARE = "import json, os, sys, datetime"
WEB = ("fastapi", "starlette", "jinja2", "cattrs", "clickhouse_driver", "clickhouse_connect", "pyarrow")


@pytest.mark.contract("F1", "F6")
def test_a_component_that_loads_the_plugin_imports_no_web_framework_for_it(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run(
        f"""
        import airflow.providers.common.compat.sdk as sdk
        sdk.AirflowPlugin, sdk.BaseOperatorLink
        before = set(sys.modules)
        from dpone_provider.plugin import DponePlugin
        new = {{name.split(".")[0] for name in set(sys.modules) - before}}
        out(sorted(new & set({WEB})))
        """,
        folder=tmp_path,
        prelude=BARE,
    )
    assert found == []


@pytest.mark.contract("F6")
def test_airflow_loads_the_plugin_without_an_error_and_knows_the_link(airflow_home: Home, tmp_path: Path) -> None:
    """In 2.11, which has no place for its pages, the plugin adds nothing."""
    found = airflow_home.command("plugins", "--output", "json")
    (ours,) = (plugin for plugin in json.loads(found) if plugin["name"] == "dpone")
    assert not [key for key in ("flask_blueprints", "appbuilder_views", "appbuilder_menu_items") if ours.get(key)]
    links, said = airflow_home.run(
        """
        from airflow import plugins_manager
        from airflow.providers_manager import ProvidersManager
        plugins_manager.ensure_plugins_loaded()
        out([link for link in ProvidersManager().extra_links_class_names if link.startswith("dpone")])
        """,
        folder=tmp_path,
        prelude=BARE,
    )
    assert links == ["dpone_provider.links.OperationLink"]
    assert "Failed to import plugin" not in said


@lacks("external views")
@pytest.mark.contract("F6")
def test_airflow_finds_the_views_of_the_plugin(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run(
        """
        from airflow import plugins_manager
        views, _ = plugins_manager._get_ui_plugins()
        apps, _ = plugins_manager.get_fastapi_plugins()
        out({
            "views": [[view["destination"], view["href"]] for view in views if view["href"].startswith("dpone")],
            "apps": [app["url_prefix"] for app in apps if app["name"] == "dpone"],
        })
        """,
        folder=tmp_path,
        prelude=BARE,
    )
    assert found["apps"] == ["/dpone"]
    assert found["views"] == [
        ["task_instance", "dpone/loads/{DAG_ID}/{RUN_ID}/{TASK_ID}/{MAP_INDEX}"],
        ["dag_run", "dpone/loads/{DAG_ID}/{RUN_ID}"],
        ["nav", "dpone/loads"],
    ]


@lacks("reason to refuse the demo", airflow=3)
def test_the_demo_says_that_it_needs_airflow_3(tmp_path: Path) -> None:
    from dpone_provider.errors import DponeError
    from dpone_provider.sandbox.demo.story import prepare

    with pytest.raises(DponeError, match="needs Airflow 3"):
        prepare(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


@pytest.mark.contract("F6")
@pytest.mark.parametrize(
    ("version", "index", "address"),
    [
        ((3, 3), -1, "dags/d/runs/manual__1%2B00%3A00/tasks/g.t/plugin/dpone_load"),
        ((3, 1), 2, "dags/d/runs/manual__1%2B00%3A00/tasks/g.t/mapped/2/plugin/dpone_load"),
        ((3, 0), None, "dags/d/runs/manual__1%2B00%3A00/tasks/g.t/xcom"),
        ((2, 11), 2, "../d/grid?dag_run_id=manual__1%2B00%3A00&task_id=g.t&tab=xcom&map_index=2"),
    ],
)
def test_the_link_opens_what_its_airflow_has(version: tuple[int, ...], index: int | None, address: str) -> None:
    from dpone_provider import links

    assert links.address("d", "manual__1+00:00", "g.t", index, version) == address


REAL = """
from airflow.providers.common.compat.sdk import task

with DAG("screen", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    @task
    def orders(ti=None):
        document = json.loads(os.environ["DOCUMENT"])
        document["operation"] |= {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        ti.xcom_push("dpone_evidence", document)
    orders()
run, states = run_dag(dag)

from urllib.parse import quote
from starlette.testclient import TestClient
from airflow.api_fastapi.app import create_app
with TestClient(create_app(apps="core")) as web:
    with open(os.path.join(os.environ["AIRFLOW_HOME"], "simple_auth_manager_passwords.json.generated")) as file:
        password = json.load(file)["somebody"]
    token = web.post("/auth/token", json={"username": "somebody", "password": password}).json()["access_token"]
    web.cookies.clear()
    mine = {"headers": {"cookie": f"_token={token}"}}
    place = f"/dpone/loads/screen/{run.run_id}"
    answers = {
        "load": web.get(f"{place}/orders/{{MAP_INDEX}}", **mine),
        "encoded": web.get(f"/dpone/loads/screen/{quote(run.run_id, safe='')}/orders/-1", **mine),
        "run": web.get(place, **mine),
        "all": web.get("/dpone/loads", **mine),
        "forged": web.get(f"{place}/orders/-1", headers={"cookie": "_token=" + token[:-4] + "AAAA"}),
        "nobody": web.get(f"{place}/orders/-1"),
        "gone": web.get(f"{place}/customers/-1", **mine),
    }
    out({name: [answer.status_code, answer.text] for name, answer in answers.items()})
"""


@lacks("REST API that a plugin's pages could ask")
@pytest.mark.slow
@pytest.mark.contract("F4")
def test_the_real_rest_api_is_asked_as_the_caller(airflow_home: Home, tmp_path: Path) -> None:
    document = json.dumps(documents.failed().payload())
    found, _ = airflow_home.run(
        REAL,
        folder=tmp_path,
        DOCUMENT=document,
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS="somebody:viewer",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="False",
    )
    assert {name: answer[0] for name, answer in found.items()} == {
        "load": 200, "encoded": 200, "run": 200, "all": 200, "forged": 403, "nobody": 401, "gone": 404,
    }  # fmt: skip
    for name in ("load", "encoded"):
        assert "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH" in found[name][1]
        assert "by hand" not in found[name][1].replace("set the state by hand", "")
    for name in ("run", "all"):
        assert "shop.orders" in found[name][1]
    for name in ("forged", "nobody", "gone"):
        assert "shop.orders" not in found[name][1]


WEB_SERVER = """
from airflow.models.serialized_dag import SerializedDagModel

with DAG("linked", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    DponeLoadOperator(task_id="plain", manifest="nowhere.yaml", retries=0)
    DponeLoadOperator.partial(task_id="mapped", manifest="nowhere.yaml", retries=0).expand(process=["a", "b"])
SerializedDagModel.write_dag(dag)
run, states = run_dag(dag)

from urllib.parse import urljoin
from airflow.www.app import create_app
app = create_app(testing=True)
app.config["WTF_CSRF_ENABLED"] = False
asked = {"dag_id": "linked", "execution_date": run.execution_date.isoformat(), "link_name": "Load proof"}
with app.app_context(), app.test_client() as web:
    people = app.appbuilder.sm
    people.add_user("somebody", "some", "body", "some@body", people.find_role("Viewer"), password="opens")
    web.post("/login/", data={"username": "somebody", "password": "opens"})
    found = {}
    for task_id, index in (("plain", -1), ("mapped", 1)):
        link = web.get("/extra_links", query_string=asked | {"task_id": task_id, "map_index": index}).json
        page = urljoin("/dags/linked/grid", link["url"])  # as a browser does, on the page that shows the link
        found[task_id] = [page, web.get(page).status_code]
    out({"found": found, "run_id": run.run_id})
"""


@lacks("web server of its own that asks a link", airflow=3)
@pytest.mark.contract("F6")
def test_the_web_server_gives_a_link_that_opens_the_xcoms_of_the_task(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run(WEB_SERVER, folder=tmp_path)
    place = f"/dags/linked/grid?dag_run_id={quote(found['run_id'])}"
    assert found["found"] == {
        "plain": [f"{place}&task_id=plain&tab=xcom", 200],
        "mapped": [f"{place}&task_id=mapped&tab=xcom&map_index=1", 200],
    }
