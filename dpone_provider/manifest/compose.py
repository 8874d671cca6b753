"""YAML 1.2 text to a tree with positions. Traps are refused with a place and a code, never guessed (M12, B24).

ruamel.yaml's scanner and parser give the events; scalars, keys, merge keys, aliases and bounds are decided here.
Work is bounded: 8 MiB of text, 250,000 nodes, 64 levels, 10,000 nodes repeated by aliases, tags of 1,024 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import attrs
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from dpone_provider.manifest.events import events
from dpone_provider.manifest.nodes import MAX_DEPTH, Entry, Mapping, Node, Refused, Scalar, Sequence, has_surrogate
from dpone_provider.manifest.problems import At, Path, ProblemLog, shorten
from dpone_provider.manifest.scalars import BadNumber, BadTag, resolve, tagged

MAX_BYTES = 8 * 1024 * 1024
MAX_NODES = 250_000
MAX_REPEATED_NODES = 10_000
MAX_TAG = 1024
_COLLECTION_TAGS = {"!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
# Outside YAML's printable set, or a line break for some YAML versions and not for others.
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_TAG_RUN = re.compile(r"[0-9A-Za-z\-;/?:@&=+$,_.!~*'()\[\]%#<>]+")
# What ruamel.yaml's scanner lets escape on malformed escapes, directives and tags, besides its own errors.
_SCANNER_FAULTS = (ValueError, OverflowError, IndexError, AttributeError, TypeError, AssertionError, KeyError)


class _Stop(Exception):
    """The text cannot be read any further; the reason has been noted."""


def compose(data: bytes | str, log: ProblemLog, file: str = "") -> Node | None:
    """The tree of one YAML document, or None when it cannot be read at all. Problems are noted in ``log``.

    ``file``: the file of this text, "" for the one that the log is of.
    """
    try:
        text = _text(data, log, file)
        return _Composer(text, log, file).document()
    except _Stop:
        return None


def _text(data: bytes | str, log: ProblemLog, file: str) -> str:
    """Decoded text without a byte-order mark; refuses what is not UTF-8 or not printable."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        at = At(line=1, column=1, file=file)
        log.add(at, "DPONE_YAML_TOO_LARGE", f"the file is larger than {MAX_BYTES} bytes")
        raise _Stop
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        log.add(_at_index(before, len(before), file), "DPONE_YAML_ENCODING", "the file is not UTF-8 text")
        raise _Stop from None
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        code = f"U+{ord(unreadable[0]):04X}"
        log.add(
            _at_index(text, unreadable.start(), file), "DPONE_YAML_ENCODING", f"the character {code} may not stand here"
        )
        raise _Stop
    for run in _TAG_RUN.finditer(text):  # ruamel.yaml needs quadratic time for a long tag
        if run.end() - run.start() > MAX_TAG and "!" in run[0]:
            log.add(_at_index(text, run.start(), file), "DPONE_YAML_TAG", f"a tag is longer than {MAX_TAG} characters")
            raise _Stop
    return text


def _at_index(text: str, index: int, file: str) -> At:
    before = text[:index].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    line = before.count("\n") + 1
    return At(line=line, column=len(before) - (before.rfind("\n") + 1) + 1, file=file)


@attrs.frozen(kw_only=True)
class _Part:
    """A node with what repeating it would cost: nodes in it, and levels of collections."""

    node: Node
    size: int
    height: int


