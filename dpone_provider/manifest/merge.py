"""How layers of a manifest become one process: manifest defaults, then schema block, then table (M3).

Mappings recurse, scalars override, lists replace, and the top-level lists ``depends_on`` and ``transforms`` append.
A value keeps the place where it was written; a mapping keeps the place where it was written first.
"""

from __future__ import annotations

from dpone_provider.manifest.nodes import Entry, Mapping, Node, Refused, Sequence

APPENDED = frozenset({"depends_on", "transforms"})


def merge_layers(*layers: Node | None) -> Node:
    """One tree out of layers, weakest first; absent layers are skipped. At least one layer must be there."""
    present = [layer for layer in layers if layer is not None]
    merged = present[0]
    for layer in present[1:]:
        merged = _merge(merged, layer, appended=APPENDED)
    return merged


def _merge(base: Node, over: Node, *, appended: frozenset[str] = frozenset()) -> Node:
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return base if isinstance(over, Refused) else over
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        below = entries.get(key)
        if below is None:
            entries[key] = entry
        elif key in appended and isinstance(below.node, Sequence) and isinstance(entry.node, Sequence):
            both = Sequence(at=below.node.at, items=below.node.items + entry.node.items)
            entries[key] = Entry(key_at=below.key_at, node=both)
        else:
            entries[key] = Entry(key_at=entry.key_at, node=_merge(below.node, entry.node))
    return Mapping(at=base.at, entries=entries)
