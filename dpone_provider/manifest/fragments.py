"""Parts of a flow in files of their own, kind ``dpone.flow-fragment.v1``: exactly ``kind`` and ``processes`` (M13)."""

from __future__ import annotations

import os
import re

from dpone_provider.manifest.compose import MAX_BYTES, compose
from dpone_provider.manifest.fields import Fields, text_of
from dpone_provider.manifest.grammar import families as authored
from dpone_provider.manifest.grammar.declare import declared, keys
from dpone_provider.manifest.members import MAX_EXPANDED_NODES, Member, own_name, refuse_same_names
from dpone_provider.manifest.nodes import Mapping, Node, Refused, Scalar, Sequence, count_nodes, exists, kind_of, locate
from dpone_provider.manifest.problems import At, ProblemLog
from dpone_provider.manifest.processes import read_process
from dpone_provider.manifest.selector import ANY, OPTIONS, check_selector
from dpone_provider.manifest.tables import Place

KIND = authored.FRAGMENT
PLACES = (("processes", ANY, *OPTIONS),)
MAX_FRAGMENTS = declared(authored.Flow)["fragments"].many or 0
_PATH = re.compile(authored.FRAGMENT_PATH)
NOTE = "A fragment alone: only its form was checked. Check the flow that lists it to know what its processes mean."


def read_fragments(listed: Sequence, base: str, log: ProblemLog) -> tuple[list[Member], tuple[str, ...]]:
    """The processes of all listed fragments, in order, and the fragments' files. ``base``: the flow's folder."""
    if not 1 <= len(listed.items) <= MAX_FRAGMENTS:
        log.add(listed.at, "DPONE_MANIFEST_VALUE", f"a flow lists 1 to {MAX_FRAGMENTS} fragments")
        return [], ()
    members: list[Member] = []
    files: list[str] = []
    seen = {os.path.realpath(os.path.join(base, os.path.basename(log.file))): "the flow lists itself"}
    left, nodes = MAX_BYTES, 0
    for item in listed.items:
        name = _checked(item, base, seen, log)
        data = _read(os.path.join(base, name), left, item.at, log) if name is not None else None
        if name is None or data is None:
            continue
        left -= len(data)
        files.append(os.path.join(os.path.dirname(log.file), name))
        root = compose(data, log, files[-1]) if left >= 0 else None
        nodes += count_nodes(root) if root is not None else 0
        if left < 0 or nodes > MAX_EXPANDED_NODES:
            log.add(item.at, "DPONE_MANIFEST_TOO_LARGE", "the fragments of the flow are too large together")
            break
        if root is not None:
            members += _members_of(root, log)
    return members, tuple(files)


def check_fragment(root: Mapping, base: str, log: ProblemLog) -> None:
    """Check the form of a fragment alone: what it does not say, its flow may."""
    members = _members_of(root, log)
    refuse_same_names(members, log)
    part = _PartLog(root, log)
    for member in members:
        read_process(member.node, Place(base=base), part)


def named_members(processes: Sequence, log: ProblemLog) -> list[Member]:
    """The processes of a list, each with its own name; nothing is merged into them yet."""
    if not processes.items:
        log.add(processes.at, "DPONE_MANIFEST_VALUE", "the list of processes is empty")
    members = []
    for node in processes.items:
        if not isinstance(node, Mapping):
            if not isinstance(node, Refused):
                log.add(node.at, "DPONE_MANIFEST_TYPE", f"expected a mapping, found {kind_of(node)}")
            continue
        name = own_name(node, log)
        at = locate(node, ("name",))
        members.append(Member(selector=name or "", name=name, at=at, node=node, place=Place()))
    return members


def _members_of(root: Node, log: ProblemLog) -> list[Member]:
    """The processes of a fragment's tree; everything else in it is refused."""
    if not isinstance(root, Mapping):
        log.add(root.at, "DPONE_MANIFEST_TYPE", f"a fragment is a mapping of kind {KIND}")
        return []
    kind = root.get("kind")
    if not isinstance(kind, Scalar) or kind.value != KIND:
        remedy = f"Write kind: {KIND}. A flow lists fragments only, no flows and no other manifests."
        at = kind.at if kind is not None else root.at.child("kind")
        log.add(at, "DPONE_MANIFEST_KIND", "a flow lists this file, and it is no fragment", remedy)
        return []
    check_selector(root, log, PLACES)
    processes = Fields(root, log, keys(authored.Fragment)).sequence("processes", required=True)
    return named_members(processes, log) if processes is not None else []


def _checked(item: Node, base: str, seen: dict[str, str], log: ProblemLog) -> str | None:
    """A listed path that may be read: relative, inside the flow's folder, and not listed before."""
    name = text_of(item, log)
    if name is None:
        return None
    if not _PATH.fullmatch(name):
        message = "a fragment is a relative path to a .yaml file, with / and without . and .. between folders"
        log.add(item.at, "DPONE_MANIFEST_VALUE", message, "Write a path such as steps/orders.yaml.")
        return None
    if not base:
        log.add(item.at, "DPONE_MANIFEST_UNREADABLE", "this flow has no folder that a fragment could be in")
        return None
    real, folder = os.path.realpath(os.path.join(base, name)), os.path.realpath(base)
    if os.path.commonpath((real, folder)) != folder:
        log.add(item.at, "DPONE_MANIFEST_VALUE", "the path leads out of the flow's folder", "Put the fragment into it.")
        return None
    if real in seen:
        log.add(item.at, "DPONE_MANIFEST_DUPLICATE", seen[real])
        return None
    seen[real] = f"the fragment is listed already in line {item.at.line}"
    return name


def _read(path: str, left: int, at: At, log: ProblemLog) -> bytes | None:
    """The bytes of a regular file, at most one more than ``left``."""
    reason = "does not exist"
    try:
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                return stream.read(left + 1)
        elif os.path.exists(path):
            reason = "is no file"
    except OSError:
        reason = "cannot be read"
    log.add(at, "DPONE_MANIFEST_UNREADABLE", f"the fragment {reason}", "Correct its path, or write the file.")
    return None


class _PartLog(ProblemLog):
    """Hands on problems of what is written, and keeps silent about what is not."""

    part = True

    def __init__(self, root: Mapping, log: ProblemLog) -> None:
        super().__init__(log.file)
        self._root = root
        self._log = log

    def add(self, at: At, code: str, message: str, remedy: str = "") -> None:
        """Note one problem, if its place is written in the fragment."""
        self.reports += 1
        if exists(self._root, at.path):
            self._log.add(at, code, message, remedy)
