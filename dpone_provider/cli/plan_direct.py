"""The steps of an append, for ``dpone plan``. Pure; a test compares them with what a recorded load really sent (D1)."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_provider.cli.plan_steps import CATALOG, STEP_LOG, Places, Step, When, hook, observes_target, opened
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.wire import EffectKind


def direct(spec: LoadSpec, places: Places) -> Iterator[Step]:
    """Every step of an append that nothing disturbs."""
    marks = f"{spec.sink.table.database}.dpone_source_state"
    cursor = spec.source.cursor is not None
    yield Step(what="Live table: there, and rows can be added?", on=CATALOG, effects=("catalog_read",))
    if cursor:
        yield Step(what="Compare the table of marks with its specification", on=CATALOG, effects=("catalog_read",))
        yield Step(what="Read the source's mark", on=marks, effects=("query",))
    yield STEP_LOG
    yield from hook(spec.sink.pre_sql, "pre", places.target)
    yield opened(spec)
    yield Step(what="Read the source to its end and keep its rows: nothing is sent before", on="this machine")
    rows: When = "there are rows to add"
    yield Step(what="Add the rows, one insert, sent once", on=places.target, effects=("append",), when=rows)
    yield Step(what="Rows sent = rows written; gates", on="the server's answer")
    if observes_target(spec):
        yield Step(what="Count in the live table", on=places.target, effects=("query",))
    if cursor:
        advance: tuple[EffectKind, ...] = ("source_state", "query")
        yield Step(what="Advance the source's mark, read it back", on=marks, effects=advance, when=rows)
    yield from hook(spec.sink.post_sql, "post", places.target)
