"""Pytest plugin parts: a headless Chromium, and pages that complain are failures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

CHROMIUM = "/usr/bin/chromium"
SHOTS = Path("test_artifacts/screen")
PICTURES = Path("docs/pictures")
SERIOUS = ("serious", "critical")


@attrs.frozen(kw_only=True)
class Look:
    """How somebody looks at a page."""

    scheme: str = "light"
    width: int = 1080
    height: int = 800

    @property
    def name(self) -> str:
        return f"{self.scheme}-{self.width}"


LOOKS = (Look(), Look(scheme="dark"), Look(width=360), Look(scheme="dark", width=360))


@attrs.frozen(kw_only=True)
class Browser:
    """A running Chromium of this test session."""

    real: Any
    axe: Any

    @contextmanager
    def page(self, look: Look = LOOKS[0], **context: Any) -> Iterator[Any]:
        """A page of a session of its own. What the console says of errors, and dialogs, fail the test."""
        size = {"width": look.width, "height": look.height}
        session = self.real.new_context(color_scheme=look.scheme, viewport=size, **context)
        page = session.new_page()
        wrong: list[str] = []
        page.on("console", lambda said: wrong.append(said.text) if _complains(said) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        try:
            yield page
        finally:
            session.close()
        assert wrong == []

    def check(self, page: Any, look: Look) -> None:
        """No serious finding of axe-core, no sideways scroll."""
        found = self.axe.run(page).response["violations"]
        assert [
            (each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found if each["impact"] in SERIOUS
        ] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= look.width


def _complains(said: Any) -> bool:
    """Airflow gives its frames scripts and their origin; the browser warns of that wherever it sees it."""
    return said.type in ("error", "warning") and "can escape its sandboxing" not in said.text


def keep(page: Any, name: str, **options: Any) -> None:
    """Keep a picture; with DPONE_DOCS_PICTURES=1 also as one of the docs, where they have one of this name."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    file = SHOTS / f"{name}.png"
    page.screenshot(path=file, animations="disabled", **options)
    if os.environ.get("DPONE_DOCS_PICTURES") and (PICTURES / file.name).exists():
        shutil.copy(file, PICTURES / file.name)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips where it, or what drives it, is missing."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python")
    if not Path(CHROMIUM).exists():
        pytest.skip("needs the Debian package chromium")
    with driver.sync_playwright() as playwright:
        real = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield Browser(real=real, axe=axe.Axe())
        finally:
            real.close()
