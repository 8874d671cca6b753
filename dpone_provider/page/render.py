"""Pages as HTML text (Jinja2, autoescaped): no file, address or script from elsewhere, no inline style or handler."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dpone_provider.page import view
from dpone_provider.page.loads import LoadsView
from dpone_provider.page.view import LoadView, Task


def policy(nonce: str, *, framed: bool = True) -> str:
    """The Content-Security-Policy of a page. ``framed``: as a header; a ``meta`` tag cannot say who may frame it."""
    sources = f"default-src 'none'; img-src data:; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'"
    rest = "; base-uri 'none'; form-action 'none'"
    return sources + rest + ("; frame-ancestors 'self'" if framed else "")


def load_page(shown: LoadView, *, nonce: str, up: str = "", framed: bool = True) -> str:
    """The page of one load. ``up``: the address of its list, "" = none."""
    return _page("load.html", nonce=nonce, framed=framed, refresh=shown.refresh, shown=shown, up=up)


def loads_page(shown: LoadsView, *, nonce: str) -> str:
    """The list."""
    return _page("loads.html", nonce=nonce, framed=True, refresh=shown.refresh, shown=shown)


def silent_page(task: Task, *, nonce: str, why: str, refresh: int) -> str:
    """The page of a task instance without evidence. ``why``: what was found instead."""
    return _page("silent.html", nonce=nonce, framed=True, refresh=refresh, task=task, why=why)


def notice_page(title: str, text: str, *, nonce: str, framed: bool = True) -> str:
    """A page that says why there is none."""
    return _page("notice.html", nonce=nonce, framed=framed, refresh=0, title=title, text=text)


def _page(name: str, *, nonce: str, framed: bool, **values: Any) -> str:
    meta = "" if framed else policy(nonce, framed=False)
    return _environment().get_template(name).render(nonce=nonce, policy=meta, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dpone_provider.page"),
        autoescape=lambda name: name is None or not name.endswith((".css", ".js")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=view.number, moment=view.moment, differences=view.differences)
    return environment
