"""The paths of a load by partitions: the one that is left to go is chosen once its journal is read (N4–N7, Q5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.payload import Coordinator, Loaded
from dpone_provider.load.transfer import Transfer
from dpone_provider.quality.failure import ReceiptBoundary


class PartitionedCoordinator:
    """Goes the path of what is not committed yet, or resumes; then publishes the report, last of all (N6).

    ``begin`` opens the transfer: it takes the lock, reads the journal and asks the source for its partitions.
    """

    sides = ("source", "target")

    def __init__(
        self,
        begin: Callable[[LoadExecution], Transfer],
        *,
        loads: Callable[[Transfer, LoadExecution], Coordinator],
        resumes: Callable[[Transfer], Coordinator],
        notify: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._begin = begin
        self._loads = loads
        self._resumes = resumes
        self._notify = notify
        self._transfer: Transfer | None = None
        self._path: Coordinator | None = None

    @property
    def boundary(self) -> ReceiptBoundary:
        """Where the gates of the chosen path run."""
        return self._path.boundary if self._path is not None else "pre_commit"

    def admit(self, execution: LoadExecution) -> None:
        """Open the transfer and admit its path. Raises ``DponeError``."""
        self._transfer = transfer = self._begin(execution)
        execution.standing.checkpoints = "not_advanced"
        execution.standing.earlier = bool(transfer.scope.skipped)
        committed = len(transfer.scope.skipped)
        self._notify(
            "planned", {"planned": len(transfer.partitions), "committed": committed, "attempt": transfer.attempt}
        )
        resumes = transfer.scope.resume_only
        self._path = self._resumes(transfer) if resumes else self._loads(transfer, execution)
        self._path.admit(execution)

    def load(self, execution: LoadExecution) -> Loaded:
        """Load or validate, then report. Raises ``DponeError``; what is committed stays committed (N5)."""
        transfer, path = self._transfer, self._path
        if transfer is None or path is None:
            raise LookupError("not admitted")
        try:
            loaded = path.load(execution)
            execution.require_accepted(loaded.receipt, self.boundary)
            execution.require_unchanged(execution.standing.boundary)
            report = loaded.receipt.report if loaded.receipt is not None else None
            if report is None:
                raise DponeError("DPONE_QUALITY_GATE_RECEIPT_REQUIRED")
            transfer.publish(self.boundary, report, loaded.acceptance, transfer.attempt)
        except DponeError as error:
            transfer.failed(error, execution.standing)
            raise
        return attrs.evolve(
            loaded,
            extracted_rows=execution.standing.extracted_rows or 0,
            attempts=tuple(attrs.evolve(each, number=transfer.attempt) for each in loaded.attempts),
            scope=transfer.scope.summary(),
        )

    def facts(self) -> Mapping[str, Any]:
        """The attempt's number, and what the path knows."""
        attempts = {"attempts": self._transfer.attempt} if self._transfer is not None else {}
        return {**attempts, **(self._path.facts() if self._path is not None else {})}
