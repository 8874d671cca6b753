"""Parsing a DAG file costs nothing and touches nothing (F1, F6; field report B20)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.home import ROOT, Home

TRAPS = """
import json, sys, time
touched = []
def trap(event, args):
    if event in ("socket.connect", "subprocess.Popen", "os.system", "os.fork", "sqlite3.connect"):
        touched.append(event)
    heavy = ("pyarrow", "clickhouse_driver", "clickhouse_connect", "ruamel", "rich")
    if event == "import" and args[0].split(".")[0] in heavy:
        touched.append("import " + args[0])
import datetime
from airflow.providers.common.compat.sdk import DAG
from airflow.providers.common.compat.sdk import BaseHook
from airflow.models.connection import Connection
BaseHook.get_connection = classmethod(lambda cls, ref: touched.append("connection " + ref))
Connection.get_connection_from_secrets = classmethod(lambda cls, ref: touched.append("connection " + ref))
from airflow.providers.common.compat.sdk import BaseOperator
from tests.airflow.release import DagSerialization
with DAG("plain", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    BaseOperator(task_id="what_airflow_itself_does_once")
DagSerialization.from_dict(DagSerialization.to_dict(dag))
sys.addaudithook(trap)
from dpone_provider.operators.load import DponeLoadOperator
started = time.perf_counter()
with DAG("many", start_date=datetime.datetime(2026, 1, 1), schedule=None) as dag:
    for number in range(200):
        DponeLoadOperator(
            process=f"load_{number}",
            source={"type": "clickhouse", "connection_ref": "from_here", "query": "SELECT 1"},
            sink={"type": "clickhouse", "connection_ref": "there", "table": {"schema": "d", "name": "t{{ ds }}"}},
        )
    DponeLoadOperator(manifest="a/b.yaml", process="c", reprocess="{{ params.again }}", retries=3)
seconds = time.perf_counter() - started
"""


@pytest.mark.contract("F1", "F8")
def test_two_hundred_operators_parse_without_touching_anything(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run("out({'touched': touched, 'seconds': seconds})", folder=tmp_path, prelude=TRAPS)
    assert found["touched"] == []
    assert found["seconds"] < 1


@pytest.mark.contract("F1")
def test_a_serialized_dag_is_declarative_and_round_trips_byte_for_byte(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run(
        """
        from tests.airflow.release import OperatorSerialization
        first = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        back = DagSerialization.from_dict(json.loads(json.dumps(first)))
        before = {task["__var"]["task_id"]: task["__var"] for task in first["dag"]["tasks"]}
        changed = []
        for name, task in back.task_dict.items():  # of keys of its own, Airflow adds and drops some
            after = json.loads(json.dumps(OperatorSerialization.serialize_operator(task)))
            ours = {*DponeLoadOperator.template_fields, "task_id", "task_type", "_task_module", "retries"}
            kept = [(key, value) for key, value in before[name].items() if key in ours]
            changed += [[name, key, value, after.get(key)] for key, value in kept if after.get(key) != value]
        out({"changed": changed, "text": json.dumps(first), "touched": touched})
        """,
        folder=tmp_path,
        prelude=TRAPS,
    )
    assert found["changed"] == []
    assert found["touched"] == []
    assert "0x" not in found["text"]
    assert "{{ params.again }}" in found["text"]


def test_importing_the_package_imports_nothing_else() -> None:
    script = (
        "import sys; before = set(sys.modules); "
        "import dpone_provider, dpone_provider.provider_info, dpone_provider.api; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before} - {'dpone_provider'}; "
        "assert not new & {'airflow', 'pyarrow', 'attrs', 'clickhouse_driver', 'clickhouse_connect', 'ruamel'}, new"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


ALIASES = {"StagedQualityGateReceipt": "QualityGateReceipt"}


def test_every_public_name_is_there() -> None:
    from dpone_provider import api

    for name in api.__all__:
        assert getattr(api, name).__name__ == ALIASES.get(name, name)


@pytest.mark.contract("F6")
def test_the_provider_description_is_what_airflow_demands() -> None:
    import jsonschema
    from airflow.providers_manager import __file__ as manager

    from dpone_provider.provider_info import get_provider_info

    schema = json.loads((Path(manager).parent / "provider_info.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.contract("F6")
def test_airflow_finds_the_provider_its_connection_type_and_its_configuration(airflow_home: Home) -> None:
    assert "airflow-provider-dpone" in airflow_home.command("providers", "get", "airflow-provider-dpone")
    assert "dpone_clickhouse" in airflow_home.command("providers", "hooks")
    assert airflow_home.command("config", "get-value", "dpone", "namespace").strip().endswith("default")


@pytest.mark.contract("F6")
def test_the_form_names_the_fields_that_an_endpoint_reads(airflow_home: Home, tmp_path: Path) -> None:
    found, _ = airflow_home.run(
        """
        import json
        from airflow.providers_manager import ProvidersManager
        manager = ProvidersManager()
        behaviour = manager.field_behaviours["dpone_clickhouse"]
        widgets = [name for name in manager.connection_form_widgets if "dpone_clickhouse" in name]
        out({"behaviour": {key: behaviour[key] for key in behaviour}, "widgets": sorted(widgets)})
        """,
        folder=tmp_path,
        prelude="",
    )
    fields = {name.rsplit("__", 1)[-1] for name in found["widgets"]}
    assert fields == {"http_port", "secure", "verify", "ca", "replica_addresses", "authority_database"}
    assert found["behaviour"]["relabeling"]["port"] == "Native port"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"process": "p"},
        {"process": "p", "source": {}},
        {"process": "p", "manifest": "m.yaml", "sink": {}},
        {"manifest": "m.yaml"},
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_when_the_dag_is_parsed(arguments: dict[str, object]) -> None:
    from dpone_provider.operators.load import DponeLoadOperator

    with pytest.raises(ValueError, match=r"DponeLoadOperator needs|either|already"):
        DponeLoadOperator(**arguments)  # type: ignore[arg-type]
