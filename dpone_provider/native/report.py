"""The reports of a partition transfer: a success is published last and atomically, a failure says a safe code (N6, N7).

Both hold counts, digests and verdicts only: no partition id, bound, path or SQL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.errors import CATALOGUE, Boundary, DponeError
from dpone_provider.native.files import Files, replace, told
from dpone_provider.quality.gates import QualityGateReport
from dpone_provider.quality.scope import QualityScopeSummary

REPORT_KIND = "dpone.native_transfer.report.v1"
FAILURE_KIND = "dpone.native_transfer.failure.v1"
REPORT, COMPANION, FAILURE = "report.json", "report.md", "failure.json"
_SNAPSHOT = ("row_count", "null_counts", "distinct_counts", "warnings")


@attrs.frozen(kw_only=True)
class TransferReport:
    """What is true of a transfer that is committed and accepted.

    ``rows``: of the logical workload, None = nobody can say; ``boundary``: where the gates ran; ``acceptance``:
    snapshots by side, of which the counts are kept. Raises ``ValueError`` where a planned partition is not committed or
    a gate blocks: there is no report of that.
    """

    run_id: str
    load_id: str
    operation_id: str
    attempts: int
    boundary: str
    scope: QualityScopeSummary
    committed: int
    rows: int | None
    gates: QualityGateReport
    acceptance: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.committed != self.scope.planned_count or not self.gates.passed:
            raise ValueError("a success needs every partition committed and no gate that blocks")

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "kind": REPORT_KIND,
            "passed": True,
            "run_id": self.run_id,
            "load_id": self.load_id,
            "operation_id": self.operation_id,
            "attempts": self.attempts,
            "boundary": self.boundary,
            "scope": self.scope.payload(),
            "committed_count": self.committed,
            "rows": self.rows,
            "gates": self.gates.payload(),
            "acceptance": {
                side: {name: snapshot[name] for name in _SNAPSHOT if name in snapshot}
                for side, snapshot in self.acceptance.items()
            },
        }

    def companion(self) -> str:
        """The same for people, as Markdown."""
        scope, gates = self.scope, self.gates.payload()["results"]
        return "\n".join(
            [
                "# Partition transfer: passed",
                "",
                "| | |",
                "|---|---|",
                f"| run | {_cell(self.run_id)} |",
                f"| load | {_cell(self.load_id)} |",
                f"| attempt | {self.attempts} |",
                f"| partitions | {scope.planned_count}: {scope.active_count} in this attempt, "
                f"{scope.skipped_committed_count} committed before, {scope.reactivated_count} of them again |",
                f"| rows | {'not known' if self.rows is None else self.rows} |",
                *(f"| gate {_cell(gate['gate_id'])} | {gate['status']} |" for gate in gates),
                "",
                f"Without `{REPORT}` beside it, this page proves nothing.",
                "",
            ]
        )


@attrs.frozen(kw_only=True)
class TransferFailure:
    """What may be said of a transfer that failed. ``scope`` and ``committed``: None where it failed before.

    Raises ``ValueError`` for an ``error_code`` that is none of ours.
    """

    run_id: str
    load_id: str
    operation_id: str
    attempts: int
    error_code: str = attrs.field(validator=attrs.validators.in_(CATALOGUE))
    failure_boundary: Boundary
    scope: QualityScopeSummary | None = None
    committed: int | None = None

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        scope = None if self.scope is None else self.scope.payload()
        return {"kind": FAILURE_KIND, "passed": False, **attrs.asdict(self, recurse=False), "scope": scope}


def prepare(folder: Path, files: Files) -> None:
    """Remove what a publication that died has left unfinished. Writes nothing.

    Raises ``DponeError`` DPONE_TRANSFER_CHECKPOINT.
    """
    with told("DPONE_TRANSFER_CHECKPOINT", "The folder of the transfer cannot be cleaned"):
        for name in (REPORT, COMPANION, FAILURE):
            files.unlink(folder / f"{name}.tmp")


def publish_success(folder: Path, files: Files, report: TransferReport) -> None:
    """Publish: the Markdown companion first, the JSON last, each wholly or not at all and durable.

    Raises ``DponeError`` DPONE_TRANSFER_REPORT; then no success of this run is there.
    """
    path, data = folder / REPORT, _text(report.document())
    with told("DPONE_TRANSFER_REPORT", "The report cannot be published"):
        replace(files, folder / COMPANION, report.companion().encode())
        files.unlink(folder / FAILURE)
        try:
            replace(files, path, data)
        except OSError:
            # A rename that failed may have been done: no success stays of a publication that failed.
            if files.read(path) == data:
                files.unlink(path)
                files.fsync_dir(folder)
            raise


def publish_failure(folder: Path, files: Files, failure: TransferFailure) -> bool:
    """Leave the failure's safe facts, or False where that failed too: it never replaces the failure itself."""
    try:
        with told("DPONE_TRANSFER_REPORT", "The failure cannot be reported"):
            replace(files, folder / FAILURE, _text(failure.document()))
    except DponeError:
        return False
    return True


def _text(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _cell(text: str) -> str:
    return "`" + "".join(letter if letter.isprintable() and letter not in "`|" else " " for letter in text) + "`"
