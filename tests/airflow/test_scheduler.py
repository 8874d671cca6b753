"""Loads in a running Airflow: killed, timed out, marked, cleared, backfilled, doubled, edited (F3, F4, F7; P7, A8).

Every scene is a DAG that a real scheduler runs and people command through REST; docs/airflow.md tells what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from dpone_provider.sandbox.command import connection_json
from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.deployment import Scene, deployed, until
from tests.airflow.release import AIRFLOW_3, lacks
from tests.airflow.stack2 import AirflowStack2
from tests.airflow.told import check, row_of
from tests.reader.children import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("scheduler")]

GONE_WITHIN = 6.0
FIVE, SEVEN = [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7]
ONE_GATE = {"quality": {"gates": [{"id": "some", "type": "min_rows", "threshold": 1}]}}
SCENES: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("plain", "gate", "reader", "cleared", "whole")},
    **{name: {"load": ONE_GATE} for name in ("lost", "other")},
    **{f"marked_{where}": {"retries": 0} for where in ("insert", "cas", "observe")},
    **{f"timed_{where}": {"timeout": 10} for where in ("insert", "cas", "observe")},
    "backfill": {"daily": True},
    "mapped": {"load": {**ONE_GATE, "sources": [{"type": "file", "format": "csv", "path": "mapped/source.csv"}]}},
    "two": {"retries": 9, "delay": 1},
    "edited": {"load": ONE_GATE, "doc": "before"},
}
Scenes = dict[str, Scene]


@pytest.fixture(scope="module")
def scenes(
    sandbox: RunningSandbox, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scenes]:
    folder = tmp_path_factory.mktemp("scheduler")
    if AIRFLOW_3:
        with deployed(sandbox, folder, SCENES) as found:
            yield found
        return
    stack = partial(AirflowStack2, postgres=request.getfixturevalue("postgres"))
    with deployed(sandbox, folder, SCENES, stack=stack) as found:
        yield found


def proven(scene: Scene, run: str = "r1", ids: list[int] = FIVE) -> None:
    """The table of the last try is live, its proof complete, nothing is left over, and Airflow knows one success."""
    summary, evidence = scene.xcom(run=run), scene.xcom("dpone_evidence", run=run)
    assert (summary["target_commit"], summary["governance"]) == ("proven", "complete")
    assert (scene.bench.live(), scene.bench.ids(), scene.bench.private()) == (summary["generation"], ids, [])
    assert (scene.bench.record().phase, scene.bench.record().owner) == ("COMPLETE", "")
    assert evidence["governance"] == "complete"


@pytest.mark.contract("F3", "F4")
def test_a_load_succeeds_and_then_its_asset_event_is_there(scenes: Scenes) -> None:
    scene = scenes["plain"]
    scene.write()
    scene.start()
    assert (scene.ended(), scene.tries(), scene.after(), len(scene.events())) == ("success", ["success"], "success", 1)
    proven(scene)
    check(row_of("nothing goes wrong", scene, scene.tries()))


@pytest.mark.contract("F4", "P8")
def test_a_gate_that_fails_ends_the_run_before_anything_sees_a_success(scenes: Scenes) -> None:
    """Then the source is corrected and the failed task cleared: only a proven commit is final (field report B28)."""
    scene = scenes["gate"]
    scene.write(rows=0)
    scene.start()
    assert (scene.ended(), scene.tries(), scene.after(), scene.events()) == (
        "failed",
        ["failed"],
        "upstream_failed",
        [],
    )
    assert (scene.bench.live(), scene.bench.private()) == (None, [])
    check(row_of("a gate fails", scene, scene.tries()))
    scene.write()
    scene.clear()
    until(lambda: scene.tries() == ["failed", "success"] and scene.state() == "success")
    proven(scene)
    check(row_of("… the source is corrected and the task cleared", scene, scene.tries()))


@pytest.mark.contract("F3", "P7", "I3")
def test_a_retry_finishes_what_a_killed_worker_committed(scenes: Scenes) -> None:
    """The worker is gone by SIGKILL, and so is the source."""
    scene = scenes["lost"]
    scene.write()
    held = scene.hold("complete")
    scene.start()
    until(held.fired.is_set)
    (scene.bench.folder / "source.csv").unlink()
    scene.runner().kill()
    assert scene.ended() == "success"
    held.release()
    proven(scene)
    assert (scene.xcom()["replayed"], scene.xcom()["extracted_rows"], scene.xcom()["inserted_rows"]) == (True, 0, 0)
    check(row_of("the worker is killed between commit and completion", scene, scene.tries()))


@pytest.mark.contract("F3", "F4", "P7", "R12")
def test_a_retry_finishes_what_a_worker_killed_while_it_observed_left_open(scenes: Scenes) -> None:
    scene = scenes["reader"]
    scene.write()
    held = scene.hold("observe")
    scene.start()
    until(held.fired.is_set)
    child = scene.child()
    (scene.bench.folder / "source.csv").unlink()
    scene.runner().kill()
    wait_for(lambda: not child.is_running(), GONE_WITHIN)
    held.release()
    assert scene.ended() == "success"
    proven(scene)
    check(row_of("the worker is killed while it observes the live table", scene, scene.tries()))


WHERE = {
    "insert": ("while it inserts", ("CLAIMED", "REJECTED"), 2),
    "cas": ("while it takes the permit to publish", ("PREPARED", "DISPATCHING"), 1),
    "observe": ("while it observes the live table", ("COMMITTED",), 1),
}


@pytest.mark.contract("F4", "G7")
@pytest.mark.parametrize("where", WHERE)
def test_a_task_marked_failed_changes_nothing_more_and_clearing_it_finishes(scenes: Scenes, where: str) -> None:
    """SIGTERM, ``on_kill``, five seconds, SIGKILL; the statement that was under way arrives afterwards."""
    scene, (when, phases, inserts) = scenes[f"marked_{where}"], WHERE[where]
    scene.write()
    held = scene.hold(where)
    scene.start()
    until(held.fired.is_set)
    runner = scene.runner()
    scene.fail()
    assert scene.ended() == "failed"
    wait_for(lambda: not runner.is_running(), 30)
    held.release()
    assert (scene.after(), scene.events(), scene.bench.record().phase in phases) == ("upstream_failed", [], True)
    assert (scene.bench.live() is None) is (where != "observe")
    scene.clear()
    until(lambda: scene.tries() == ["failed", "success"] and scene.state() == "success")
    proven(scene)
    assert (scene.inserts, scene.publications, len(scene.events())) == (inserts, 1, 1)
    check(row_of(f"the task is marked failed {when}, later cleared", scene, scene.tries()))


@pytest.mark.contract("F4", "G7")
@pytest.mark.parametrize("where", WHERE)
def test_execution_timeout_ends_a_try_and_the_retry_finishes(scenes: Scenes, where: str) -> None:
    scene, (when, _, inserts) = scenes[f"timed_{where}"], WHERE[where]
    scene.write()
    held = scene.hold(where)
    scene.start()
    until(held.fired.is_set)
    until(lambda: len(scene.tries()) > 1)
    held.release()
    assert (scene.ended(), scene.tries()) == ("success", ["failed", "success"])
    proven(scene)
    assert (scene.inserts, scene.publications, len(scene.events())) == (inserts, 1, 1)
    check(row_of(f"execution_timeout strikes {when}", scene, scene.tries()))


@pytest.mark.contract("F3")
def test_clearing_a_succeeded_task_replays_its_receipt(scenes: Scenes) -> None:
    """Field report B27: nothing of the first run is needed any more."""
    scene = scenes["cleared"]
    scene.write()
    scene.start()
    assert scene.ended() == "success"
    first = scene.xcom()
    (scene.bench.folder / "source.csv").unlink()
    scene.clear()
    until(lambda: scene.tries() == ["success", "success"] and scene.state() == "success")
    proven(scene)
    assert (first["replayed"], scene.xcom()["replayed"], scene.xcom()["generation"]) == (
        False,
        True,
        first["generation"],
    )
    check(row_of("the succeeded task is cleared, its source gone", scene, scene.tries()))


@pytest.mark.contract("F3")
def test_clearing_the_whole_run_repeats_nothing(scenes: Scenes) -> None:
    scene = scenes["whole"]
    scene.write()
    scene.start()
    assert scene.ended() == "success"
    (scene.bench.folder / "source.csv").unlink()
    scene.clear_run()
    until(lambda: scene.tries() == ["success", "success"] and scene.state() == "success")
    proven(scene)
    check(row_of("the whole run is cleared, its source gone", scene, scene.tries()))


@lacks("backfill that a scheduler runs")
@pytest.mark.contract("F3", "I1")
def test_a_backfill_that_is_run_again_is_the_same_operation(scenes: Scenes) -> None:
    scene = scenes["backfill"]
    scene.write()
    until(lambda: scene.airflow.ask("GET", f"/api/v2/dags/{scene.name}")["timetable_summary"])
    scene.backfill("none")
    run = until(scene.runs)[0]["dag_run_id"]
    assert scene.ended(run) == "success"
    (scene.bench.folder / "source.csv").unlink()
    scene.backfill("completed")
    until(lambda: scene.tries(run) == ["success", "success"] and scene.state(run) == "success")
    proven(scene, run)
    check(row_of("a backfill is run again, its source gone", scene, scene.tries(run)))


@pytest.mark.contract("F7", "P7", "I6")
def test_a_mapped_item_whose_worker_is_killed_is_finished_by_its_own_retry(scenes: Scenes) -> None:
    scene = scenes["mapped"]
    scene.write()
    held = scene.hold("complete")
    scene.start()
    until(held.fired.is_set)
    scene.runner().kill()
    assert scene.ended() == "success"
    held.release()
    assert scene.xcom(index=0)["replayed"] is True
    check(row_of("the worker of a mapped item is killed after the commit", scene, scene.tries(index=0)))


@pytest.mark.contract("A8", "F3")
def test_of_two_runs_for_one_table_at_once_each_publishes_once(scenes: Scenes) -> None:
    """The second waits in its retries until the first has ended."""
    scene = scenes["two"]
    scene.write()
    held = scene.hold("insert")
    scene.start()
    until(held.fired.is_set)
    scene.start("r2")
    until(lambda: "up_for_retry" in scene.tries("r2") or len(scene.tries("r2")) > 1)
    scene.write(rows=7)
    held.release()
    assert (scene.ended("r1"), scene.ended("r2")) == ("success", "success")
    assert (scene.tries("r1"), scene.tries("r2")[-1]) == (["success"], "success")
    proven(scene, "r2", ids=SEVEN)
    assert (scene.xcom(run="r1")["replayed"], scene.publications) == (False, 2)
    check(row_of("two runs load one table at once", scene, [*scene.tries("r1"), "busy …", scene.tries("r2")[-1]]))


@pytest.mark.contract("I3", "F3", "P7")
def test_a_dag_edited_between_tries_finishes_what_it_began_while_it_means_the_same(scenes: Scenes) -> None:
    scene = scenes["edited"]
    scene.write()
    held = scene.hold("complete")
    scene.start()
    until(held.fired.is_set)
    scene.direct(load=ONE_GATE, doc="after", retries=2)
    scene.runner().kill()
    assert scene.ended() == "success"
    held.release()
    proven(scene)
    check(row_of("the worker is killed after the commit and the DAG's text edited", scene, scene.tries()))


@pytest.mark.contract("I4", "F4")
def test_a_load_that_means_something_else_by_its_retry_is_stopped_and_told_so(scenes: Scenes) -> None:
    scene = scenes["other"]
    scene.write()
    held = scene.hold("complete")
    scene.start()
    until(held.fired.is_set)
    scene.direct(load={"quality": {"gates": [{"id": "some", "type": "min_rows", "threshold": 2}]}})
    live = scene.bench.live()
    scene.runner().kill()
    assert scene.ended() == "failed"
    held.release()
    evidence = scene.xcom("dpone_evidence")
    assert evidence["error"]["code"] == "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"
    assert evidence["error"]["retryable"] is False
    assert (scene.bench.live(), scene.publications, scene.events()) == (live, 1, [])
    check(row_of("the worker is killed after the commit and the load edited", scene, scene.tries()))


@pytest.mark.contract("F6", "F2")
def test_the_test_button_of_the_connection_form_signs_in_and_tells_no_secret(scenes: Scenes) -> None:
    scene = scenes["plain"]
    good = {**json.loads(connection_json(scene.bench.sandbox)), "connection_id": "tried"}
    good["extra"] = json.dumps(good["extra"])
    passed = scene.airflow.ask("POST", "/api/v2/connections/test", good)
    refused = scene.airflow.ask("POST", "/api/v2/connections/test", {**good, "password": "p@ss'w/rd"})
    assert (passed["status"], refused["status"]) == (True, False)
    assert "DPONE_SERVER_AUTHENTICATION" in refused["message"]
    assert "p@ss" not in refused["message"]


@pytest.mark.contract("F2")
def test_no_file_of_airflow_holds_the_servers_password(scenes: Scenes) -> None:
    """Field report B19: logs, XCom and rendered fields of everything that ran in this Airflow."""
    secret = scenes["plain"].bench.sandbox.password.encode()
    files = [path for path in scenes["plain"].airflow.home.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path.name for path in files if secret in path.read_bytes()] == []
