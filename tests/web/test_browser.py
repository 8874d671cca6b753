"""The pages in a real browser: legible for everybody, a silent console, light and dark, narrow, in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.page.render import load_page
from dpone_provider.page.view import load_view
from tests.page import documents
from tests.page.documents import DOCUMENTS
from tests.page.test_render import ANSWERS, ATTACK, poisoned
from tests.web.browser import LOOKS, Browser, Look, chromium, keep
from tests.web.stub import ADMIN, StubAirflow, served

pytestmark = pytest.mark.slow
DAG, RUN = documents.OPERATION["dag_id"], documents.OPERATION["run_id"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def airflow() -> StubAirflow:
    """A night in the warehouse: one load in every state."""
    stub = StubAirflow()
    for name, document in DOCUMENTS.items():
        operation = {**documents.OPERATION, "task_id": name}
        document = attrs.evolve(document, target=f"shop.{TABLES[name]}", operation=operation)
        stub.add(name, document, dag_id=DAG, run_id=RUN, state=ANSWERS[name][0])
    stub.add("died", stub.instances[list(DOCUMENTS).index("running")].left, dag_id=DAG, run_id=RUN, state="failed")
    stub.add("silent", None, dag_id=DAG, run_id=RUN, state="failed")
    stub.add("foreign", "{}", dag_id=DAG, run_id=RUN)
    return stub


TABLES = {
    "proven": "orders", "replayed": "customers", "pending": "refunds", "failed": "payments", "refused": "sessions",
    "uncertain": "invoices", "running": "stock", "plain": "regions",
    "appended": "events",
}  # fmt: skip
PLACES = {
    **{name: f"loads/{DAG}/{RUN}/{name}/-1" for name in (*DOCUMENTS, "died", "silent", "foreign")},
    "list": f"loads/{DAG}/{RUN}",
    "all": "loads",
}


@pytest.fixture(scope="module")
def address(airflow: StubAirflow) -> Iterator[str]:
    with served(airflow.app()) as found:
        yield found


def sign_in(page: Any, address: str) -> None:
    page.context.add_cookies([{"name": "_token", "value": ADMIN, "url": address}])


@pytest.mark.contract("F4")
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
@pytest.mark.parametrize("name", PLACES)
def test_every_page_is_legible_for_everybody(browser: Browser, address: str, name: str, look: Look) -> None:
    with browser.page(look) as page:
        sign_in(page, address)
        page.goto(f"{address}/dpone/{PLACES[name]}")
        keep(page, f"{name}-{look.name}", full_page=True)
        for fold in page.locator("summary").all():
            fold.click()
        browser.check(page, look)


def test_a_page_in_a_frame_follows_the_ui_from_light_to_dark_and_back(browser: Browser, address: str) -> None:
    """Whatever the system prefers."""
    with browser.page(LOOKS[1]) as page:
        sign_in(page, address)
        page.goto(f"{address}/ui/light/dpone/{PLACES['proven']}")
        root = page.frame_locator("iframe").locator("html")
        root.locator("h1").wait_for()
        colours = []
        for dark in (False, True, False):
            page.evaluate("dark => document.documentElement.className = dark ? 'dark' : 'light'", dark)
            root.locator(f"xpath=self::html[contains(@class, '{'dark' if dark else 'light'}')]").wait_for()
            colours.append(root.locator("body").evaluate("body => getComputedStyle(body).backgroundColor"))
        assert colours[0] == colours[2] != colours[1]


def test_links_stay_in_the_frame_below_a_base_url(browser: Browser, airflow: StubAirflow) -> None:
    with served(airflow.app(root_path="/prefix")) as address, browser.page() as page:
        sign_in(page, address)
        page.goto(f"{address}/prefix/ui/light/dpone/loads")
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="shop.payments").click()
        frame.get_by_role("heading", name="shop.payments").wait_for()
        frame.get_by_role("link", name="All loads of this run").click()
        frame.get_by_role("link", name="shop.payments").wait_for()
        assert page.url == f"{address}/prefix/ui/light/dpone/loads"


def test_every_fold_and_link_is_reached_by_keyboard(browser: Browser, address: str) -> None:
    with browser.page() as page:
        sign_in(page, address)
        page.goto(f"{address}/dpone/{PLACES['failed']}")
        reached = []
        for _ in range(4):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.tagName + ': ' + document.activeElement.innerText"))
            page.keyboard.press("Enter") if reached[-1].startswith("SUMMARY") else None
        assert [each.split(":")[0] for each in reached] == ["A", "SUMMARY", "SUMMARY", "PRE"]
        assert page.locator("details[open]").count() == 2


def test_a_running_load_is_looked_at_again_unless_somebody_reads(browser: Browser, airflow: StubAirflow) -> None:
    with served(airflow.app()) as address, browser.page() as page:
        sign_in(page, address)
        page.clock.install()
        page.goto(f"{address}/dpone/{PLACES['running']}")
        asked = len(airflow.asked)
        page.locator("summary").first.click()
        page.clock.fast_forward(6_000)
        page.locator("summary").first.click()
        assert len(airflow.asked) == asked
        with page.expect_navigation():
            page.clock.fast_forward(6_000)
        page.locator("h1").wait_for()
        assert len(airflow.asked) > asked


def test_a_hostile_document_runs_nothing_and_fits(browser: Browser) -> None:
    stub = StubAirflow()
    document = poisoned(documents.failed().payload())
    document["target"] = ATTACK + "x" * 3_000
    stub.add("bad", document)
    with served(stub.app()) as address:
        for look in LOOKS:
            with browser.page(look) as page:
                sign_in(page, address)
                for place in ("loads/d/r/bad/-1", "loads/d/r"):
                    page.goto(f"{address}/dpone/{place}")
                    assert page.locator("h1").count() == 1
                    assert page.evaluate("document.documentElement.scrollWidth") <= look.width


def test_the_page_of_the_command_line_is_a_file_that_a_browser_opens(browser: Browser, tmp_path: Path) -> None:
    view = load_view(attrs.evolve(documents.failed(), operation=None), None, source="authority")
    file = tmp_path / "load.html"
    file.write_text(load_page(view, nonce="n0nce", framed=False), encoding="utf-8")
    for look in LOOKS[:2]:
        with browser.page(look) as page:
            page.goto(file.as_uri())
            browser.check(page, look)
