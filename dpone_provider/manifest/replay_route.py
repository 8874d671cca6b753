"""What a route cannot do yet, as far as the manifest alone can tell (M7, offline part).

Most of it concerns ``durable_quality_replay: true`` only: ``false`` is inert (M5).
"""

from __future__ import annotations

import re

from dpone_provider.manifest.nodes import Node, locate
from dpone_provider.manifest.problems import Path, ProblemLog
from dpone_provider.manifest.spec import SinkSpec

ROUTE = "DPONE_ROUTE_UNSUPPORTED"
_DESIGN: Path = ("sink", "options", "physical_design", "storage", "clickhouse")
_STAGING: Path = ("sink", "staging", "schema")
_ENGINE: Path = (*_DESIGN, "engine")
_EITHER_WAY = (_STAGING, _ENGINE)
_TTL = re.compile(r"\bttl\b", re.IGNORECASE)


def refuse_unsupported(process: Node, sink: SinkSpec, log: ProblemLog) -> None:
    """Note everything of a process that its route does not admit. Pure, before any look-up (M6)."""

    def refuse(path: Path, message: str, remedy: str = "") -> None:
        when = "" if path in _EITHER_WAY else "with durable_quality_replay: true, "
        log.add(locate(process, path), ROUTE, f"{when}{message}", remedy)

    if sink.staging_database is not None:  # the switch of two names works inside one database only
        remedy = "Leave sink.staging out, or name the target's schema."
        refuse(_STAGING, "staging must be in the target's database", remedy)
    if sink.design.engine != "MergeTree":  # what merges away rows has no count that could be proven
        message = "the engine must be plain MergeTree; others, replicated ones too, are not available yet"
        refuse(_ENGINE, message, "Write engine: MergeTree, or leave it out.")
    if not sink.durable_quality_replay:
        return
    if sink.strategy.max_source_bytes is None:
        remedy = "Set it to the largest number of source bytes that a load may read."
        refuse(("sink", "strategy", "max_source_bytes"), "strategy.max_source_bytes must be set", remedy)
    for place, text in _texts(sink):
        if _TTL.search(text.replace("_", " ")):
            refuse(place, "TTL is not supported: it changes rows after they were proven", "Remove it.")


def _texts(sink: SinkSpec) -> list[tuple[Path, str]]:
    """Every authored text that ends in the generation's CREATE TABLE, with its place."""
    texts: list[tuple[Path, str]] = [(("sink", "columns", name), text) for name, text in sink.columns]
    texts += [((*_DESIGN, "order_by", index), text) for index, text in enumerate(sink.design.order_by)]
    texts += [((*_DESIGN, "settings", name), name) for name, _ in sink.design.settings]
    if sink.design.partition_by is not None:
        texts.append(((*_DESIGN, "partition_by"), sink.design.partition_by))
    return texts
