"""The batch manifest, kind ``dpone.batch.v1``: one process a table, defaults inherited (M3).

A process is selected as ``<source schema>.<table>``. Its name, part of its identity, is in this order: ``name`` written
in the table's ``overrides``; in a manifest of one process, the inherited ``name``; else the derived name
``<inherited name>_<schema>_<table>`` in lower case with every other character as an underscore. When a manifest of one
process gets a second table, an ``overrides.name`` at the first one keeps its name and so its identity.
"""

from __future__ import annotations

import re

import attrs

from dpone_provider.manifest.fields import Fields, text_of
from dpone_provider.manifest.grammar import families as authored
from dpone_provider.manifest.grammar.declare import keys
from dpone_provider.manifest.members import NAME, NODES_OF_A_PROCESS, Member, read_members, read_name, refuse_expansion
from dpone_provider.manifest.merge import merge_layers
from dpone_provider.manifest.nodes import Mapping, Node, count_nodes
from dpone_provider.manifest.problems import At, ProblemLog
from dpone_provider.manifest.selector import ANY, OPTIONS, check_selector
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.sqltext import identifier_fault
from dpone_provider.manifest.tables import Place

KIND = authored.BATCH
PLACES = tuple(
    (*layer, *OPTIONS)
    for layer in (("defaults",), ("schemas", ANY, "defaults"), ("schemas", ANY, "tables", ANY, "overrides"))
)


@attrs.frozen(kw_only=True)
class Item:
    """One table of a manifest: its names, its merged tree, where it stands, and the name written for it alone."""

    schema: str
    table: str
    at: At
    node: Mapping
    own_name: Node | None


def read_batch(root: Mapping, base: str, log: ProblemLog) -> tuple[LoadSpec, ...]:
    """Every process of a batch manifest that is free of problems; all problems go to ``log`` (M11)."""
    check_selector(root, log, PLACES)
    items = _items(root, log)
    members = [
        Member(
            selector=f"{item.schema}.{item.table}",
            name=_name(item, len(items), log),
            at=item.at,
            node=item.node,
            place=Place(schema=item.schema, table=item.table, base=base),
        )
        for item in items
    ]
    return read_members(members, log, remedy="Give the table an overrides.name.")


def _items(root: Mapping, log: ProblemLog) -> list[Item]:
    """All tables with their layers merged: root quality, defaults, schema block, table."""
    fields = Fields(root, log, keys(authored.Batch))
    fields.mapping("metadata")
    quality = root.entries.get("quality")
    shared = Mapping(at=root.at, entries={"quality": quality} if quality else {})
    fields.mapping("quality")
    defaults = fields.mapping("defaults")
    schemas = fields.mapping("schemas", required=True)
    items: list[Item] = []
    spent = 0
    for schema, entry in schemas.entries.items() if schemas else ():
        if not _usable(schema, entry.key_at, log) or not isinstance(entry.node, Mapping):
            if not isinstance(entry.node, Mapping):
                log.add(entry.node.at, "DPONE_MANIFEST_TYPE", "expected a mapping with defaults and tables")
            continue
        block = Fields(entry.node, log, keys(authored.SchemaBlock))
        tables = block.sequence("tables", required=True)
        if tables is not None and not tables.items:
            log.add(tables.at, "DPONE_MANIFEST_VALUE", "the list of tables is empty")
        block_defaults = block.mapping("defaults")
        layers = (shared, defaults, block_defaults)
        each = NODES_OF_A_PROCESS + sum(count_nodes(layer) for layer in layers if layer)
        spent += each * len(tables.items if tables else ())
        if refuse_expansion(spent, root.at, log):
            return []
        for node in tables.items if tables else ():
            item = _item(schema, node, layers, log)
            if item is not None:
                items.append(item)
    if schemas is not None and not schemas.entries:
        log.add(schemas.at, "DPONE_MANIFEST_VALUE", "there is no source schema")
    return items


def _item(schema: str, node: Node, layers: tuple[Mapping | None, ...], log: ProblemLog) -> Item | None:
    overrides = own = None
    if isinstance(node, Mapping):
        fields = Fields(node, log, keys(authored.Table))
        table = fields.text("table", required=True)
        overrides = fields.mapping("overrides")
        depends = node.entries.get("depends_on")
        if depends and fields.sequence("depends_on"):
            own = Mapping(at=node.at, entries={"depends_on": depends})
    else:
        table = text_of(node, log)
    if table is None or not _usable(table, node.at, log):
        return None
    merged = merge_layers(*layers, overrides, own)
    if not isinstance(merged, Mapping):
        return None
    merged = attrs.evolve(merged, at=node.at)  # what a process lacks is reported at its table
    return Item(
        schema=schema, table=table, at=node.at, node=merged, own_name=overrides.get("name") if overrides else None
    )


def _usable(name: str, at: At, log: ProblemLog) -> bool:
    fault = identifier_fault(name) if name.strip() else "the name is empty"
    if fault:
        log.add(at, "DPONE_MANIFEST_VALUE", fault)
    return not fault


def _name(item: Item, count: int, log: ProblemLog) -> str | None:
    """The name of a process by the rule above; None after noting why there is none (M13)."""
    authored = item.node.get("name")
    word = read_name(authored, log) if authored is not None else None
    if authored is not None and (word is None or item.own_name is not None or count == 1):
        return word
    derived = re.sub(r"[^a-z0-9]", "_", "_".join(filter(None, (word, item.schema, item.table))).lower())
    if not NAME.fullmatch(derived):
        message = "no process name can be derived from this schema and table"
        log.add(item.at, "DPONE_MANIFEST_NAME", message, "Give the table an overrides.name.")
        return None
    return derived
