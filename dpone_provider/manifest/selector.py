"""The one switch ``sink.options.durable_quality_replay``: where it may stand, and what it may be (M1, M2, M5)."""

from __future__ import annotations

import re

from dpone_provider.manifest.nodes import Mapping, Node, Refused, Scalar, Sequence, kind_of
from dpone_provider.manifest.problems import Path, ProblemLog

SELECTOR = "durable_quality_replay"
_PLACE: Path = ("sink", "options", SELECTOR)
_FOLDED = SELECTOR.replace("_", "")


def check_selector(root: Node, log: ProblemLog) -> None:
    """Refuse the selector, and near spellings of it, except in ``sink.options`` of a layer, where it is a boolean.

    Walks what was authored, so that a value is checked even where another layer overrides it. Names that belong to the
    author (source schemas, column names) are not looked at.
    """
    _walk(root, (), log)


def _walk(node: Node, path: Path, log: ProblemLog) -> None:
    if isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            _walk(item, (*path, index), log)
    elif isinstance(node, Mapping):
        authored_names = path == ("schemas",) or path[-2:] == ("sink", "columns")
        for key, entry in node.entries.items():
            here = (*path, key)
            if not authored_names and is_near(key):
                if not _allowed(here):
                    message = "this option stands only in sink.options, spelled durable_quality_replay"
                    log.add(entry.key_at, "DPONE_REPLAY_SELECTOR_MISPLACED", message)
                else:
                    _check_value(entry.node, log)
            _walk(entry.node, here, log)


def _check_value(node: Node, log: ProblemLog) -> None:
    if isinstance(node, Refused) or (isinstance(node, Scalar) and type(node.value) is bool):
        return
    log.add(node.at, "DPONE_REPLAY_SELECTOR_TYPE", f"expected exactly true or false, found {kind_of(node)}")


def _allowed(path: Path) -> bool:
    layer = path[:-3]
    return path[-3:] == _PLACE and (
        layer in ((), ("defaults",))
        or (len(layer) == 3 and layer[0] == "schemas" and layer[2] == "defaults")
        or (len(layer) == 5 and layer[0] == "schemas" and layer[2] == "tables" and layer[4] == "overrides")
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
