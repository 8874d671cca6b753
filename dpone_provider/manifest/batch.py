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
from dpone_provider.manifest.merge import merge_layers
from dpone_provider.manifest.nodes import Mapping, Node, Scalar, Sequence, count_nodes
from dpone_provider.manifest.problems import At, ProblemLog, shorten
from dpone_provider.manifest.processes import read_process
from dpone_provider.manifest.selector import check_selector
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.sqltext import identifier_fault
from dpone_provider.manifest.tables import Place

KIND = "dpone.batch.v1"
NAME = re.compile(r"[a-z0-9][a-z0-9_]{1,127}")
MAX_EXPANDED_NODES = 500_000
_LATER_KINDS = ("dpone.flow.v1", "dpone.flow-fragment.v1", "etl-config")


@attrs.frozen(kw_only=True)
class Item:
    """One table of a manifest before it is read: its selector, merged tree, and the places to point at."""

    schema: str
    table: str
    at: At
    node: Mapping
    own_name: Node | None

    @property
    def selector(self) -> str:
        """``<source schema>.<table>``."""
        return f"{self.schema}.{self.table}"


def read_batch(root: Node, base: str, log: ProblemLog) -> tuple[LoadSpec, ...]:
    """Every process of a batch manifest that is free of problems; all problems go to ``log`` (M11)."""
    if not isinstance(root, Mapping):
        log.add(root.at, "DPONE_MANIFEST_TYPE", "a manifest is a mapping")
        return ()
    check_selector(root, log)
    if not _is_batch(root, log):
        return ()
    items = _items(root, log)
    specs = []
    for item in items:
        place = Place(schema=item.schema, table=item.table, base=base)
        spec = read_process(item.node, place, log)
        name = _name(item, len(items), log)
        if spec is not None and name is not None:
            specs.append((item, attrs.evolve(spec, process=name, selector=item.selector, manifest=log.file)))
    _refuse_clashes(specs, log)
    _check_dependencies(items, log)
    return tuple(spec for _, spec in specs)


def _is_batch(root: Mapping, log: ProblemLog) -> bool:
    kind = root.get("kind")
    word = kind.value if isinstance(kind, Scalar) else None
    if word == KIND:
        return True
    if kind is None:
        log.add(root.at.child("kind"), "DPONE_MANIFEST_KIND", '"kind" is missing')
    elif word in _LATER_KINDS:
        log.add(kind.at, "DPONE_MANIFEST_KIND", f"{word} is not available yet")
    else:
        log.add(kind.at, "DPONE_MANIFEST_KIND", "this kind is not known")
    return False


def _items(root: Mapping, log: ProblemLog) -> list[Item]:
    """All tables with their layers merged: root quality, defaults, schema block, table."""
    fields = Fields(root, log, ("kind", "defaults", "quality", "schemas", "metadata"))
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
        block = Fields(entry.node, log, ("defaults", "tables"))
        tables = block.sequence("tables", required=True)
        if tables is not None and not tables.items:
            log.add(tables.at, "DPONE_MANIFEST_VALUE", "the list of tables is empty")
        block_defaults = block.mapping("defaults")
        layers = (shared, defaults, block_defaults)
        spent += sum(count_nodes(layer) for layer in layers if layer) * len(tables.items if tables else ())
        if spent > MAX_EXPANDED_NODES:
            log.add(root.at, "DPONE_MANIFEST_TOO_LARGE", f"its processes inherit more than {MAX_EXPANDED_NODES} values")
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
        fields = Fields(node, log, ("table", "overrides", "depends_on"))
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
    word = None
    if authored is not None:
        word = text_of(authored, log)
        if word is None or not check_name(word, authored.at, log):
            return None
    if word is not None and (item.own_name is not None or count == 1):
        return word
    derived = re.sub(r"[^a-z0-9]", "_", "_".join(filter(None, (word, item.schema, item.table))).lower())
    if not NAME.fullmatch(derived):
        message = "no process name can be derived from this schema and table"
        log.add(item.at, "DPONE_MANIFEST_NAME", message, "Give the table an overrides.name.")
        return None
    return derived


def check_name(name: str, at: At, log: ProblemLog) -> bool:
    """Whether a process name is well-formed (M13); notes it when not."""
    if NAME.fullmatch(name):
        return True
    log.add(at, "DPONE_MANIFEST_NAME", "a process name is 2 to 128 of a-z, 0-9 and _, and does not start with _")
    return False


def _refuse_clashes(specs: list[tuple[Item, LoadSpec]], log: ProblemLog) -> None:
    """Two processes with one selector, one name or one target."""
    seen: dict[tuple[str, ...], Item] = {}
    for item, spec in specs:
        table = spec.sink.table
        for what, *key in (
            ("selector", spec.selector),
            ("process name", spec.process),
            ("target table", spec.sink.connection_ref, table.database, table.name),
        ):
            first = seen.setdefault((what, *key), item)
            if first is not item:
                message = f"the {what} is taken by the table in line {first.at.line}"
                remedy = "Give the table an overrides.name." if what == "process name" else ""
                log.add(item.at, "DPONE_MANIFEST_DUPLICATE", message, remedy)
                break


def _check_dependencies(items: list[Item], log: ProblemLog) -> None:
    """``depends_on`` names selectors of this manifest and goes in no circle."""
    by_selector = {item.selector: item for item in items}
    known = ", ".join(shorten(name) for name in sorted(by_selector)[:10])
    edges: dict[str, list[str]] = {}
    for item in items:
        listed = item.node.get("depends_on")
        for node in listed.items if isinstance(listed, Sequence) else ():
            word = node.value if isinstance(node, Scalar) else None
            if isinstance(word, str) and word in by_selector:
                edges.setdefault(item.selector, []).append(word)
            elif isinstance(word, str):
                message = f'"{shorten(word)}" is no process of this manifest'
                log.add(node.at, "DPONE_MANIFEST_DEPENDENCY", message, f"Processes here: {known}.")
    if edges:
        for selector in _circle(edges):
            message = "the table depends on itself, directly or through others"
            log.add(by_selector[selector].at, "DPONE_MANIFEST_DEPENDENCY", message, "Break the circle of depends_on.")


def _circle(edges: dict[str, list[str]]) -> list[str]:
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []
