"""The documentation site builds strictly and needs nothing from elsewhere (D1)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import DOCS, ROOT, documents

_LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["']?((?:https?:)?//[^"' >]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict: a dead link, a dead anchor or a page outside the navigation ends the build."""
    pytest.importorskip("material", reason="needs the extra dev")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.contract("D1")
def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in documents() if page.is_relative_to(DOCS)}
    assert {page for page in pages if not (site / page).exists()} == set()
    assert not list(site.rglob("*.py"))


@pytest.mark.contract("D1")
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    found = {file.name: _LOADED.findall(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    assert len(found) > 10
    assert {name: urls for name, urls in found.items() if urls} == {}
    styles = " ".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?https?://", styles) == []


@pytest.mark.contract("D1")
def test_code_blocks_and_headings_are_rendered(site: Path) -> None:
    """A fence that the renderer does not know would swallow the rest of its page."""
    for page in documents():
        if page.is_relative_to(DOCS):
            html = (site / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
            assert "```" not in re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL), page.name


@pytest.mark.contract("D1")
def test_decisions_have_the_form_of_decision_records() -> None:
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    for number, record in enumerate(records, start=1):
        text = record.read_text(encoding="utf-8")
        assert record.name.startswith(f"{number:04}-"), record.name
        assert text.startswith(f"# {number}. "), record.name
        assert re.search(r"^Status: (accepted|proposed|rejected|superseded by \[)", text, re.MULTILINE), record.name
        parts = [part for part in re.findall(r"^## (.+)$", text, re.MULTILINE) if part != "Rejected"]
        assert parts == ["Context", "Decision", "Consequences"], record.name
        assert f"]({record.name})" in index, f"decisions/index.md does not list {record.name}"
