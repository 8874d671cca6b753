"""The pages of every state, out of documents alone: what is said, that nothing can break out, that nothing comes from
elsewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import attrs
import pytest

from dpone_provider.page.document import Count, Evidence, Gate, Next, parse
from dpone_provider.page.loads import Found, loads_view
from dpone_provider.page.render import load_page, loads_page, notice_page, policy, silent_page
from dpone_provider.page.view import Task, differences, load_view, moment
from tests.page import documents
from tests.page.documents import DOCUMENTS

NONCE = "n0nce"


def task(state: str | None = "success", **changes: Any) -> Task:
    values = {name: documents.OPERATION[name] for name in ("dag_id", "run_id", "task_id")} | changes
    return Task(state=state, **values)


class Page(HTMLParser):
    """What a browser would find. Void and closing tags are counted, so that a page is well-formed."""

    VOID = ("meta", "link", "path", "circle", "rect", "use")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words += " " + " ".join(data.split())

    @property
    def text(self) -> str:
        return " ".join(self.words.split())


def shown(evidence: Evidence, on: Task | None = None, **options: Any) -> Page:
    return Page(load_page(load_view(evidence, on if on is not None else task()), nonce=NONCE, **options))


ANSWERS = {
    "proven": ("success", "Yes, proven", "Complete", "Nothing to do"),
    "replayed": ("success", "Yes, proven", "Complete", "Nothing to do"),
    "pending": ("failed", "Yes, proven", "Not yet", "Clear this task"),
    "failed": ("failed", "Yes, proven", "Failed", "Look at the table, then load again as a new run"),
    "refused": ("failed", "No", "Gate failed", "Correct the cause, then clear this task"),
    "uncertain": ("up_for_retry", "Not known", "Not yet", "Wait: Airflow tries again by itself"),
    "running": ("running", "Not yet", "Not yet", "Wait"),
    "plain": ("success", "Yes, proven", "Checked, not kept", "Nothing to do"),
    "appended": ("failed", "Not known", "Not yet", "Look at the table first"),
}


@pytest.mark.contract("F4", "G7")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_one_glance_says_what_is_true_and_what_to_do(name: str) -> None:
    state, live, proof, todo = ANSWERS[name]
    view = load_view(DOCUMENTS[name], task(state))
    assert (view.live.word, view.proof.word, view.todo.title) == (live, proof, todo)
    text = shown(DOCUMENTS[name], task(state)).text
    for word in (live, proof, todo, "shop.orders", "ch_dwh", "6252fc158d27"):
        assert word in text


@pytest.mark.contract("F4")
def test_a_task_that_died_is_not_shown_as_running() -> None:
    view = load_view(documents.running(), task("failed"))
    assert (view.proof.tone, view.todo.title, view.refresh) == ("warn", "Clear this task", 0)
    assert [mark.look for mark in view.bars[-1].marks[:3]] == ["done", "stopped", "never"]


def test_rows_that_may_be_in_the_table_twice_are_no_reason_to_clear_a_task_blindly() -> None:
    text = shown(documents.appended(), task("failed")).text
    assert "Are the rows in the table?" in text
    assert "The next try may add the same rows again: look at the table first." in text


def test_a_running_load_is_shown_at_the_milestone_that_it_works_on_and_is_looked_at_again() -> None:
    view = load_view(documents.running(), task("running"))
    assert [mark.look for mark in view.bars[-1].marks[:3]] == ["done", "now", "never"]
    page = shown(documents.running(), task("running"))
    assert ("meta", {"http-equiv": "refresh", "content": "5"}) in page.tags
    assert not [tag for tag, values in shown(documents.proven()).tags if values.get("http-equiv") == "refresh"]


def test_a_deadline_is_amber_and_only_a_final_failure_is_red() -> None:
    assert load_view(documents.pending(), task("failed")).tone == "warn"
    assert load_view(documents.uncertain(), task("failed")).tone == "warn"
    assert load_view(documents.failed(), task("failed")).tone == "bad"
    looks = [
        load_view(each, task("failed")).bars[-1].marks[5].look for each in (documents.pending(), documents.failed())
    ]
    assert looks == ["stopped", "failed"]


def test_a_retry_says_that_nothing_was_repeated() -> None:
    text = shown(documents.proven()).text
    assert "nothing repeated: 0 source reads, 0 inserts, 0 switches" in text
    assert "Finished by a later attempt without reading the source." in text


def test_a_difference_stands_beside_the_side_that_differs() -> None:
    assert differences(Count(metric="rows", source=5, staged=5, target=4)) == {"target": "−1"}
    assert differences(Count(metric="rows", staged=1000, target=3000)) == {"target": "+2\u202f000"}
    assert "−1" in shown(documents.failed()).text


@pytest.mark.contract("F4")
@pytest.mark.parametrize(
    ("evidence", "state", "told"),
    [
        (documents.pending(), "success", "Airflow shows success, the evidence does not"),
        (documents.proven(), "failed", "The proof is complete; Airflow shows failed"),
    ],
)
def test_where_airflow_and_the_evidence_differ_the_page_says_so(evidence: Evidence, state: str, told: str) -> None:
    assert told in shown(evidence, task(state)).text


def test_no_evidence_is_no_claim() -> None:
    page = Page(silent_page(task(None, map_index=3), nonce=NONCE, why="It has recorded nothing.", refresh=15))
    assert "No claim" in page.text
    assert "That says nothing about ClickHouse." in page.text
    assert "--run-id scheduled__2026-11-29T04:00:00+00:00 --task-id orders --map-index 3" in page.text


def every_page() -> dict[str, str]:
    pages = {
        name: load_page(load_view(document, task()), nonce=NONCE, up="../x", framed=framed)
        for name, document in DOCUMENTS.items()
        for framed in (True, False)
    }
    found = [Found(task=task(), evidence=document) for document in DOCUMENTS.values()]
    pages["loads"] = loads_page(loads_view(found, scope="d", within="./"), nonce=NONCE)
    pages["silent"] = silent_page(task(), nonce=NONCE, why="x", refresh=5)
    pages["notice"] = notice_page("No", "Because.", nonce=NONCE)
    return pages


@pytest.mark.parametrize("html", every_page().values(), ids=every_page())
def test_nothing_comes_from_elsewhere_and_nothing_runs_without_the_nonce(html: str) -> None:
    page = Page(html)
    for tag, values in page.tags:
        assert not [name for name in values if name == "style" or name.startswith("on")], tag
        assert values.get("src") is None
        assert (values.get("href") or "").startswith(("#", "./", "../", "data:,")) or "href" not in values
        if tag in ("style", "script"):
            assert values == {"nonce": NONCE}


def test_the_policy_allows_nothing_but_the_page_itself() -> None:
    assert policy("x").startswith("default-src 'none'")
    assert "frame-ancestors 'self'" in policy("x")
    assert "frame-ancestors" not in policy("x", framed=False), "a browser complains about it in a meta tag"
    html = load_page(load_view(documents.proven(), None, source="authority"), nonce="x", framed=False)
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": policy("x", framed=False)}) in Page(html).tags


# -- hostile ----------------------------------------------------------------------------------------------------------

ATTACK = "</style></script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}\"'\u202e\x00"


def poisoned(value: Any) -> Any:
    """Every free text of a document replaced; numbers and words of a fixed set stay."""
    if isinstance(value, dict):
        return {key: poisoned(item) if key not in FIXED else item for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return ATTACK if type(value) is str else value


FIXED = {
    "kind", "target_commit", "governance", "target_observation", "boundary", "status", "outcome", "step", "state",
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_text_of_a_document_becomes_markup(name: str) -> None:
    evidence = parse(poisoned(json.loads(json.dumps(DOCUMENTS[name].payload()))))
    on = task("failed", dag_id=ATTACK, run_id=ATTACK, task_id=ATTACK)
    view = load_view(evidence, on)
    pages = [
        load_page(view, nonce=NONCE),
        loads_page(
            loads_view([Found(task=on, evidence=evidence), Found(task=on, evidence=None)], scope=ATTACK, within="./"),
            nonce=NONCE,
        ),
        silent_page(on, nonce=NONCE, why=ATTACK, refresh=0),
    ]
    for html in pages:
        page = Page(html)
        assert len([tag for tag, _ in page.tags if tag == "script"]) == 1
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert "49" not in re.sub(r"\d{3,}|:\d\d", "", page.text), "a document is no template"


def test_a_page_of_the_largest_document_is_made_quickly_and_stays_bounded() -> None:
    gates = tuple(
        Gate(id="g" * 300, type="min_rows", severity="error", status="passed", code="c", metrics={"rows": 2**63})
        for _ in range(120)
    )
    evidence = parse(attrs.evolve(documents.proven(), gates=gates, next=Next(title="t" * 5_000, text="x")).payload())
    assert len(load_page(load_view(evidence, task()), nonce=NONCE)) < 300_000


@pytest.mark.parametrize("text", ["", "yesterday", "9" * 5_000, "0001-01-01T00:00:00+14:00"])
def test_a_time_that_is_none_stands_as_it_is(text: str) -> None:
    assert moment(text) == text
    shown(attrs.evolve(documents.proven(), recorded_at=text))


# -- the list ---------------------------------------------------------------------------------------------------------


def named(name: str, document: Evidence, state: str = "failed", **changes: Any) -> Found:
    return Found(task=task(state, task_id=name), evidence=attrs.evolve(document, target=f"shop.{name}", **changes))


def test_the_worst_stands_first() -> None:
    found = [
        named("orders", documents.proven(), "success"),
        named("sessions", documents.refused()),
        named("refunds", documents.pending()),
        named("regions", documents.running(), "running"),
        named("payments", documents.failed()),
        named("customers", documents.uncertain()),
    ]
    rows = loads_view(found, scope="d", within="./").rows
    listed = [view.evidence.target.removeprefix("shop.") for _, view in rows]
    assert listed == ["payments", "sessions", "refunds", "customers", "regions", "orders"]


def test_of_one_table_the_operation_that_was_recorded_last_is_listed() -> None:
    old = named("orders", documents.failed(), recorded_at="2026-11-28T00:00:00.000Z")
    new = named("orders", documents.proven(), "success", recorded_at="2026-11-29T00:00:00.000Z")
    for found in ([old, new], [new, old]):
        ((_, view),) = loads_view(found, scope="d", within="./").rows
        assert view.proof.word == "Complete"


def test_links_are_relative_and_every_name_is_one_segment() -> None:
    ((href, _),) = loads_view([Found(task=task(), evidence=documents.proven())], scope="d", within="./").rows
    assert href == "./warehouse_nightly/scheduled__2026-11-29T04%3A00%3A00%2B00%3A00/orders/-1"
    ((href, _),) = loads_view(
        [Found(task=task(task_id="../../x"), evidence=documents.proven())], scope="d", within="./"
    ).rows
    assert href.count("/") == 4