class _Composer:
    def __init__(self, text: str, log: ProblemLog, file: str) -> None:
        self.log = log
        self.file = file
        self.events = self._events(text)
        self.nodes = 0
        self.repeated = 0
        self.anchors: dict[str, _Part | None] = {}  # None: the node is still open

    def document(self) -> Node | None:
        """The only document of the stream."""
        event = self._next()
        while isinstance(event, StreamStartEvent):
            event = self._next()
        if not isinstance(event, DocumentStartEvent):
            self._stop(At(line=1, column=1, file=self.file), "DPONE_YAML_EMPTY", "the file holds no document")
        if event.version not in (None, (1, 2), [1, 2]):
            self._stop(self._at(event), "DPONE_YAML_VERSION", "the file asks for another YAML version")
        if event.tags:
            self._stop(self._at(event), "DPONE_YAML_TAG", "the file declares tags of its own")
        root = self._part(self._next(), (), 1).node
        if isinstance(root, Scalar) and root.value is None:
            self._stop(root.at, "DPONE_YAML_EMPTY", "the document is empty")
        self._next()
        event = self._next()
        if not isinstance(event, StreamEndEvent):
            self._stop(self._at(event), "DPONE_YAML_DOCUMENTS", "the file holds more than one document")
        return root

    def _events(self, text: str) -> Iterator[Any]:
        """ruamel.yaml's events; its errors become one problem with a position."""
        last = None
        try:
            for last in events(text):
                yield last
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = At(line=mark.line + 1, column=mark.column + 1, file=self.file) if mark else self._behind(last)
            reason = shorten(str(error.problem or error.context or "syntax error"), 120)
            self.log.add(at, "DPONE_YAML_SYNTAX", f"not valid YAML: {reason}")
        except (YAMLError, *_SCANNER_FAULTS):
            self.log.add(self._behind(last), "DPONE_YAML_SYNTAX", "not valid YAML at or after this place")

    def _behind(self, last: Any) -> At:
        """Where the last event was; the beginning when there was none."""
        return self._at(last) if last is not None else At(line=1, column=1, file=self.file)

    def _next(self) -> Any:
        for event in self.events:
            return event
        raise _Stop

    def _part(self, event: Any, path: Path, depth: int) -> _Part:
        """The node that starts with ``event``, and its price."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._stop(self._at(event, path), "DPONE_YAML_TOO_LARGE", f"the file holds more than {MAX_NODES} values")
        if isinstance(event, AliasEvent):
            return self._alias(event, path, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if isinstance(event, ScalarEvent):
            part = _Part(node=self._scalar(event, path), size=1, height=0)
        else:
            if depth > MAX_DEPTH:
                self._stop(self._at(event, path), "DPONE_YAML_DEPTH", f"nested deeper than {MAX_DEPTH} levels")
            inside = self._mapping if isinstance(event, MappingStartEvent) else self._sequence
            part = inside(event, path, depth)
            if str(event.tag or "!") not in _COLLECTION_TAGS:
                self.log.add(self._at(event, path), "DPONE_YAML_TAG", f"the tag {shorten(str(event.tag))} is not read")
                part = attrs.evolve(part, node=Refused(at=part.node.at))
        if event.anchor is not None:
            self.anchors[event.anchor] = part
        return part

    def _alias(self, event: Any, path: Path, depth: int) -> _Part:
        name, at = event.anchor, self._at(event, path)
        if name not in self.anchors:
            self._stop(at, "DPONE_YAML_ALIAS_UNKNOWN", f"no anchor &{shorten(name)} stands before this alias")
        part = self.anchors[name]
        if part is None:
            self._stop(at, "DPONE_YAML_ALIAS_SELF", f"*{shorten(name)} stands inside the node that it names")
        self.repeated += part.size
        if self.repeated > MAX_REPEATED_NODES:
            message = f"aliases repeat more than {MAX_REPEATED_NODES} nodes"
            self._stop(at, "DPONE_YAML_ALIAS_EXPANSION", message)
        if depth - 1 + part.height > MAX_DEPTH:
            self._stop(at, "DPONE_YAML_DEPTH", f"nested deeper than {MAX_DEPTH} levels")
        return part

    def _scalar(self, event: Any, path: Path) -> Node:
        at, text = self._at(event, path), event.value
        try:
            if event.tag is not None:
                value = tagged(text, str(event.tag))
            else:
                value = resolve(text) if event.implicit[0] else text
        except BadNumber as error:
            self.log.add(at, "DPONE_YAML_NUMBER", str(error))
            return Refused(at=at)
        except BadTag:
            message = f"the tag {shorten(str(event.tag))} is not read, or does not fit its value"
            self.log.add(at, "DPONE_YAML_TAG", message)
            return Refused(at=at)
        if isinstance(value, str) and has_surrogate(value):
            self.log.add(at, "DPONE_YAML_ENCODING", "the text holds half of a surrogate pair")
            return Refused(at=at)
        return Scalar(at=at, value=value, text=text)

    def _sequence(self, event: Any, path: Path, depth: int) -> _Part:
        items: list[Node] = []
        size, height = 1, 0
        while not isinstance(inner := self._next(), SequenceEndEvent):
            part = self._part(inner, (*path, len(items)), depth + 1)
            size, height = size + part.size, max(height, part.height)
            items.append(part.node)
        return _Part(node=Sequence(at=self._at(event, path), items=tuple(items)), size=size, height=height + 1)

    def _mapping(self, event: Any, path: Path, depth: int) -> _Part:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] | None = None
        size, height = 1, 0
        while not isinstance(inner := self._next(), MappingEndEvent):
            merge = isinstance(inner, ScalarEvent) and inner.value == "<<" and inner.implicit[0] and inner.tag is None
            key, key_at = self._key(inner, path, depth)
            part = self._value(inner, (*path, key if key is not None else "?"), depth + 1)
            size, height = size + part.size + 1, max(height, part.height)
            if merge and merged is None:
                merged = self._merged(part.node, key_at)
            elif merge:
                self.log.add(key_at, "DPONE_YAML_MERGE_KEY", "the mapping has a second merge key")
            elif key in entries:
                line = entries[key].key_at.line
                self.log.add(key_at, "DPONE_YAML_DUPLICATE_KEY", f"the key stands already in line {line}")
            elif key is not None:
                entries[key] = Entry(key_at=key_at, node=part.node)
        return _Part(
            node=Mapping(at=self._at(event, path), entries=(merged or {}) | entries), size=size, height=height + 1
        )

    def _value(self, key: Any, path: Path, depth: int) -> _Part:
        """The node of a key; one that is not written stands after the key, not where the next thing begins."""
        event, end = self._next(), key.end_mark
        part = self._part(event, path, depth)
        if (
            isinstance(event, ScalarEvent)
            and not event.value
            and event.style is None
            and event.start_mark.line > end.line
        ):
            at = attrs.evolve(part.node.at, line=end.line + 1, column=end.column + 2)
            return attrs.evolve(part, node=attrs.evolve(part.node, at=at))
        return part

    def _key(self, event: Any, path: Path, depth: int) -> tuple[str | None, At]:
        """The text of a key, None when it is no string (noted)."""
        node = self._part(event, (*path, "?"), depth + 1).node
        at = self._at(event, path)
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value, At(line=at.line, column=at.column, path=(*path, node.value), file=at.file)
        if not isinstance(node, Refused):
            self.log.add(at, "DPONE_YAML_KEY", "the key is not a string")
        return None, at

    def _merged(self, node: Node, key_at: At) -> dict[str, Entry]:
        """What a merge key brings in: earlier mappings of a list win, the mapping's own keys win over all."""
        sources = node.items if isinstance(node, Sequence) else (node,)
        brought: dict[str, Entry] = {}
        for source in sources:
            if isinstance(source, Mapping):
                for key, entry in source.entries.items():
                    brought.setdefault(key, entry)
            elif not isinstance(source, Refused):
                self.log.add(key_at, "DPONE_YAML_MERGE_KEY", "a merge key takes a mapping or a list of mappings")
        return brought

    def _stop(self, at: At, code: str, message: str) -> NoReturn:
        self.log.add(at, code, message)
        raise _Stop

    def _at(self, event: Any, path: Path = ()) -> At:
        mark = event.start_mark
        return At(line=mark.line + 1, column=mark.column + 1, path=path, file=self.file)


__all__ = ["MAX_BYTES", "MAX_REPEATED_NODES", "compose"]
