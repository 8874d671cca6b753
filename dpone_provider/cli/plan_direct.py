"""The steps of an append, for ``dpone plan``. Pure; a test compares them with what a recorded load really sent (D1)."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_provider.cli.plan_steps import CATALOG, STEP_LOG, Places, Step, When, hook, observes_target, opened
from dpone_provider.manifest.spec import LoadSpec


def direct(spec: LoadSpec, places: Places) -> Iterator[Step]:
    """Every step of an append that nothing disturbs."""
    yield from _live(spec, "Live table: there, and rows can be added?")
    if places.marks:
        yield Step(what="Compare the table of marks with its specification", on=CATALOG, effects=("catalog_read",))
        yield Step(what="Read the source's mark", on=places.marks, effects=("query",))
    yield STEP_LOG
    yield from hook(spec.sink.pre_sql, "pre", places.target)
    if spec.sink.pre_sql:
        yield from _live(spec, "Live table: the same questions again, after pre_sql")
    yield opened(spec)
    yield Step(what="Read the source to its end and keep its rows: nothing is sent before", on="this machine")
    rows: When = "there are rows to add"
    yield Step(what="Live table: still the one that was admitted?", on=CATALOG, effects=("catalog_read",))
    what = "Add the rows, one insert, sent once: from here on a retry may add them again"
    yield Step(what=what, on=places.target, effects=("append",), when=rows)
    yield Step(what="Live table: still the same one?", on=CATALOG, effects=("catalog_read",), when=rows)
    yield Step(what="Rows sent = rows written; gates", on="the server's answer")
    if observes_target(spec):
        yield Step(what="Count in the live table", on=places.target, effects=("query",))
    if places.marks:
        what = "Advance the source's mark, read it back: from here on a retry reads what is newer only"
        yield Step(what=what, on=places.marks, effects=("source_state", "query"), when=rows)
    yield from hook(spec.sink.post_sql, "post", places.target)


def _live(spec: LoadSpec, what: str) -> Iterator[Step]:
    yield Step(what=what, on=CATALOG, effects=("catalog_read",))
    if observes_target(spec):
        yield Step(what="Row policies of the live table", on="system.row_policies", effects=("catalog_read",))
