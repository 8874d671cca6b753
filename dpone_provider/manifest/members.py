"""The processes of one manifest together: each read, then checked against the others."""

from __future__ import annotations

import re

import attrs

from dpone_provider.manifest.fields import text_of
from dpone_provider.manifest.grammar.families import NAME as PROCESS_NAME
from dpone_provider.manifest.nodes import Mapping, Node, Scalar, Sequence
from dpone_provider.manifest.problems import At, ProblemLog, shorten
from dpone_provider.manifest.processes import read_process
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.tables import Place

NAME = re.compile(PROCESS_NAME)
MAX_EXPANDED_NODES = 300_000
NODES_OF_A_PROCESS = 50  # reading a process takes as long as so many values, however little it inherits


@attrs.frozen(kw_only=True)
class Member:
    """One process of a manifest before it is read: its merged tree, and what the manifest calls it.

    ``name`` None: it has no usable one, which has been noted. ``at``: where to point when it clashes with another.
    """

    selector: str
    name: str | None
    at: At
    node: Mapping
    place: Place


def read_members(members: list[Member], log: ProblemLog, *, remedy: str = "") -> tuple[LoadSpec, ...]:
    """Every process that is free of problems of its own. ``remedy``: what to do when two have the same name."""
    refuse_same_names(members, log, remedy)
    specs = []
    for member in members:
        spec = read_process(member.node, member.place, log)
        if spec is not None and member.name is not None:
            named = attrs.evolve(spec, process=member.name, selector=member.selector, manifest=log.file)
            specs.append((member, named))
    _refuse_same_targets(specs, log)
    _check_dependencies(members, log)
    return tuple(spec for _, spec in specs)


def refuse_same_names(members: list[Member], log: ProblemLog, remedy: str = "") -> None:
    """Note every process whose selector or name an earlier one has."""
    seen: dict[str, Member] = {}
    for member in members:
        for key in filter(None, (member.selector, member.name)):
            first = seen.setdefault(key, member)
            if first is not member:
                if key == member.name:
                    _refuse(member, first, "process name", log, remedy)
                else:
                    _refuse(member, first, "selector", log)
                break


def own_name(process: Mapping, log: ProblemLog) -> str | None:
    """The name that a process must give itself; None after noting what is wrong with it."""
    node = process.get("name")
    if node is None:
        at = process.at.child("name")
        log.add(at, "DPONE_MANIFEST_MISSING_KEY", '"name" is missing', "Give the process a name.")
        return None
    return read_name(node, log)


def read_name(node: Node, log: ProblemLog) -> str | None:
    """An authored process name; None after noting why it is not usable."""
    word = text_of(node, log)
    return word if word is not None and check_name(word, node.at, log) else None


def check_name(name: str, at: At, log: ProblemLog) -> bool:
    """Whether a process name is well-formed (M13); notes it when not."""
    if NAME.fullmatch(name):
        return True
    log.add(at, "DPONE_MANIFEST_NAME", "a process name is 2 to 128 of a-z, 0-9 and _, and does not start with _")
    return False


def refuse_expansion(spent: int, at: At, log: ProblemLog) -> bool:
    """Whether all processes together hold more values than may be read; notes it when so."""
    if spent <= MAX_EXPANDED_NODES:
        return False
    log.add(at, "DPONE_MANIFEST_TOO_LARGE", f"its processes hold more than {MAX_EXPANDED_NODES} values together")
    return True


def _refuse_same_targets(specs: list[tuple[Member, LoadSpec]], log: ProblemLog) -> None:
    seen: dict[tuple[str, str, str], tuple[Member, LoadSpec]] = {}
    for member, spec in specs:
        target = (spec.sink.connection_ref, spec.sink.table.database, spec.sink.table.name)
        first, earlier = seen.setdefault(target, (member, spec))
        if first is not member and spec.process != earlier.process:  # one name twice has been noted already
            _refuse(member, first, "target table", log)


def _refuse(member: Member, first: Member, what: str, log: ProblemLog, remedy: str = "") -> None:
    line = f"line {first.at.line}"
    where = line if first.at.file == member.at.file else f"{line} of {first.at.file or log.file}"
    log.add(member.at, "DPONE_MANIFEST_DUPLICATE", f"the {what} is taken by the process in {where}", remedy)


def _check_dependencies(members: list[Member], log: ProblemLog) -> None:
    """``depends_on`` names selectors of this manifest and goes in no circle."""
    by_selector = {member.selector: member for member in members}
    known = ", ".join(shorten(name) for name in sorted(by_selector)[:10])
    edges: dict[str, list[str]] = {}
    for member in members:
        listed = member.node.get("depends_on")
        for node in listed.items if isinstance(listed, Sequence) else ():
            word = node.value if isinstance(node, Scalar) else None
            if isinstance(word, str) and word in by_selector:
                edges.setdefault(member.selector, []).append(word)
            elif isinstance(word, str):
                message = f'"{shorten(word)}" is no process of this manifest'
                log.add(node.at, "DPONE_MANIFEST_DEPENDENCY", message, f"Processes here: {known}.")
    if edges:
        for selector in _circle(edges):
            message = "the process depends on itself, directly or through others"
            log.add(by_selector[selector].at, "DPONE_MANIFEST_DEPENDENCY", message, "Break the circle of depends_on.")


def _circle(edges: dict[str, list[str]]) -> list[str]:
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []
