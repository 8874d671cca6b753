"""The steps of a load, as its route takes them: what is sent, where to, and under which condition. Pure.

A test compares them with what recorded loads really sent (D1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.gate_spec import HASH_TYPE, SQL_TYPES
from dpone_provider.wire import EffectKind

When = Literal[
    "",
    "the slot is empty",
    "the slot is not empty",
    "the table exists",
    "there is no table yet",
    "there are rows to add",
    "its key is a function of the column",
    "the column may hold NULL",
]
STATEMENTS: dict[EffectKind, str] = {
    "authority_read": "SELECT",
    "authority_create": "INSERT",
    "authority_cas": "ALTER TABLE … UPDATE",
    "catalog_read": "SELECT",
    "query": "SELECT",
    "create_table": "CREATE TABLE",
    "insert": "INSERT … FORMAT ArrowStream",
    "append": "INSERT … FORMAT ArrowStream",
    "exchange": "EXCHANGE TABLES",
    "publish_first": "RENAME TABLE",
    "rename": "RENAME TABLE",
    "drop": "DROP TABLE",
    "replace_partition": "ALTER TABLE … REPLACE PARTITION",
    "load_step": "INSERT",
    "source_state": "INSERT or ALTER TABLE … UPDATE",
    "hook": "the author's own",
    "observe": "SELECT",
}


@attrs.frozen(kw_only=True)
class Step:
    """One step. ``effects``: kinds on the wire, in order; ``on``: the table or place; ``when`` "": always."""

    what: str
    on: str
    effects: tuple[EffectKind, ...] = ()
    when: When = ""
    reads: str = ""

    @property
    def statements(self) -> tuple[str, ...]:
        """The kinds of statements, in order, each run of equal ones once. ``reads``: the source's own, if any."""
        sent = [self.reads if kind == "source_open" else STATEMENTS.get(kind, "") for kind in self.effects]
        return tuple(word for word, before in zip(sent, ["", *sent], strict=False) if word and word != before)


@attrs.frozen(kw_only=True)
class Places:
    """The names that a plan shows: ``database.table`` each, "" for those that the load does not have."""

    target: str
    staging: str
    authority: str
    marks: str = ""


CATALOG = "system.tables, system.columns"
STEP_LOG = Step(
    what="Is there a table of load steps? Each step is then one INSERT too", on=CATALOG, effects=("catalog_read",)
)
_HOOK: tuple[EffectKind, ...] = ("hook",)
_QUERY: tuple[EffectKind, ...] = ("query",)


def steps(spec: LoadSpec, places: Places) -> tuple[Step, ...]:
    """Every step of a load that nothing disturbs, from admission to success."""
    if spec.sink.strategy.mode == "append":
        from dpone_provider.cli.plan_direct import direct

        return tuple(direct(spec, places))
    if spec.source.partitions is not None:
        from dpone_provider.cli.plan_partitions import partitioned

        return tuple(partitioned(spec, spec.source.partitions, places))
    return tuple(_durable(spec, places) if spec.sink.durable_quality_replay else _plain(spec, places))


def hook(statements: tuple[str, ...], when: str, target: str) -> Iterator[Step]:
    """The statements of ``sink.pre_sql`` or ``sink.post_sql``, if there are any."""
    if statements:
        what = f"Run {len(statements)} of {when}_sql, each sent once"
        yield Step(what=what, on=f"the server of {target}", effects=_HOOK * len(statements))


def observes_target(spec: LoadSpec) -> bool:
    """Whether acceptance asks for the live table."""
    return spec.quality.acceptance is not None and "target" in spec.quality.acceptance.sides


