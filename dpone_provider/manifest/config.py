"""The normalized config of one process, kind ``etl-config``: what ``LoadConfigBuilder`` writes, and may be authored.

The keys of a process, with the sink's options in up to three places: ``sink.options`` as people write them, and the
copies ``options`` and ``sink_options`` at the root. Every copy is checked, and copies that differ are refused (M5).
"""

from __future__ import annotations

import attrs

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.grammar import families as authored
from dpone_provider.manifest.members import Member, own_name, read_members
from dpone_provider.manifest.nodes import Entry, Mapping, Node, Scalar, locate
from dpone_provider.manifest.problems import Path, ProblemLog, render_path
from dpone_provider.manifest.selector import OPTIONS, SELECTOR, check_selector
from dpone_provider.manifest.sinks import read_sink
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.tables import Place

KIND = authored.CONFIG
COPIES = ("options", "sink_options")
_OWN = ("kind", *COPIES)
PLACES: tuple[Path, ...] = (OPTIONS, *((copy,) for copy in COPIES))
_OPTIONS = {SELECTOR: SELECTOR, "keep_previous": "keep_previous", "physical_design": "design"}  # authored: in SinkSpec


def read_config(root: Node, base: str, log: ProblemLog) -> tuple[LoadSpec, ...]:
    """The one process, or nothing after noting what is wrong with it. The ``kind`` may be absent in Python values."""
    if not isinstance(root, Mapping):
        log.add(root.at, "DPONE_MANIFEST_TYPE", "the config of a process is a mapping")
        return ()
    kind = root.get("kind")
    if kind is not None and not (isinstance(kind, Scalar) and kind.value == KIND):
        log.add(kind.at, "DPONE_MANIFEST_KIND", "this is not the config of one process", f"Write kind: {KIND}.")
    check_selector(root, log, PLACES)
    own = {key: entry for key, entry in root.entries.items() if key in _OWN}
    fields = Fields(attrs.evolve(root, entries=own), log, _OWN)
    process = attrs.evolve(root, entries={key: entry for key, entry in root.entries.items() if key not in _OWN})
    copies: dict[Path, Entry] = {(key,): own[key] for key in COPIES if fields.mapping(key) is not None}
    sink = root.get("sink")
    if isinstance(sink, Mapping):
        agreed = Entry(key_at=root.entries["sink"].key_at, node=_agreed(sink, copies, log))
        process = attrs.evolve(process, entries=process.entries | {"sink": agreed})
    name = own_name(root, log)
    member = Member(selector=name or "", name=name, at=root.at, node=process, place=Place(base=base))
    return read_members([member], log)


def _agreed(sink: Mapping, copies: dict[Path, Entry], log: ProblemLog) -> Mapping:
    """The sink with the options of the first place that has them; places that say something else are noted."""
    written = sink.entries.get("options")
    places = ({OPTIONS: written} if written and isinstance(written.node, Mapping) else {}) | copies
    sinks = {place: attrs.evolve(sink, entries=sink.entries | {"options": entry}) for place, entry in places.items()}
    specs = {place: read_sink(node, Place(), log) for place, node in sinks.items()}
    first = next(iter(places), None)
    for place, spec in specs.items():
        for key, field in _OPTIONS.items():
            if first is not None and getattr(spec, field, None) != getattr(specs[first], field, None):
                message = f"this option is another one in {render_path(first)}"
                at = locate(places[place].node, (key,))
                log.add(at, "DPONE_MANIFEST_CONFLICT", message, "Make the copies equal, or keep one of them.")
    return sink if first is None else sinks[first]
