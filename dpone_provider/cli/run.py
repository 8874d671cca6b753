"""``dpone run``: one load, its outcome as one screen or one JSON document (O1–O3)."""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import TYPE_CHECKING, Any

from dpone_provider.cli import arguments
from dpone_provider.cli.emit import DONE, code_of, message_of, one_document, write_document
from dpone_provider.errors import Boundary, DponeError, TargetCommit
from dpone_provider.load.known import REPEATS, Known

if TYPE_CHECKING:
    from dpone_provider.cli.progress import Told
    from dpone_provider.load.outcome import RunIdentity
    from dpone_provider.manifest.spec import LoadSpec

_BOUNDARIES: dict[TargetCommit | None, Boundary] = {
    None: "admission",
    "not_started": "pre_commit",
    "unknown": "post_commit",
    "proven": "post_commit",
}
FRESH = "a fresh manual-<uuid4 hex>, which is printed"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the command ``run``; returns its parser."""
    parser = subparsers.add_parser(
        "run",
        help="run one load to its proven end",
        description=(
            "Run one process of a manifest. The same namespace, DAG, run, task, map index, process and target are the "
            "same operation, here and in Airflow: repeating the exact command finishes what is missing and repeats "
            "nothing. Without --run-id every call is a new operation, so running it again is no recovery."
        ),
    )
    arguments.add_process(parser)
    arguments.add_identity(parser, without_run_id=FRESH)
    arguments.add_connections(parser)
    arguments.add_format(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run it. Raises what stopped the load, after its document or screen was written."""
    attempt = Attempted(args)
    with one_document(args.format, attempt.failure):
        try:
            document = attempt.perform()
        except (DponeError, KeyboardInterrupt) as error:
            if args.format == "text" and attempt.spec is not None:
                _show(attempt.failure(error), to_stderr=True)
            raise
    if args.format == "json":
        write_document(document)
    else:
        _show(document, to_stderr=False)
    return DONE


class Attempted:
    """One invocation: what is known of it so far, for the document of a failure at any point."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._run_id: str = args.run_id if args.run_id is not None else f"manual-{uuid.uuid4().hex}"
        self._told: Told | None = None
        self._effects: dict[str, int] | None = None
        self._identity: RunIdentity | None = None
        self.spec: LoadSpec | None = None

    def perform(self) -> dict[str, Any]:
        """Run the load and return its document. Raises ``DponeError`` or what interrupted it."""
        from dpone_provider.manifest.read import load_spec

        args = self._args
        spec = load_spec(args.manifest, args.selector)
        self._identity = arguments.identity_of(args, spec, self._run_id)
        self.spec = spec
        if args.format == "text":
            sys.stderr.write(f"run id {self._run_id}\n")  # before anything happens: a killed load can be named again
        return self._load(spec, self._identity)

    def _load(self, spec: LoadSpec, identity: RunIdentity) -> dict[str, Any]:
        from dpone_provider.cli.interrupt import terminable
        from dpone_provider.cli.progress import Told, shown
        from dpone_provider.runtime.compose import Surroundings
        from dpone_provider.runtime.connections import StaticConnections
        from dpone_provider.runtime.run import run_load
        from dpone_provider.wire import DirectWire

        connections = StaticConnections(self._args.connections)
        wire = DirectWire()
        with terminable(), shown(self._args.format) as show:
            self._told = told = Told(show)
            try:
                outcome = run_load(spec, identity, connections, Surroundings(notify=told.notify, wire=wire))
            finally:
                self._effects = _effects(wire)
        return self._complete(outcome.document())

    def failure(self, error: BaseException) -> dict[str, Any]:
        """The document of a failure: as much as is known, no claim beyond it (O4)."""
        from dpone_provider.load.outcome import failure_document

        if self.spec is None or self._identity is None:
            return unread_document(error, self._args, self._run_id)
        return self._complete(failure_document(self._as_dpone(error), self.spec, self._identity))

    def _as_dpone(self, error: BaseException) -> DponeError:
        if isinstance(error, DponeError):
            return error
        message, next_step = message_of(error)
        known = self._told.known if self._told is not None else Known()
        if known.repeats:
            next_step = f"Look at the table first. {REPEATS}"
        return DponeError(
            code_of(error),
            message,
            remedy=next_step,
            retryable=False if known.repeats else None,
            boundary=_BOUNDARIES[known.target_commit],
            target_commit=known.target_commit,
            context={"attempts": known.attempt, "counters": {"extracted_rows": known.rows}} if known.step else {},
        )

    def _complete(self, document: dict[str, Any]) -> dict[str, Any]:
        """Add what the command line knows: the target, the identity, and what this invocation sent."""
        spec, identity = self.spec, self._identity
        if spec is not None and identity is not None:
            document["target"] = f"{spec.sink.table.database}.{spec.sink.table.name}"
            names = ("namespace", "dag_id", "run_id", "task_id", "map_index")
            document["identity"] = {name: getattr(identity, name) for name in names}
        if self._effects is not None:
            document["effects"] = self._effects
        return document


def unread_document(error: BaseException, args: argparse.Namespace, run_id: str) -> dict[str, Any]:
    """The document of a run that ended before its process was known: the same fields, nothing claimed."""
    message, next_step = message_of(error)
    problems = error.context.get("problems", []) if isinstance(error, DponeError) else []
    errors = [{**problem, "next_step": problem["remedy"]} for problem in problems]
    boundary = error.boundary if isinstance(error, DponeError) else "authoring"
    retryable = error.retryable if isinstance(error, DponeError) else False
    return {
        "manifest": args.manifest,
        "process": None,
        "selector": args.selector,
        "run_id": run_id,
        "passed": False,
        "attempts": 0,
        "error_code": code_of(error),
        "quality_gates": None,
        "evidence": None,
        "failure_context": {"failure_boundary": boundary, "retryable": retryable, "next_step": next_step},
        "replay_details": {"error_code": code_of(error), "current_run_id": run_id},
        "result": {
            "status": "failed",
            "inserted_rows": 0,
            "updated_rows": 0,
            "final_rows": None,
            "extracted_rows": 0,
            "duration_seconds": 0.0,
            "errors": errors or [{"code": code_of(error), "message": message, "next_step": next_step}],
        },
    }


def _effects(wire: Any) -> dict[str, int]:
    """What this invocation sent, as counted on the wire (P7)."""
    counts = wire.counts
    return {
        "source_reads": counts["source_open"],
        "inserts": counts["insert"] + counts["append"],
        "exchanges": counts["exchange"],
        "replacements": counts["replace_partition"],
        "renames": counts["rename"],
        "drops": counts["drop"],
        "authority_writes": counts["authority_create"] + counts["authority_cas"],
    }


def _show(document: dict[str, Any], *, to_stderr: bool) -> None:
    from dpone_provider.cli.outcome_screen import outcome_screen
    from dpone_provider.cli.show import show

    show(outcome_screen(document), to_stderr=to_stderr)
