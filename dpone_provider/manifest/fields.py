"""A closed, strict reader of one mapping: every field has one type, unknown keys are refused with a likely spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Table

from dpone_provider.manifest.grammar.declare import CONTROL, TEMPLATE
from dpone_provider.manifest.nodes import Mapping, Node, Refused, Scalar, Sequence, kind_of
from dpone_provider.manifest.problems import At, ProblemLog, shorten
from dpone_provider.manifest.selector import is_near

Later = Table[str, str] | None

_TEMPLATE = re.compile(TEMPLATE)
_CONTROL = re.compile(CONTROL)
BOOLEAN_REMEDY = "Write true or false, unquoted, or leave it out."
_LARGEST = 2**63 - 1
_SUGGESTIONS = 200  # looking for a likely spelling is slow; a file with more unknown keys than this is another file


class Fields:
    """The fields of one mapping node. Every getter notes a problem and returns None for a value of another type.

    ``known``: the keys that may stand here. ``later``: keys people may expect, with the reason why they are refused.
    """

    def __init__(self, node: Mapping, log: ProblemLog, known: Iterable[str], later: Later = None) -> None:
        self.node = node
        self.log = log
        self._refuse_unknown(tuple(known), later or {})

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    def at(self, key: str) -> At:
        """Where a field's value stands; the mapping's place when it is missing."""
        found = self.node.get(key)
        return found.at if found else self.node.at.child(key)

    def problem(self, key: str, code: str, message: str, remedy: str = "") -> None:
        """Note a problem with a field."""
        self.log.add(self.at(key), code, message, remedy)

    def text(self, key: str, *, required: bool = False, template: bool = False) -> str | None:
        """A non-empty string without control characters; unrendered templates are refused unless ``template``."""
        node = self._get(key, required)
        return None if node is None else text_of(node, self.log, template=template)

    def choice(self, key: str, choices: Table[str, str | None], *, default: str | None = None) -> str | None:
        """One of the choices that map to None; a choice that maps to a reason is refused with it."""
        word = self.text(key, required=default is None)
        if word is None:
            return None if key in self else default
        if word not in choices:
            allowed = [choice for choice, reason in choices.items() if reason is None]
            message = f'"{shorten(word)}" is not one of: {", ".join(allowed)}'
            self.problem(key, "DPONE_MANIFEST_VALUE", message, did_you_mean(word, allowed))
            return None
        reason = choices[word]
        if reason is not None:
            self.problem(key, "DPONE_ROUTE_UNSUPPORTED", reason)
            return None
        return word

    def flag(self, key: str, *, code: str = "DPONE_MANIFEST_TYPE") -> bool:
        """Exactly true or false; missing = false. ``code``: the code of the problem when it is neither."""
        node = self._get(key, False)
        if node is None:
            return False
        if isinstance(node, Scalar) and type(node.value) is bool:
            return node.value
        self.log.add(node.at, code, f"expected exactly true or false, found {kind_of(node)}", BOOLEAN_REMEDY)
        return False

    def integer(self, key: str, *, least: int = 0) -> int | None:
        """An integer from ``least`` to 2^63-1."""
        node = self._get(key, False)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) is not int:
            self._wrong(node, "an integer", "Write the number as plain digits, unquoted.")
            return None
        if not least <= node.value <= _LARGEST:
            self.log.add(node.at, "DPONE_MANIFEST_VALUE", f"expected an integer from {least} to 2^63-1")
            return None
        return node.value

    def mapping(self, key: str, *, required: bool = False) -> Mapping | None:
        """A mapping."""
        node = self._get(key, required)
        if node is None or isinstance(node, Mapping):
            return node
        self._wrong(node, "a mapping")
        return None

    def sequence(self, key: str, *, required: bool = False) -> Sequence | None:
        """A list."""
        node = self._get(key, required)
        if node is None or isinstance(node, Sequence):
            return node
        self._wrong(node, "a list")
        return None

    def texts(self, key: str) -> tuple[tuple[str, At], ...]:
        """A list of non-empty, different strings with their places; missing = empty."""
        found = self.sequence(key)
        seen: dict[str, At] = {}
        for item in found.items if found else ():
            word = text_of(item, self.log)
            if word in seen:
                self.log.add(item.at, "DPONE_MANIFEST_DUPLICATE", f'"{shorten(word)}" is listed twice')
            elif word is not None:
                seen[word] = item.at
        return tuple(seen.items())

    def _get(self, key: str, required: bool) -> Node | None:
        node = self.node.get(key)
        if node is None and required:
            self.problem(key, "DPONE_MANIFEST_MISSING_KEY", f'"{key}" is missing')
        if isinstance(node, Refused):
            self.log.reports += 1
            return None
        return node

    def _wrong(self, node: Node, expected: str, remedy: str = "") -> None:
        self.log.add(node.at, "DPONE_MANIFEST_TYPE", f"expected {expected}, found {kind_of(node)}", remedy)

    def _refuse_unknown(self, known: tuple[str, ...], later: Table[str, str]) -> None:
        for key, entry in self.node.entries.items():
            if key in known:
                continue
            if is_near(key):  # check_selector reports it
                self.log.reports += 1
                continue
            if key in later:
                self.log.add(entry.key_at, "DPONE_ROUTE_UNSUPPORTED", later[key])
            else:
                message = f'"{shorten(key)}" is not known here'
                remedy = did_you_mean(key, known) if self.log.reports < _SUGGESTIONS else ""
                self.log.add(entry.key_at, "DPONE_MANIFEST_UNKNOWN_KEY", message, remedy)


def text_of(node: Node, log: ProblemLog, *, template: bool = False) -> str | None:
    """The string of a scalar node; None after noting why it is not usable."""
    if isinstance(node, Refused):
        log.reports += 1
        return None
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        remedy = "Put it in quotes." if isinstance(node, Scalar) and node.value is not None else ""
        log.add(node.at, "DPONE_MANIFEST_TYPE", f"expected a string, found {kind_of(node)}", remedy)
        return None
    if not node.value.strip():
        log.add(node.at, "DPONE_MANIFEST_VALUE", "the string is empty", "Give a value, or leave the key out.")
        return None
    if _CONTROL.search(node.value):
        log.add(node.at, "DPONE_MANIFEST_VALUE", "the string holds a control character", "Remove it.")
        return None
    if not template and _TEMPLATE.search(node.value):
        log.add(node.at, "DPONE_MANIFEST_TEMPLATE", "manifests are not templated")
        return None
    return node.value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy that names the likely spelling, or everything that may stand here."""
    from difflib import get_close_matches

    choices = sorted(known)
    folded = {choice.replace("_", ""): choice for choice in choices}
    near = get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower())[:60], folded, n=1, cutoff=0.65)
    if near:
        return f'Did you mean "{folded[near[0]]}"?'
    return f"Known here: {', '.join(choices)}." if choices else "Leave it out."
