"""The one switch ``sink.options.durable_quality_replay``: where it may stand, and what it may be (M1, M2, M5)."""

from __future__ import annotations

import re

from dpone_provider.manifest.nodes import Mapping, Node, Refused, Scalar, Sequence, kind_of
from dpone_provider.manifest.problems import Path, ProblemLog

SELECTOR = "durable_quality_replay"
OPTIONS: Path = ("sink", "options")
ANY = "*"
_FOLDED = SELECTOR.replace("_", "")


def check_selector(root: Node, log: ProblemLog, places: tuple[Path, ...] = (OPTIONS,)) -> None:
    """Refuse the selector, and near spellings of it, except in ``places``, where it is a boolean.

    ``places``: the ``sink.options`` of every layer of this family, ``ANY`` for a name or an index. Walks what was
    authored, so that a value is checked even where another layer overrides it. Names that belong to the author (source
    schemas, column names) are not looked at.
    """
    _walk(root, (), log, places)


def _walk(node: Node, path: Path, log: ProblemLog, places: tuple[Path, ...]) -> None:
    if isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            _walk(item, (*path, index), log, places)
    elif isinstance(node, Mapping):
        authored_names = path == ("schemas",) or path[-2:] == ("sink", "columns")
        for key, entry in node.entries.items():
            if not authored_names and is_near(key):
                if key != SELECTOR or not _stands_in(path, places):
                    message = "this option stands only in sink.options, spelled durable_quality_replay"
                    log.add(entry.key_at, "DPONE_REPLAY_SELECTOR_MISPLACED", message)
                else:
                    _check_value(entry.node, log)
            _walk(entry.node, (*path, key), log, places)


def _check_value(node: Node, log: ProblemLog) -> None:
    if isinstance(node, Refused) or (isinstance(node, Scalar) and type(node.value) is bool):
        return
    log.add(node.at, "DPONE_REPLAY_SELECTOR_TYPE", f"expected exactly true or false, found {kind_of(node)}")


def _stands_in(path: Path, places: tuple[Path, ...]) -> bool:
    return any(
        len(path) == len(place) and all(step in (ANY, here) for step, here in zip(place, path, strict=True))
        for place in places
    )


def is_near(key: str) -> bool:
    """Whether a key is the selector or a slip of it: other case, dashes, a plural, one or two wrong letters."""
    if len(key) > 60:
        return False
    folded = re.sub(r"[^a-z0-9]", "", key.lower())
    if _FOLDED in folded:
        return True
    if abs(len(folded) - len(_FOLDED)) > 2 or ("replay" not in folded and "durable" not in folded):
        return False
    from difflib import SequenceMatcher

    return SequenceMatcher(None, folded, _FOLDED, autojunk=False).ratio() >= 0.9
