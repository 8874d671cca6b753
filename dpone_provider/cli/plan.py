"""``dpone plan``: what a load would do, as far as its manifest alone can tell; nothing is connected to (M10, O5)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from dpone_provider.cli import arguments
from dpone_provider.cli.emit import DONE, one_document, plain_failure, write_document
from dpone_provider.cli.run import FRESH

if TYPE_CHECKING:
    from dpone_provider.cli.plan_steps import Places
    from dpone_provider.manifest.spec import LoadSpec, SourceSpec
    from dpone_provider.quality.acceptance_policy import AcceptanceMetricPolicy, ColumnCheck
    from dpone_provider.replay.identity import Operation

KIND = "dpone.plan.v1"
AUTHORITY = "dpone_replay_authority"
MARKS = "dpone_source_state"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``plan``; returns its parser."""
    parser = subparsers.add_parser(
        "plan",
        help="say what a load would do, offline",
        description=(
            "Show what a load of one process would do: its identity, tables, checks, budget and every step in order. "
            "Nothing is connected to and no connection is looked up; what cannot be known so is listed as such."
        ),
    )
    arguments.add_process(parser)
    arguments.add_identity(parser, without_run_id="none: `dpone run` would make a fresh one")
    arguments.add_format(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """0 when there is a plan; raises otherwise."""
    with one_document(args.format, plain_failure):
        document = plan(args)
    if args.format == "json":
        write_document(document)
    else:
        from dpone_provider.cli.plan_screen import plan_screen
        from dpone_provider.cli.show import show

        show(plan_screen(document))
    return DONE


def plan(args: argparse.Namespace) -> dict[str, Any]:
    """The document of ``dpone plan --format json`` (strict JSON). Raises ``DponeError`` as ``dpone run`` would."""
    from dpone_provider.cli.plan_partitions import partitions_of
    from dpone_provider.load.operation import operation_of
    from dpone_provider.manifest.read import NOTE, load_spec

    spec = load_spec(args.manifest, args.selector)
    named = args.run_id is not None
    operation = operation_of(spec, arguments.identity_of(args, spec, args.run_id if named else "fresh"))
    places = _places(spec, operation, named=named)
    return {
        "kind": KIND,
        "passed": True,
        "manifest": spec.manifest,
        "process": spec.process,
        "selector": spec.selector,
        "route": _route(spec),
        "identity": _identity(spec, operation, named=named),
        "tables": {"target": places.target, "staging": places.staging or None, "authority": places.authority or None},
        "source": _source(spec.source),
        "partitions": partitions_of(spec, operation.operation_id if named else None),
        "cursor": {"column": spec.source.cursor.column, "marks": places.marks} if spec.source.cursor else None,
        "columns": {"declared": dict(spec.sink.columns), "source": _source_columns(spec.source)},
        "budget": {"max_source_bytes": spec.sink.strategy.max_source_bytes},
        "depends_on": list(spec.depends_on),
        "checks": {
            "gates": [gate.snapshot(ordinal) for ordinal, gate in enumerate(spec.quality.gates)],
            "acceptance": _acceptance(spec),
        },
        "steps": _steps(spec, places),
        "unknown": [{"what": what, "known": known} for what, known in _unknown(spec, named=named)],
        "note": NOTE,
    }


def _places(spec: LoadSpec, operation: Operation, *, named: bool) -> Places:
    from dpone_provider.cli.plan_steps import Places

    durable, table = spec.sink.durable_quality_replay, operation.target.table
    prefix = operation.private_prefix if named else f"{table}__dpone_<operation id>_"
    staging = f"{operation.target.database}.{prefix}{'<epoch>' if durable else '0p<32 hex>'}"
    return Places(
        target=str(operation.target),
        staging=staging if spec.sink.strategy.mode != "append" else "",
        authority=f"{operation.target.database}.{AUTHORITY}" if durable else "",
        marks=f"{operation.target.database}.{MARKS}" if spec.source.cursor else "",
    )


def _route(spec: LoadSpec) -> dict[str, Any]:
    durable, adds = spec.sink.durable_quality_replay, spec.sink.strategy.mode == "append"
    finishes = "A retry of the same operation finishes what is missing; after the commit it reads no source."
    repeats = "A retry reads the source and publishes again: without the authority nothing is remembered."
    again = "A retry reads the source again and may add the same rows again"
    again += ", unless the mark of the source was advanced." if spec.source.cursor is not None else "."
    split = spec.source.partitions is not None
    goes_on = "A retry of the same run goes on: it reads no partition again whose file is whole, replaces none again"
    goes_on += " that is committed, and once all are committed it only checks."
    return {
        "name": "durable" if durable else "direct" if adds else "partitioned" if split else "plain",
        "mode": spec.sink.strategy.mode,
        "keep_previous": spec.sink.keep_previous,
        "retry": finishes if durable else again if adds else goes_on if split else repeats,
    }


def _identity(spec: LoadSpec, operation: Operation, *, named: bool) -> dict[str, Any]:
    from dpone_provider.manifest.digest import admission_digest

    made_of = {key: value for key, value in operation.payload().items() if key != "version"}
    return {
        "operation_id": operation.operation_id if named else None,
        "fresh_run_id": not named,
        "run_id_would_be": None if named else FRESH,
        "made_of": made_of if named else {**made_of, "run_id": None},
        "target_key": operation.target.key,
        "admission_digest": admission_digest(spec),
        "policy_snapshot_id": spec.quality.snapshot_id,
    }


def _source(source: SourceSpec) -> dict[str, Any]:
    from dpone_provider.manifest.spec import FileSource, SqlSource
    from dpone_provider.quality.metric_request import query_dataset

    if isinstance(source, FileSource):
        return {"type": source.type, "format": source.format, "path": source.path}
    if isinstance(source, SqlSource):
        dataset = ".".join(filter(None, (source.schema, source.table)))
    else:
        dataset = f"{source.table.database}.{source.table.name}" if source.table is not None else ""
    dataset = dataset if source.query is None else query_dataset(source.query)
    return {"type": source.type, "connection": source.connection_ref, "dataset": dataset}


def _source_columns(source: SourceSpec) -> list[str] | None:
    """The names of the source's columns where its options say them all, else None."""
    from dpone_provider.manifest.spec import SqlSource

    if isinstance(source, SqlSource):
        return None
    options = dict(source.options)
    names = options.get("column_names") or options.get("columns")
    return list(names) if names else None


def _acceptance(spec: LoadSpec) -> dict[str, Any] | None:
    policy = spec.quality.acceptance
    if policy is None or not policy.enabled:
        return None
    names = _source_columns(spec.source)
    two = spec.sink.strategy.mode == "append" or spec.source.partitions is not None
    reachable = ("source", "target") if two else ("source", "staged", "target")
    return {
        "mode": policy.mode,
        "row_count": policy.row_count,
        "null_counts": _check(policy.null_counts),
        "distinct_counts": _check(policy.distinct_counts),
        "sides": [{"side": side, "available": side in reachable} for side in policy.sides],
        "columns": _selected(policy, names) if names is not None else None,
    }


def _check(check: ColumnCheck) -> str | list[str]:
    return check if isinstance(check, str) else list(check)


def _selected(policy: AcceptanceMetricPolicy, names: list[str]) -> dict[str, list[str]]:
    """Which columns a load with these columns would count, and which are asked for and not there."""
    from dpone_provider.quality.metric_request import plan_requests

    lenient = attrs.evolve(policy, mode="warn_only")  # what would be refused is shown, not raised
    request = plan_requests(lenient, dict.fromkeys(policy.sides, names), {})[0]
    return {
        "null_counts": list(request.null_columns),
        "distinct_counts": list(request.distinct_columns),
        "missing": list(request.unknown_columns),
    }


def _steps(spec: LoadSpec, places: Places) -> list[dict[str, Any]]:
    from dpone_provider.cli.plan_steps import steps

    return [
        {
            "number": number,
            "what": step.what,
            "on": step.on,
            "statements": list(step.statements),
            "effects": list(step.effects),
            "when": step.when or None,
        }
        for number, step in enumerate(steps(spec, places), start=1)
    ]


def _unknown(spec: LoadSpec, *, named: bool) -> Iterator[tuple[str, str]]:
    """What nobody can know offline, each with the moment at which the load finds it out."""
    from dpone_provider.cli.plan_steps import observes_target

    admission, adds = "at admission, before anything is changed", spec.sink.strategy.mode == "append"
    opened = f"when the source is opened, before anything is {'sent' if adds else 'staged'}"
    yield "the connection: address, credentials, and that it exists", "at admission"
    if spec.sink.cluster:
        yield f"the replicas: which ones {spec.sink.cluster} has; what is done on the server is done on each", admission
    yield "the server: that it answers, its version, the grants of its user", admission
    yield "the live table: whether it exists, its columns, engine, TTL, row policies, views that it feeds", admission
    if spec.sink.durable_quality_replay:
        yield (
            f"the authority: that {AUTHORITY} is provisioned, and in which database the connection keeps it",
            admission,
        )
        yield "the slot: which operation is in it, and whether it is this one", "when the slot is read"
        if observes_target(spec):
            yield "the reader: that a child process can be started and stopped on the worker", admission
    if not named:
        yield "the operation id: a fresh run id would be made", "when `dpone run` starts"
    if spec.source.partitions is not None:
        yield "the partitions: what the source holds, and which of them are committed already", admission
    if spec.source.cursor is not None:
        yield f"the mark of the source: that {MARKS} is provisioned, and where the last load left it", admission
    yield "the source: that it is there, its rows and bytes", "while it is read"
    if _source_columns(spec.source) is None:
        yield "the source's columns and their types, and so the columns that acceptance counts", opened
    else:
        yield "the types of the source's columns", opened
    yield "types of columns that the sink does not declare: the live table's, else derived from the source", opened
    yield "whether every value fits", "while it is read"
    yield "what the gates say", "after the rows were added" if adds else "before anything is published"
