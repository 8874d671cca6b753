"""The list of loads: one line a load, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import attrs

from dpone_provider.page.document import Evidence
from dpone_provider.page.verdict import Tone
from dpone_provider.page.view import LoadView, Task, load_view

_ORDER: tuple[Tone, ...] = ("bad", "warn", "busy", "calm", "good")


@attrs.frozen(kw_only=True)
class Found:
    """What was found of one task instance. ``evidence`` None: something that is none."""

    task: Task
    evidence: Evidence | None


@attrs.frozen(kw_only=True)
class LoadsView:
    """The page. ``scope``: whose loads; ``more``: there were more than are shown."""

    scope: str
    rows: tuple[tuple[str, LoadView], ...]
    unread: tuple[Task, ...]
    more: bool
    refresh: int


def loads_view(found: Iterable[Found], *, scope: str, within: str, more: bool = False) -> LoadsView:
    """The list. Of several operations of one table the one that was recorded last; ``within``: where links start."""
    newest: dict[str, Found] = {}
    unread = []
    for each in found:
        if each.evidence is None:
            unread.append(each.task)
            continue
        kept = newest.get(each.evidence.target)
        if kept is None or kept.evidence is None or kept.evidence.recorded_at <= each.evidence.recorded_at:
            newest[each.evidence.target] = each
    views = [load_view(each.evidence, each.task) for each in newest.values() if each.evidence is not None]
    views.sort(key=lambda view: (_rank(view), view.evidence.target))
    return LoadsView(
        scope=scope,
        rows=tuple((link(view.task, within) if view.task is not None else "", view) for view in views),
        unread=tuple(unread),
        more=more,
        refresh=max((view.refresh for view in views), default=0),
    )


def _rank(view: LoadView) -> tuple[int, int]:
    """A failed proof of a live table stands first, a load that is complete last."""
    live = ("proven", "unknown", None, "not_started").index(view.evidence.target_commit)
    return _ORDER.index(view.tone), live


def link(task: Task, within: str) -> str:
    """Where the page of a task instance is, relative to ``within``."""
    return within + "/".join(
        quote(part, safe="") for part in (task.dag_id, task.run_id, task.task_id, str(task.map_index))
    )
