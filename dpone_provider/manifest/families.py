"""Which kind of manifest a tree is, and the reader that knows it."""

from __future__ import annotations

import attrs

from dpone_provider.manifest import batch, config, flow, fragments
from dpone_provider.manifest.fields import did_you_mean
from dpone_provider.manifest.nodes import Mapping, Node, Scalar
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.spec import LoadSpec

KINDS = (batch.KIND, flow.KIND, fragments.KIND, config.KIND)


@attrs.frozen(kw_only=True)
class Reading:
    """What a manifest says. ``fragments``: the files that it was read from besides its own.

    ``part``: it is a fragment; what it means is known to its flow only, so that it has no processes of its own.
    """

    processes: tuple[LoadSpec, ...] = ()
    fragments: tuple[str, ...] = ()
    part: bool = False


def read_manifest(root: Node, base: str, log: ProblemLog) -> Reading:
    """Read a tree of any kind; all problems go to ``log`` (M11). ``base``: the manifest's folder, "" for none."""
    if not isinstance(root, Mapping):
        log.add(root.at, "DPONE_MANIFEST_TYPE", "a manifest is a mapping")
        return Reading()
    match _kind(root, log):
        case batch.KIND:
            return Reading(processes=batch.read_batch(root, base, log))
        case flow.KIND:
            processes, files = flow.read_flow(root, base, log)
            return Reading(processes=processes, fragments=files)
        case fragments.KIND:
            fragments.check_fragment(root, base, log)
            return Reading(part=True)
        case config.KIND:
            return Reading(processes=config.read_config(root, base, log))
        case _:
            return Reading()


def _kind(root: Mapping, log: ProblemLog) -> str | None:
    node = root.get("kind")
    word = node.value if isinstance(node, Scalar) else None
    if node is None:
        log.add(root.at.child("kind"), "DPONE_MANIFEST_KIND", '"kind" is missing', f"Write one of: {', '.join(KINDS)}.")
    elif word not in KINDS:
        remedy = did_you_mean(word, KINDS) if isinstance(word, str) else f"Write one of: {', '.join(KINDS)}."
        log.add(node.at, "DPONE_MANIFEST_KIND", "this kind is not known", remedy)
    return word if isinstance(word, str) else None
