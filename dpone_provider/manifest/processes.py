"""From the merged tree of one process to its LoadSpec; the same way for manifests and for inline arguments."""

from __future__ import annotations

from dpone_provider.manifest.airflow_advice import read_task_advice
from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.grammar.declare import keys
from dpone_provider.manifest.grammar.families import Process
from dpone_provider.manifest.nodes import Mapping, holds_refused, locate, plain
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.replay_route import gate_faults, note, refuse_unsupported
from dpone_provider.manifest.sinks import read_sink
from dpone_provider.manifest.sources import read_source
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.manifest.tables import HOOKS, Place
from dpone_provider.quality.policy import QualityPolicy, parse_quality

PROCESS_KEYS = keys(Process)
_LATER = {
    "transforms": "transforms are not available yet",
    **dict.fromkeys(("pre_sql", "post_sql", "hooks"), HOOKS),
}


def read_process(node: Mapping, place: Place, log: ProblemLog) -> LoadSpec | None:
    """The LoadSpec of a merged process, or None after noting what is wrong with it.

    ``process``, ``selector`` and ``manifest`` stay empty: the caller names the process.
    """
    before = log.reports
    fields = Fields(node, log, PROCESS_KEYS, _LATER)
    source_node = fields.mapping("source", required=True)
    sink_node = fields.mapping("sink", required=True)
    source = read_source(source_node, place, log) if source_node else None
    sink = read_sink(sink_node, place, log) if sink_node else None
    quality = _read_quality(fields, log)
    depends_on = fields.texts("depends_on")
    metadata = fields.mapping("metadata")
    read_task_advice(metadata, log)
    note(node, quality, gate_faults(quality), log)
    if sink is not None:
        refuse_unsupported(node, source, sink, quality, log)
    if source is None or sink is None or log.reports != before:
        return None
    return LoadSpec(
        process="",
        selector="",
        source=source,
        sink=sink,
        quality=quality,
        depends_on=tuple(name for name, _ in depends_on),
        metadata=tuple(plain(metadata).items()) if metadata else (),
    )


def _read_quality(fields: Fields, log: ProblemLog) -> QualityPolicy:
    """The quality policy; its problems get the places of the nodes that they name."""
    node = fields.mapping("quality")
    if node is None:
        return QualityPolicy()
    if holds_refused(node):
        log.reports += 1
        return QualityPolicy()
    policy, problems = parse_quality(plain(node), path=())
    for problem in problems:
        log.add(locate(node, problem.path), problem.code, problem.message, problem.remedy)
    return policy
