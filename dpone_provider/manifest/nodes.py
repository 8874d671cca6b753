"""The light tree between text and meaning: scalars, sequences and mappings that know where they were written.

Trees come from ``compose`` (YAML text) or from ``from_values`` (Python arguments of the operator).
"""

from __future__ import annotations

import math
from typing import Any

import attrs

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.manifest.problems import At, Path, ProblemLog

MAX_DEPTH = 64
MAX_VALUE_NODES = 100_000


@attrs.frozen(kw_only=True)
class Scalar:
    """A leaf: ``None``, ``bool``, ``int``, ``float`` or ``str``, and the authored text."""

    at: At
    value: bool | int | float | str | None
    text: str


@attrs.frozen(kw_only=True)
class Sequence:
    """A list of nodes."""

    at: At
    items: tuple[Node, ...]


@attrs.frozen(kw_only=True)
class Entry:
    """A key of a mapping, where it stands, and its node."""

    key_at: At
    node: Node


@attrs.frozen(kw_only=True)
class Mapping:
    """String keys to entries, in authored order."""

    at: At
    entries: dict[str, Entry]

    def get(self, key: str) -> Node | None:
        """The node of a key, or None."""
        entry = self.entries.get(key)
        return entry.node if entry else None


@attrs.frozen(kw_only=True)
class Refused:
    """A node whose problem has been noted already; whoever meets it stays silent."""

    at: At


Node = Scalar | Sequence | Mapping | Refused


def plain(node: Node) -> Any:
    """The Python value of a node (dict, list or scalar); a refused node becomes None."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [plain(item) for item in node.items]
        case Mapping():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
        case Refused():
            return None


def holds_refused(node: Node) -> bool:
    """Whether a problem has been noted anywhere in this tree."""
    match node:
        case Sequence():
            return any(holds_refused(item) for item in node.items)
        case Mapping():
            return any(holds_refused(entry.node) for entry in node.entries.values())
        case _:
            return isinstance(node, Refused)


def kind_of(node: Node) -> str:
    """What a node is, in words for a message."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    value = node.value if isinstance(node, Scalar) else None
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    return names.get(type(value), "null")


def has_surrogate(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, which no encoding can write."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def count_nodes(node: Node) -> int:
    """How many nodes a tree has when every repeated one is counted again."""
    match node:
        case Sequence():
            return 1 + sum(count_nodes(item) for item in node.items)
        case Mapping():
            return 1 + sum(count_nodes(entry.node) for entry in node.entries.values())
        case _:
            return 1


def locate(node: Node, path: Path) -> At:
    """Where ``path`` below ``node`` was written; for a part that is missing, where its nearest parent was."""
    for index, step in enumerate(path):
        child = _child(node, step)
        if child is None:
            return attrs.evolve(node.at, path=node.at.path + path[index:])
        node = child
    return node.at


def find(node: Node, path: Path) -> Node | None:
    """What was written at ``path`` below ``node``, or None."""
    child: Node | None = node
    for step in path:
        child = _child(child, step) if child is not None else None
    return child


def exists(node: Node, path: Path) -> bool:
    """Whether ``path`` below ``node`` was written."""
    return find(node, path) is not None


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, Mapping) and isinstance(step, str):
        return node.get(step)
    if isinstance(node, Sequence) and type(step) is int and 0 <= step < len(node.items):
        return node.items[step]
    return None


def from_values(value: Any, log: ProblemLog, path: Path = ()) -> Node:
    """A tree out of Python values (mapping with string keys, list, tuple, scalar), with positions 0:0 (M11).

    Anything else, a number JSON cannot say exactly, depth over 64 and more than 100,000 nodes are noted in ``log``.
    """
    return _Values(log).node(value, At(line=0, column=0, path=path), 1)


class _Values:
    def __init__(self, log: ProblemLog) -> None:
        self.log = log
        self.left = MAX_VALUE_NODES

    def node(self, value: Any, at: At, depth: int) -> Node:
        self.left -= 1
        if isinstance(value, (dict, list, tuple)):
            if depth > MAX_DEPTH or self.left < 0:
                return self._refuse(at, "DPONE_YAML_DEPTH", "the value is nested or repeated too much")
            if isinstance(value, dict):
                return self._mapping(value, at, depth)
            items = tuple(self.node(item, at.child(index), depth + 1) for index, item in enumerate(value))
            return Sequence(at=at, items=items)
        if _is_inexact(value):
            return self._refuse(at, "DPONE_YAML_NUMBER", "the number is not finite or is larger than 2^64-1")
        if value is not None and type(value) not in (bool, int, float, str):
            return self._refuse(at, "DPONE_MANIFEST_TYPE", f"a value of type {type(value).__name__} cannot be declared")
        if isinstance(value, str) and has_surrogate(value):
            return self._refuse(at, "DPONE_YAML_ENCODING", "the text holds half of a surrogate pair")
        return Scalar(at=at, value=value, text=value if isinstance(value, str) else "")

    def _mapping(self, value: dict[Any, Any], at: At, depth: int) -> Mapping:
        entries = {}
        for key, item in value.items():
            if type(key) is not str or has_surrogate(key):
                self.log.add(at, "DPONE_YAML_KEY", f"a key of type {type(key).__name__} is not usable text")
                continue
            entries[key] = Entry(key_at=at.child(key), node=self.node(item, at.child(key), depth + 1))
        return Mapping(at=at, entries=entries)

    def _refuse(self, at: At, code: str, message: str) -> Refused:
        self.log.add(at, code, message)
        return Refused(at=at)


def _is_inexact(value: Any) -> bool:
    return (type(value) is int and abs(value) > MAX_INTEGER) or (type(value) is float and not math.isfinite(value))
