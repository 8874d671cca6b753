"""Airflow's own UI in a real browser: the grid, the connection form, the tab of a load in each state, the link."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.deployment import Scene, deployed, until
from tests.airflow.release import lacks
from tests.reader.children import wait_for
from tests.web.browser import LOOKS, Browser, Look, chromium, keep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("scheduler"),
    lacks("page of ours in its UI"),
]

SCENES: dict[str, dict[str, Any]] = {"orders": {}, "refunds": {"retries": 0}, "payments": {"retries": 0}}
Scenes = dict[str, Scene]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def scenes(browser: Browser, sandbox: RunningSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    """Orders are loaded, refunds are committed and not observed, payments failed a gate."""
    with deployed(sandbox, tmp_path_factory.mktemp("ui"), SCENES, "shop") as found:
        found["orders"].write()
        found["orders"].start()
        found["payments"].write(rows=0)
        found["payments"].start()
        refunds = found["refunds"]
        refunds.write()
        held = refunds.hold("observe")
        refunds.start()
        until(held.fired.is_set)
        runner = refunds.runner()
        os.kill(runner.pid, signal.SIGKILL)
        wait_for(lambda: not runner.is_running(), 10)
        held.release()
        assert [scene.ended() for scene in found.values()] == ["success", "failed", "failed"]
        yield found


def at(page: Any, scene: Scene, place: str) -> None:
    """Go to a place of the UI; everybody is signed in there."""
    page.goto(f"{scene.airflow.url}{place}")
    page.wait_for_load_state("networkidle")


def tab(page: Any, scene: Scene) -> Any:
    """The load's page inside the task instance's tab."""
    at(page, scene, f"/dags/{scene.name}/runs/r1/tasks/load/plugin/dpone_load")
    frame = page.frame_locator("iframe")
    frame.locator("h1").first.wait_for()
    return frame


SAYS = {
    "orders": ("proven", "complete", "Nothing to do"),
    "refunds": ("Yes, proven", "Not yet", "Clear this task"),
    "payments": ("DPONE_QUALITY_GATES_FAILED", "some", "gate"),
}


@pytest.mark.contract("F4", "F6")
@pytest.mark.parametrize("look", [Look(width=1500), Look(scheme="dark", width=1500)], ids=lambda look: look.scheme)
@pytest.mark.parametrize("name", SCENES)
def test_the_tab_of_a_load_says_what_is_true_and_what_to_do(
    browser: Browser, scenes: Scenes, name: str, look: Look
) -> None:
    scene = scenes[name]
    with browser.page(look) as page:
        frame = tab(page, scene)
        said = frame.locator("body").inner_text()
        keep(page, f"airflow-tab-{name}-{look.scheme}")
        print(said)
        assert f"{scene.bench.database}.{scene.name}" in said
        assert [word for word in SAYS[name] if word.lower() not in said.lower()] == []


@pytest.mark.contract("F4")
def test_the_extra_link_of_the_task_opens_the_tab(browser: Browser, scenes: Scenes) -> None:
    scene = scenes["orders"]
    links = scene.airflow.ask("GET", "/api/v2/dags/orders/dagRuns/r1/taskInstances/load/links")["extra_links"]
    with browser.page(LOOKS[0]) as page:
        at(page, scene, "/" + links["Load proof"])
        page.frame_locator("iframe").locator("h1").first.wait_for()
        assert "plugin/dpone_load" in page.url


@pytest.mark.contract("F4")
def test_the_list_of_all_loads_begins_with_the_worst(browser: Browser, scenes: Scenes) -> None:
    with browser.page(Look(width=1500)) as page:
        at(page, scenes["orders"], "/plugin/dpone_loads")
        frame = page.frame_locator("iframe")
        frame.locator("h1").first.wait_for()
        keep(page, "airflow-loads")
        said = frame.locator("body").inner_text()
        places = [said.index(scenes[name].bench.database + "." + name) for name in ("refunds", "payments", "orders")]
        assert places[2] == max(places)


@pytest.mark.contract("F6")
def test_the_connection_form_has_the_fields_of_a_clickhouse_server(browser: Browser, scenes: Scenes) -> None:
    with browser.page(Look(width=1500)) as page:
        at(page, scenes["orders"], "/connections")
        page.get_by_role("button", name="Add Connection").click()
        page.get_by_role("dialog").get_by_role("combobox").first.click()
        page.keyboard.type("dpone_clickhouse")
        page.keyboard.press("Enter")
        page.get_by_text("Native port").first.wait_for()
        keep(page, "airflow-connection-form")
        assert page.get_by_text("Native port").count() >= 1


def test_the_grid_shows_the_runs_without_a_complaint_of_the_console(browser: Browser, scenes: Scenes) -> None:
    with browser.page(Look(width=1500)) as page:
        at(page, scenes["orders"], "/dags/orders")
        page.get_by_text("load", exact=True).first.wait_for()
        keep(page, "airflow-grid")
