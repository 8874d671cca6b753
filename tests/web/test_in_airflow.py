"""The screen inside a running Airflow, below a base URL: tab, lists, link, dark mode. The docs show its pictures.

Its tasks record what real loads record (tests/airflow/test_evidence.py holds that they do), one in every state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dpone_provider.sandbox.demo.stack import AirflowStack
from tests.airflow.home import ROOT
from tests.web.browser import Browser, Look, chromium, keep

pytestmark = pytest.mark.slow
DAG, RUN = "warehouse_nightly", "nightly 2026-11-29+04:00".replace(" ", "__")
DAGS = f'''
"""A DAG of Airflow whose tasks are loads in every state."""
import datetime, json, sys
sys.path.insert(0, {str(ROOT)!r})
from airflow.sdk import DAG
from dpone_provider.api import DponeLoadOperator
from tests.page.documents import DOCUMENTS

class Recorded(DponeLoadOperator):
    """Leaves a document, and ends as its load did."""

    def __init__(self, *, state, **options):
        super().__init__(source={{}}, sink={{}}, **options)
        self.state = state

    def execute(self, context):
        self._link(context["ti"])
        document = json.loads(json.dumps(DOCUMENTS[self.state].payload()))
        names = {{"dag_id": self.dag_id, "run_id": context["ti"].run_id, "task_id": self.task_id}}
        document |= {{"target": "shop." + self.task_id, "operation": document["operation"] | names}}
        context["ti"].xcom_push("dpone_evidence", document)
        if document["error"]:
            raise RuntimeError(document["error"]["code"])

with DAG({DAG!r}, start_date=datetime.datetime(2026, 1, 1), schedule=None, is_paused_upon_creation=False):
    tasks = {{"proven": "orders", "pending": "refunds", "failed": "payments", "refused": "sessions"}}
    for state, task_id in tasks.items():
        Recorded(state=state, task_id=task_id)
'''
WINDOW = Look(width=1440, height=1000)


class Below(AirflowStack):
    """Airflow below a base URL."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, {"AIRFLOW__API__BASE_URL": "/prefix", "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30"})
        self._environ["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"{self.url}/prefix/execution/"

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return super().ask(method, f"/prefix{path}", body)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def airflow(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    """A run of the DAG has ended in it."""
    home: Path = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags" / "warehouse.py").write_text(DAGS, encoding="utf-8")
    with Below(home) as stack:
        body = {"dag_run_id": RUN, "logical_date": None}
        until(lambda: stack.ask("POST", f"/api/v2/dags/{DAG}/dagRuns", body))
        place = f"/api/v2/dags/{DAG}/dagRuns/{quote(RUN, safe='')}"
        until(lambda: stack.ask("GET", place)["state"] == "failed")
        yield stack


def until(done: Any) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            if done():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "Airflow does not come to that"
        time.sleep(0.5)


def at(airflow: AirflowStack, place: str = "") -> str:
    run = f"dags/{DAG}/runs/{quote(RUN, safe='')}"
    return f"{airflow.url}/prefix/{run}/{place}"


def frame(page: Any) -> Any:
    """Our page in the tab, once it is there."""
    inside = page.frame_locator("iframe")
    inside.locator("h1").wait_for()
    return inside


@pytest.mark.contract("F4", "F6")
def test_the_tab_of_a_task_instance_says_what_is_true(browser: Browser, airflow: AirflowStack) -> None:
    with browser.page(WINDOW) as page:
        page.goto(at(airflow, "tasks/payments"))
        page.get_by_role("link", name="Load proof").first.click()
        inside = frame(page)
        for words in ("shop.payments", "Yes, proven", "Failed", "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH"):
            assert inside.locator("main").get_by_text(words).first.is_visible()
        keep(page, "airflow-tab-failed")


@pytest.mark.contract("F4")
def test_the_tab_is_dark_when_airflow_is(browser: Browser, airflow: AirflowStack) -> None:
    with browser.page(WINDOW) as page:
        page.goto(at(airflow, "tasks/orders/plugin/dpone_load"))
        page.evaluate("localStorage.setItem('theme', 'dark')")
        page.reload()
        inside = frame(page)
        inside.locator("xpath=//html[contains(@class, 'dark')]").wait_for()
        assert inside.get_by_text("nothing repeated").is_visible()
        ground = "element => getComputedStyle(element).backgroundColor"
        assert inside.locator("body").evaluate(ground) == page.locator("html").evaluate(ground)
        keep(page, "airflow-tab-proven-dark")


@pytest.mark.contract("F4")
def test_a_run_and_the_menu_list_loads_the_worst_first(browser: Browser, airflow: AirflowStack) -> None:
    with browser.page(WINDOW) as page:
        for place, name in (
            (at(airflow, "plugin/dpone_loads_of_run"), "airflow-run-loads"),
            (f"{airflow.url}/prefix/plugin/dpone_loads", "airflow-all-loads"),
        ):
            page.goto(place)
            inside = frame(page)
            assert inside.locator("th[scope=row]").all_inner_texts() == [
                "shop.payments", "shop.sessions", "shop.refunds", "shop.orders",
            ]  # fmt: skip
            keep(page, name)
        inside.get_by_role("link", name="shop.refunds").click()
        inside.get_by_text("A retry can finish this.").wait_for()


@pytest.mark.contract("F6")
def test_the_extra_link_of_the_operator_opens_the_tab(browser: Browser, airflow: AirflowStack) -> None:
    place = f"/api/v2/dags/{DAG}/dagRuns/{quote(RUN, safe='')}/taskInstances/refunds/links"
    link = airflow.ask("GET", place)["extra_links"]["Load proof"]
    with browser.page(WINDOW) as page:
        page.goto(f"{airflow.url}/prefix/{link}")
        assert frame(page).get_by_role("heading", name="shop.refunds").is_visible()
        keep(page, "airflow-tab-pending")


@pytest.mark.contract("F6")
def test_the_form_of_a_connection_has_the_providers_fields(browser: Browser, airflow: AirflowStack) -> None:
    with browser.page(WINDOW) as page:
        page.goto(f"{airflow.url}/prefix/connections")
        page.get_by_role("button", name="Add Connection").click()
        page.get_by_role("combobox").first.click()
        page.keyboard.type("dpone_click")
        page.keyboard.press("Enter")
        page.get_by_text("Native port", exact=True).first.wait_for()
        page.get_by_role("button", name="Extra Fields", exact=True).click()
        for label in ("HTTP port", "Replica addresses", "Authority database"):
            page.get_by_text(label, exact=True).first.wait_for()
        keep(page, "airflow-connection-form")
