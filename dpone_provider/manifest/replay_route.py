"""What a route cannot do, as far as a load alone can tell, before anything is looked up (M6, M7, Q1, X4).

There are four: the staged refresh, the same with ``durable_quality_replay: true``, ``append``, and the transfer of
``source.partitions``. ``false`` and defaults are inert (M5). One function tells for manifests, arguments and specs
made in Python (X1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpone_provider.errors import DponeError
from dpone_provider.manifest.grammar.sink import MODES
from dpone_provider.manifest.nodes import Node, Sequence, exists, find, locate, plain
from dpone_provider.manifest.problems import Path, ProblemLog
from dpone_provider.manifest.spec import LoadSpec, PhysicalDesign, SinkSpec, SourceSpec
from dpone_provider.manifest.sqltext import gate_fault, statement_fault
from dpone_provider.quality.gate_spec import CODE as GATE_CODE
from dpone_provider.quality.gate_spec import HASH_TYPE, SQL_TYPES
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.problems import FieldProblem

ROUTE = "DPONE_ROUTE_UNSUPPORTED"
_OPTIONS: Path = ("sink", "options")
_DESIGN: Path = (*_OPTIONS, "physical_design")
_STORAGE: Path = (*_DESIGN, "storage", "clickhouse")
_BUDGET: Path = ("sink", "strategy", "max_source_bytes")
_MODE: Path = ("sink", "strategy", "mode")
_CURSOR: Path = ("source", "cursor")
_PARTS: Path = ("source", "partitions")
_CLUSTER: Path = ("sink", "cluster")
_STAGING: Path = ("sink", "staging", "schema")
_GATES: Path = ("quality", "gates")
_ACCEPTANCE: Path = ("quality", "acceptance")
_REPLACES = "partition_replace"
_UNPARTED = "Remove source.partitions."
_TTL = re.compile(r"\bttl\b", re.IGNORECASE)
_REFRESHED = "Remove it; where it is inherited, write it only for the processes that are refreshed."
_OFF = "Set durable_quality_replay to false, or remove this."
Faults = Iterator[FieldProblem]


def route_faults(spec: LoadSpec) -> tuple[FieldProblem, ...]:
    """Everything that a load asks for and its route does not admit, and every SQL text that is not what it must be.

    Each with its code and the path that a manifest has for it, e.g. ``quality.gates[0].type``. Pure.
    """
    return (*_route(spec.source, spec.sink, spec.quality), *_hook_faults(spec.sink), *gate_faults(spec.quality))


def require_route(spec: LoadSpec) -> None:
    """Refuse what ``route_faults`` tells, before anything is looked up or connected to. Raises ``DponeError``."""
    for fault in route_faults(spec):
        raise DponeError(fault.code, f"{fault.field_path}: {fault.message}.", boundary="authoring", remedy=fault.remedy)


def refuse_unsupported(
    process: Node, source: SourceSpec | None, sink: SinkSpec, quality: QualityPolicy, log: ProblemLog
) -> None:
    """Note everything of a process that its route does not admit, where it was written."""
    unsaid = log.part and not exists(process, _MODE)
    faults = (fault for fault in _route(source, sink, quality) if not (unsaid and fault.path == _CURSOR))
    note(process, quality, faults, log)


def note(process: Node, quality: QualityPolicy, faults: Faults, log: ProblemLog) -> None:
    """Note faults of a process where they were written."""
    for fault in faults:
        at = locate(process, _authored(process, quality, fault.path))
        log.add(at, fault.code, fault.message, fault.remedy)


def _authored(process: Node, quality: QualityPolicy, path: Path) -> Path:
    """The authored path: gates with problems of their own are in the list too, but not in the policy."""
    listed = find(process, _GATES)
    if path[:2] != _GATES or not isinstance(listed, Sequence):
        return path
    wanted = quality.gates[int(path[2])].id
    ids = [plain(child) if (child := find(item, ("id",))) else None for item in listed.items]
    return (*_GATES, ids.index(wanted), *path[3:])


def gate_faults(quality: QualityPolicy) -> Faults:
    """Every SQL text of a gate that is not what a gate of its type takes (Q1)."""
    for index, gate in enumerate(quality.gates):
        fault = gate_fault(gate.type, gate.sql) if gate.sql is not None else None
        if fault:
            yield FieldProblem(path=(*_GATES, index, "sql"), code=GATE_CODE, message=fault, remedy="")


def _hook_faults(sink: SinkSpec) -> Faults:
    for key, statements in (("pre_sql", sink.pre_sql), ("post_sql", sink.post_sql)):
        for index, text in enumerate(statements):
            if fault := statement_fault(text):
                yield FieldProblem(path=("sink", key, index), code="DPONE_MANIFEST_VALUE", message=fault, remedy="")


def _route(source: SourceSpec | None, sink: SinkSpec, quality: QualityPolicy) -> Faults:
    append, durable = sink.strategy.mode == "append", sink.durable_quality_replay
    split = source is not None and source.partitions is not None
    if sink.strategy.mode not in MODES:
        yield _refused(_MODE, "there is no load of this mode", f"Use one of {', '.join(MODES)}.")
    if sink.cluster and append:
        yield _refused(_CLUSTER, "append adds rows through one server", "Leave sink.cluster out.")
    elif sink.cluster and not durable and not split:  # nobody would finish a switch that some replicas have made
        message = "a cluster needs durable_quality_replay: true"
        yield _refused(_CLUSTER, message, "Set it, so that a retry finishes what some replicas have not done.")
    if source is not None and source.cursor is not None and not append:
        message = "a cursor works with append only: a full refresh reads everything"
        yield _refused(_CURSOR, message, "Remove it, or set sink.strategy.mode to append.")
    if source is not None and (split or sink.strategy.mode == _REPLACES):
        yield from _partitioned(source, sink, quality)
    yield from _append(sink, quality) if append else _staged(sink)
    if durable:
        for path, message, remedy in _durable(sink, quality):
            yield _refused(path, f"with durable_quality_replay: true, {message}", remedy)


def _staged(sink: SinkSpec) -> Faults:
    if sink.staging_database is not None:  # the switch of two names works inside one database only
        remedy = "Leave sink.staging out, or name the target's schema."
        yield _refused(_STAGING, "staging must be in the target's database", remedy)
    engine = "ReplicatedMergeTree" if sink.cluster else "MergeTree"
    if sink.design.engine != engine:  # what merges away rows has no count that could be proven
        only = "" if sink.cluster else "; a replicated one needs sink.cluster"
        message = f"the engine must be plain {engine}{only}"
        yield _refused((*_STORAGE, "engine"), message, f"Write engine: {engine}, or leave it out.")


def _append(sink: SinkSpec, quality: QualityPolicy) -> Faults:
    """Nothing is staged and no table is made: what speaks of either has no meaning."""
    if sink.staging_database is not None:
        yield _refused(_STAGING, "append stages nothing", "Leave sink.staging out.")
    if sink.keep_previous:
        yield _refused((*_OPTIONS, "keep_previous"), "append replaces no table that could be kept", _REFRESHED)
    if sink.design != PhysicalDesign():
        yield _refused(_DESIGN, "append makes no table that a design could be of", _REFRESHED)
    for path, gate in _gates(quality, (*SQL_TYPES, HASH_TYPE)):
        message = f"append stages nothing that a gate of type {gate} could look at"
        yield _refused(path, message, "Use row_count_reconciliation or min_rows, or mode full_refresh.")
    yield from _no_staged_side(quality, "append has no staged rows")


def _no_staged_side(quality: QualityPolicy, reason: str) -> Faults:
    acceptance = quality.acceptance
    if acceptance is not None and acceptance.enabled and acceptance.mode == "required" and acceptance.staged:
        message = f"staged_acceptance_metric_unavailable: {reason}"
        yield _refused((*_ACCEPTANCE, "capture", "staged"), message, "Set capture.staged: false.")


def _partitioned(source: SourceSpec, sink: SinkSpec, quality: QualityPolicy) -> Faults:
    """What moves partition by partition: only what adds up over partitions has a meaning for the whole (N3)."""
    parts, mode = source.partitions, sink.strategy.mode
    if parts is None:
        message = "partition_replace needs source.partitions: it is not said what would be replaced"
        yield _refused(_PARTS, message, "Write source.partitions, or use mode full_refresh.")
        return
    if (parts.by == "file") is not (source.type == "file"):
        message = f"a source of type {source.type} has no partitions by {parts.by}"
        remedy = "Write file: true." if source.type == "file" else "Write range or list with a column."
        yield _refused((*_PARTS, parts.by), message, remedy)
    if mode == "append":
        yield _refused(_PARTS, "append adds rows in one insert, not by partitions", _UNPARTED)
    if sink.durable_quality_replay:
        message = "with durable_quality_replay: true, partitions are not supported: checkpoints are their own memory"
        yield _refused(_PARTS, message, f"{_UNPARTED} Or set durable_quality_replay to false.")
    if sink.cluster and mode != "append":
        yield _refused(_PARTS, "partitions are loaded through one server", f"{_UNPARTED} Or leave sink.cluster out.")
    if mode == _REPLACES and sink.keep_previous:
        yield _refused(
            (*_OPTIONS, "keep_previous"), "partition_replace replaces no table that could be kept", _REFRESHED
        )
    if mode != "append":
        for path, gate in _gates(quality, (*SQL_TYPES, HASH_TYPE), "error"):
            message = f"a gate of type {gate} has no answer for all partitions together"
            yield _refused(path, message, "Use row_count_reconciliation or min_rows, or severity warn.")
        yield from _no_staged_side(quality, "the rows of one partition are staged at a time")
    asked = quality.acceptance
    if asked is not None and asked.enabled and asked.mode == "required" and asked.distinct_counts != "none":
        message = "distinct values of partitions do not add up to those of the whole"
        path = (*_ACCEPTANCE, "checks", "distinct_counts")
        yield _refused(path, message, "Set it to none, or acceptance.mode to warn_only.")


def _durable(sink: SinkSpec, quality: QualityPolicy) -> Iterator[tuple[Path, str, str]]:
    if sink.strategy.mode == "append":
        yield _MODE, "append is not supported: nobody could tell its rows from others", _OFF
    else:
        for path, gate in _gates(quality, SQL_TYPES):
            message = f"gates of type {gate} are not supported"
            yield path, message, "Use row_count_reconciliation, min_rows or typed_hash_reconciliation."
    if sink.strategy.max_source_bytes is None:
        remedy = "Set it to the largest number of source bytes that a load may read."
        yield _BUDGET, "strategy.max_source_bytes must be set", remedy
    for key, statements in (("pre_sql", sink.pre_sql), ("post_sql", sink.post_sql)):
        if statements:
            yield ("sink", key), "a hook is not supported: what it does has no proof, and a retry could repeat it", _OFF
    for path, text in _texts(sink):
        if _TTL.search(text.replace("_", " ")):
            yield path, "TTL is not supported: it changes rows after they were proven", "Remove it."


def _gates(quality: QualityPolicy, types: tuple[str, ...], severity: str = "") -> Iterator[tuple[Path, str]]:
    for index, gate in enumerate(quality.gates):
        if gate.type in types and severity in ("", gate.severity):
            yield (*_GATES, index, "type"), gate.type


def _texts(sink: SinkSpec) -> Iterator[tuple[Path, str]]:
    """Every authored text that ends in the generation's CREATE TABLE, with its place."""
    yield from ((("sink", "columns", name), text) for name, text in sink.columns)
    yield from (((*_STORAGE, "order_by", index), text) for index, text in enumerate(sink.design.order_by))
    yield from (((*_STORAGE, "settings", name), name) for name, _ in sink.design.settings)
    if sink.design.partition_by is not None:
        yield (*_STORAGE, "partition_by"), sink.design.partition_by


def _refused(path: Path, message: str, remedy: str = "") -> FieldProblem:
    return FieldProblem(path=path, code=ROUTE, message=message, remedy=remedy)
