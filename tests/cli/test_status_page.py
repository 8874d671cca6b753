"""``dpone status --html``: the page of a task, out of the authority and the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone_provider.cli.status_page import evidence, page
from dpone_provider.page.document import parse
from dpone_provider.page.view import load_view
from dpone_provider.replay.record import Found
from tests.cli.conftest import Desk
from tests.cli.test_status import NEW, OLD, OTHER, operation, record, sighting
from tests.page.test_render import Page


@pytest.mark.contract("O5", "G7")
@pytest.mark.parametrize(
    ("phase", "live", "words"),
    [
        ("CLAIMED", OLD, ("Not yet", "Not yet", "Wait, or retry it")),
        ("REJECTED", OLD, ("No", "Not yet", "Correct the cause, then run it again")),
        ("PREPARED", OLD, ("Not yet", "Not yet", "Retry the operation in the slot")),
        ("DISPATCHING", OLD, ("Not known", "Not yet", "Retry the operation in the slot")),
        ("DISPATCHING", NEW, ("Yes, proven", "Not yet", "Retry the operation in the slot")),
        ("DISPATCHING", OTHER, ("No", "Not yet", "Find out who replaced the table")),
        ("COMMITTED", NEW, ("Yes, proven", "Not yet", "Retry the operation in the slot")),
        ("COMMITTED", OTHER, ("No", "Not yet", "Find out who replaced the table")),
        ("COMPLETE", NEW, ("Yes, proven", "Complete", "Nothing to do")),
        ("COMPLETE", OTHER, ("No", "Complete", "Find out who replaced the table")),
        ("FAILED", NEW, ("Yes, proven", "Failed", "Look at the table, then start a new run")),
    ],
)
def test_every_phase_has_its_answers(paper: Desk, phase: str, live: str, words: tuple[str, str, str]) -> None:
    held = record(phase)
    shown = evidence(sighting(paper, held, live=live), held)
    view = load_view(shown, None, source="authority")
    assert (view.live.word, view.proof.word, view.todo.title) == words
    assert parse(shown.payload()) == shown


@pytest.mark.contract("O5")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "Read from the authority and the server’s catalog. Nothing was changed."),
        ({"operation": operation("r2")}, "what is shown is another operation"),
        ({"operation": operation("r2"), "archived": True}, "what is shown is a later operation"),
        ({"found": Found(record=None, version=-1, now=0)}, "run the load"),
        ({"found": None, "problem": "The authority is missing."}, "The authority is missing."),
    ],
)
def test_the_page_says_whose_it_is(paper: Desk, changes: dict[str, Any], told: str) -> None:
    assert told in Page(page(sighting(paper, record("COMMITTED"), live=NEW, **changes))).text


@pytest.mark.contract("O5")
def test_a_real_load_is_written_as_one_file(desk: Desk, tmp_path: Path) -> None:
    assert desk.load().code == 0
    file = tmp_path / "load.html"
    assert desk.status("--html", str(file)).code == 0
    text = Page(file.read_text(encoding="utf-8")).text
    for words in ("Yes, proven", "Complete", "Nothing to do", "Attempt 1 succeeded", "gates passed", "proven"):
        assert words in text
    assert 'http-equiv="Content-Security-Policy"' in file.read_text(encoding="utf-8")


@pytest.mark.contract("O5")
def test_a_file_that_cannot_be_written_is_wrong_usage(desk: Desk, tmp_path: Path) -> None:
    ran = desk.status("--html", str(tmp_path / "no" / "such" / "folder.html"))
    assert (ran.code, ran.document["error_code"]) == (2, "DPONE_USAGE")