def _durable(spec: LoadSpec, places: Places) -> Iterator[Step]:
    slot = places.authority
    yield Step(what="Compare the authority with its specification", on=CATALOG, effects=("catalog_read",))
    yield Step(what="Read the slot: who may claim it", on=slot, effects=("authority_read",))
    yield Step(
        what="See whether this operation ended as failed before",
        on=slot,
        effects=("authority_read",),
        when="the slot is not empty",
    )
    yield from admission()
    if observes_target(spec):
        yield Step(what="Settings of the reader: pinned?", on="system.settings", effects=("catalog_read",))
        yield Step(what="Catalog of the reader: readable?", on="system.tables and others", effects=("catalog_read",))
    yield Step(
        what="Live table of this very operation, its record lost? Then stop",
        on="system.tables",
        effects=("catalog_read",),
        when="the slot is empty",
    )
    if observes_target(spec):
        yield Step(what="Start, kill and reap a reader", on="this machine", effects=("reader_probe",))
    yield Step(
        what="Claim the slot, read it back",
        on=slot,
        effects=("authority_create", "authority_read"),
        when="the slot is empty",
    )
    yield Step(
        what="Claim the slot, read it back",
        on=slot,
        effects=("authority_cas", "authority_read"),
        when="the slot is not empty",
    )
    yield Step(what="Look for leftovers of this operation; drop them", on="system.tables", effects=("catalog_read",))
    yield Step(
        what="Look for leftovers of the operation before it; drop them",
        on="system.tables",
        effects=("catalog_read",),
        when="the slot is not empty",
    )
    yield from _staging(spec, places)
    yield Step(what="Generation and predecessor by UUID", on="system.tables", effects=("catalog_read",))
    yield _written(slot, "Seal the proof (PREPARED), read it back")
    yield _written(slot, "Take the permit (DISPATCHING), read it back")
    yield from _switch(places)
    yield Step(what="Ask which UUID is live: proven or not", on="system.tables", effects=("catalog_read",))
    yield _written(slot, "Record the commit (COMMITTED), read it back")
    yield Step(what="Ask again: still live", on="system.tables", effects=("catalog_read",))
    if observes_target(spec):
        yield _written(slot, "Record that the target is to be observed, read it back")
        yield Step(what="Count in a supervised child, 60 s at most", on=places.target, effects=("observe",))
        yield Step(what="Ask again: still live", on="system.tables", effects=("catalog_read",))
    yield _written(slot, "Check the proof, complete it (COMPLETE), read it back")
    yield _written(slot, "Release the slot, read it back: from here on it is a success")
    yield from _cleanup(spec, places, first_looks=True)


def _plain(spec: LoadSpec, places: Places) -> Iterator[Step]:
    yield from admission()
    yield STEP_LOG
    yield from hook(spec.sink.pre_sql, "pre", places.target)
    yield Step(what="Look for leftovers of this operation; drop them", on="system.tables", effects=("catalog_read",))
    yield from _staging(spec, places)
    yield from published(spec, places, "Ask which UUID is live: proven or not")
    yield from hook(spec.sink.post_sql, "post", places.target)


def published(spec: LoadSpec, places: Places, proof: str) -> Iterator[Step]:
    """A staged generation becomes the live table, without the authority."""
    yield Step(what="See which table is live", on="system.tables", effects=("catalog_read",))
    yield from _switch(places)
    yield Step(what=proof, on="system.tables", effects=("catalog_read",))
    if observes_target(spec):
        yield Step(what="Count in the live table", on=places.target, effects=("query",))
    yield from _cleanup(spec, places, first_looks=False)


def admission() -> Iterator[Step]:
    """Whether the target is one that can be published."""
    on = "system.databases, system.tables, system.columns"
    yield Step(what="Database and live table: admissible?", on=on, effects=("catalog_read", "catalog_read"))
    yield Step(
        what="Row policies of the live table",
        on="system.row_policies",
        effects=("catalog_read",),
        when="the table exists",
    )


def opened(spec: LoadSpec) -> Step:
    """The source, opened once."""
    reads = {"file": "", "sql": "SELECT …"}.get(spec.source.type, "SELECT … FORMAT ArrowStream")
    return Step(what="Open the source: columns and types", on="the source", effects=("source_open",), reads=reads)


def _staging(spec: LoadSpec, places: Places) -> Iterator[Step]:
    yield opened(spec)
    yield Step(what="Create the private table with a UUID of our own", on=places.staging, effects=("create_table",))
    yield Step(what="Stream the source as one insert", on=places.staging, effects=("insert",))
    yield counted(places)
    types = [gate.type for gate in spec.quality.gates]
    if HASH_TYPE in types:
        yield Step(what="Hash every value that is stored", on=places.staging, effects=("query",))
    asked = sum(kind in SQL_TYPES for kind in types)
    if asked:
        yield Step(what=f"Ask {asked} SQL gates, 300 s each at most", on=places.staging, effects=_QUERY * asked)


def counted(places: Places) -> Step:
    """The proof that everything is there."""
    what = "Count: rows sent = rows held, same UUID; gates and observations"
    return Step(what=what, on=places.staging, effects=("query", "catalog_read"))


def _switch(places: Places) -> Iterator[Step]:
    on = f"{places.target}, {places.staging}"
    yield Step(what="Switch, sent once", on=on, effects=("exchange",), when="the table exists")
    yield Step(what="Switch, sent once", on=on, effects=("publish_first",), when="there is no table yet")


def _cleanup(spec: LoadSpec, places: Places, *, first_looks: bool) -> Iterator[Step]:
    if first_looks:
        yield Step(what="Look for what is left to drop", on="system.tables", effects=("catalog_read",))
    if not spec.sink.keep_previous:
        yield Step(
            what="Drop the old table under a name of its own, its UUID checked",
            on=places.staging,
            effects=("rename", "catalog_read", "drop"),
            when="the table exists",
        )


def _written(slot: str, what: str) -> Step:
    return Step(what=what, on=slot, effects=("authority_cas", "authority_read"))
