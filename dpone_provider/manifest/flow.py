"""The flow manifest, kind ``dpone.flow.v1``: named processes, written in it or in fragments beside it (M13).

A process is selected by its ``name``, which is its name in the operation's identity too. It inherits ``quality`` and
``defaults`` of the flow by the rules of a batch (M3), whether it stands in the flow or in a fragment. ``depends_on``
names processes of the flow. Relative source paths start at the flow's folder, wherever the process stands.
"""

from __future__ import annotations

import os

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.fragments import named_members, read_fragments
from dpone_provider.manifest.grammar import families as authored
from dpone_provider.manifest.grammar.declare import keys
from dpone_provider.manifest.members import NODES_OF_A_PROCESS, Member, read_members, refuse_expansion
from dpone_provider.manifest.merge import merge_layers
from dpone_provider.manifest.nodes import Mapping, count_nodes
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.selector import ANY, OPTIONS, check_selector
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.tables import Place

KIND = authored.FLOW
MODES = {"flow": "fragments", "folder": "processes"}  # a mode, and the key that it excludes
PLACES = (("defaults", *OPTIONS), ("processes", ANY, *OPTIONS))


def read_flow(root: Mapping, base: str, log: ProblemLog) -> tuple[tuple[LoadSpec, ...], tuple[str, ...]]:
    """Every process that is free of problems, and the fragments' files; all problems go to ``log`` (M11)."""
    check_selector(root, log, PLACES)
    fields = Fields(root, log, keys(authored.Flow))
    fields.mapping("metadata")
    _check_authoring(fields, log)
    layers = _layers(fields, log)
    if "processes" not in fields and "fragments" not in fields:
        remedy = "List the processes, or the fragments that hold them."
        fields.problem("processes", "DPONE_MANIFEST_MISSING_KEY", '"processes" and "fragments" are missing', remedy)
    own = fields.sequence("processes")
    listed = fields.sequence("fragments")
    nodes, files = read_fragments(listed, base, log) if listed is not None else ([], ())
    written = named_members(own, log) if own is not None else []
    members = [_inherit(member, layers, base) for member in (*written, *nodes)]
    spent = len(members) * (NODES_OF_A_PROCESS + sum(count_nodes(layer) for layer in layers))
    if refuse_expansion(spent + sum(count_nodes(member.node) for member in nodes), root.at, log):
        return (), files
    return read_members(members, log), files


def _layers(fields: Fields, log: ProblemLog) -> tuple[Mapping, ...]:
    """What every process inherits, weakest first."""
    found = []
    quality = fields.mapping("quality")
    if quality is not None:
        found.append(Mapping(at=fields.node.at, entries={"quality": fields.node.entries["quality"]}))
    defaults = fields.mapping("defaults")
    if defaults is not None:
        name = defaults.entries.get("name")
        if name is not None:
            message, remedy = "a process of a flow has its own name", "Write a name at each process."
            log.add(name.key_at, "DPONE_MANIFEST_UNKNOWN_KEY", message, remedy)
        found.append(defaults)
    return tuple(found)


def _inherit(member: Member, layers: tuple[Mapping, ...], base: str) -> Member:
    merged = merge_layers(*layers, member.node)
    node = Mapping(at=member.node.at, entries=merged.entries) if isinstance(merged, Mapping) else member.node
    return Member(selector=member.selector, name=member.name, at=member.at, node=node, place=Place(base=base))


def _check_authoring(fields: Fields, log: ProblemLog) -> None:
    """``authoring.source`` is the file's own name: a copy that still names its original is refused."""
    node = fields.mapping("authoring", required=True)
    if node is None:
        return
    inner = Fields(node, log, keys(authored.Authoring))
    source = inner.text("source", required=True)
    own = os.path.basename(log.file)
    if source is not None and source != own:
        inner.problem("source", "DPONE_MANIFEST_VALUE", "this is not the name of this file", f"Write source: {own}")
    mode = inner.choice("mode", dict.fromkeys(MODES), default="")
    if mode and MODES[mode] in fields:
        message = f"mode {mode} has no {MODES[mode]}"
        inner.problem("mode", "DPONE_MANIFEST_CONFLICT", message, f"Leave the mode out, or remove {MODES[mode]}.")
