"""What a proven load tells others: asset events, OpenLineage; and a log that folds by phase."""

from __future__ import annotations

import json
import re

import pytest

from dpone_provider.sandbox.command import connection_json
from tests.airflow.release import OWN_LINE
from tests.airflow.watched import FAILED, SUCCEEDED, Watched

# As the listener of Airflow's OpenLineage provider asks, right after the task.
FACETS = """
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from openlineage.client.serde import Serde

class Lined(Told):
    def execute(self, context):
        try:
            return super().execute(context)
        finally:
            found = DefaultExtractor(self).extract_on_complete(context["ti"])
            with open("lineage.json", "w") as file:
                file.write(Serde.to_json(found) if found else "null")

give_up_lost_tries()
run, states = run_dag(make(Lined))
out({task: state for (task, _), (state, _) in states.items()})
"""


@pytest.mark.contract("F4")
def test_an_asset_event_names_the_operation_the_generation_and_a_digest_of_the_evidence(watched: Watched) -> None:
    assert watched.run() == SUCCEEDED
    summary, (extra,) = watched.xcom("return_value"), watched.event_extras()
    told = extra["dpone"]
    assert (told["operation_id"], told["generation"]) == (summary["operation_id"], summary["generation"])
    assert (told["rows"], told["replayed"], len(told["evidence_digest"])) == (5, False, 71)


@pytest.mark.contract("F4", "F2")
def test_openlineage_is_told_what_was_read_counted_checked_and_written(watched: Watched) -> None:
    assert watched.run(FACETS) == SUCCEEDED
    told = json.loads((watched.bench.folder / "lineage.json").read_text())
    (source,), (output,) = told["inputs"], told["outputs"]
    assert (source["namespace"], source["name"]) == ("file", str(watched.bench.folder / "source.csv"))
    counted = source["inputFacets"]["dataQualityMetrics"]
    ids = counted["columnMetrics"]["id"]
    assert (counted["rowCount"], ids["nullCount"], ids["distinctCount"]) == (5, 0, 5)
    (gate,) = source["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (gate["name"], gate["assertion"], gate["success"], gate["severity"]) == ("some", "min_rows", True, "error")
    port = json.loads(connection_json(watched.bench.sandbox))["host"], watched.native.port
    assert output["namespace"] == "clickhouse://{}:{}".format(*port)
    assert output["name"] == f"{watched.bench.database}.t"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 5


@pytest.mark.contract("F4")
def test_openlineage_is_told_nothing_of_a_load_that_failed(watched: Watched) -> None:
    load = watched.load(gates=[{"id": "many", "type": "min_rows", "threshold": 99}])
    assert watched.run(FACETS, load=load) == FAILED
    assert (watched.bench.folder / "lineage.json").read_text() == "null"


@pytest.mark.contract("F4")
@pytest.mark.parametrize("failing", [False, True])
def test_the_log_folds_every_phase_and_leaves_the_summary_open(watched: Watched, failing: bool) -> None:
    load = watched.load(gates=[{"id": "many", "type": "min_rows", "threshold": 99}]) if failing else None
    script = watched.start(load=load)
    assert script.answer() == (FAILED if failing else SUCCEEDED)
    lines = [line for line in script.said.splitlines() if OWN_LINE in line]
    phases = ["Admission", "Staging"] if failing else ["Admission", "Staging", "Publication", "Completion"]
    assert [match[1] for line in lines if (match := re.search(r"::group::(\w+)", line))] == phases
    ends = [number for number, line in enumerate(lines) if "::endgroup::" in line]
    summary = "DPONE_QUALITY_GATES_FAILED" if failing else "commit proven, governance complete"
    assert len(ends) == len(phases)
    assert summary in lines[ends[-1] + 1]
