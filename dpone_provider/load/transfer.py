"""One attempt at a transfer by partitions: what is planned, what earlier attempts left, what is kept of this one.

Checkpoints come first (N5): nothing is judged, captured or reported that is not durable in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa

from dpone_provider import canonical
from dpone_provider.errors import DponeError
from dpone_provider.load.execution import Standing
from dpone_provider.native.artifact import Artifact, ArtifactStore, Columns
from dpone_provider.native.checkpoint import LONGEST_LINE, Checkpoint, Ledger, State
from dpone_provider.native.files import Files, replace, told
from dpone_provider.native.journal import CheckpointJournal
from dpone_provider.native.partition import FilePart, TransferPartition
from dpone_provider.native.report import TransferFailure, TransferReport, prepare, publish_failure, publish_success
from dpone_provider.native.scope import NativeSnapshots, NativeTransferContext, NativeTransferQualityScope
from dpone_provider.quality.gates import QualityGateReport

TARGETS: Final = "targets.json"


@attrs.frozen(kw_only=True)
class TransferRun:
    """Who runs a transfer of which source, and where it keeps what. ``folder``: of the operation, local."""

    run_id: str
    load_id: str
    operation_id: str
    dataset: str
    folder: Path
    files: Files


class Transfer:
    """An attempt, its journal open. ``replaces``: its committed partitions stay as they are and are skipped.

    ``schema``: of every partition, None where only reading one tells it.

    ``staged``: every active partition is staged by now.
    Files are skipped never singly: which partitions of the target they hold is known only once they are staged.
    """

    def __init__(
        self,
        run: TransferRun,
        journal: CheckpointJournal,
        store: ArtifactStore,
        partitions: tuple[TransferPartition, ...],
        *,
        schema: pa.Schema | None,
        replaces: bool,
    ) -> None:
        prepare(run.folder, run.files)
        self.run = run
        self.store = store
        self.partitions = partitions
        self.schema = schema
        self.staged = False
        self._journal = journal
        before = journal.latest()
        whole = not replaces or any(isinstance(each.part, FilePart) for each in partitions)
        self.scope = NativeTransferQualityScope.from_context(
            NativeTransferContext(
                partitions=partitions, ledger=before, mode="full_refresh" if whole else "partition_replace"
            )
        )
        # What is committed again comes first: until the last one is, nobody takes an older count for what is live.
        again = self.scope.reactivated
        mine = (each for each in partitions if each.partition_id in self.scope.active)
        self.active = tuple(sorted(mine, key=lambda each: each.partition_id not in again))
        self._now: dict[str, Checkpoint] = {
            each.partition_id: found
            for each in self.active
            if (found := before.latest.get(each.partition_id)) is not None and found.state != "failed"
        }
        last = max((each.attempt for each in before.latest.values()), default=0)
        self.attempt = last + 1 if self.active or not partitions else max(last, 1)

    @property
    def ledger(self) -> Ledger:
        """What is durable by now."""
        return self._journal.latest()

    def reusable(self, partition: TransferPartition) -> Columns | None:
        """The columns of a partition's artefact, None unless an earlier attempt left it and it is intact.

        One that cannot be read is not intact: the source still is.
        """
        found = self._now.get(partition.partition_id)
        if found is None or found.sha256 is None or found.bytes is None or found.exported_rows is None:
            return None
        artifact = Artifact(rows=found.exported_rows, bytes=found.bytes, sha256=found.sha256)
        try:
            intact = self.store.intact(partition.partition_id, artifact)
            return self.store.shape(partition.partition_id)[0] if intact else None
        except DponeError:
            return None

    def planned(self, partition: TransferPartition) -> None:
        """Its artefact is about to be written; what an earlier one said is void."""
        self._now.pop(partition.partition_id, None)
        self._mark(partition, "planned")

    def exported(self, partition: TransferPartition, artifact: Artifact, null_counts: Mapping[str, int]) -> None:
        """Its artefact is durable."""
        values = {"exported_rows": artifact.rows, "bytes": artifact.bytes, "sha256": artifact.sha256}
        self._mark(partition, "exported", null_counts=dict(null_counts), **values)

    def loaded(self, partition: TransferPartition, rows: int | None) -> None:
        """It is staged; ``rows``: as the server counts them, None when it does not say.

        Raises ``DponeError`` DPONE_STAGED_COUNT_MISMATCH for another number than the artefact holds.
        """
        sent = self._now[partition.partition_id].exported_rows
        if rows is not None and rows != sent:
            raise DponeError("DPONE_STAGED_COUNT_MISMATCH", f"{sent} rows were sent, the server counts {rows}.")
        self._mark(partition, "loaded", loaded_rows=rows)

    def refused(self, partition: TransferPartition, error: DponeError) -> None:
        """A worker could not move it. FAILED, with the code, unless a retry alone may do it (N7)."""
        if not error.retryable:
            with suppress(DponeError):  # what cannot be kept of a failure never stands in its way
                self._fail(partition, error)

    def committed(self, partitions: Iterable[TransferPartition]) -> None:
        """They are in the target, for good: nothing makes them anything else again (N5)."""
        for partition in partitions:
            self._mark(partition, "finalized")
            self._mark(partition, "committed")

    def _mark(self, partition: TransferPartition, state: State, **values: Any) -> None:
        before = self._now.get(partition.partition_id)
        fresh = Checkpoint(partition_id=partition.partition_id, state=state, attempt=self.attempt)
        now = attrs.evolve(before or fresh, state=state, attempt=self.attempt, error_code=None, **values)
        self._journal.append(now)
        self._now[partition.partition_id] = now

    def projected(self) -> NativeSnapshots:
        """Both sides of the logical workload before the commit: what is active as staged, the rest as committed."""
        exported = {each: found.exported_rows for each, found in self._now.items()}
        staged = {each: found.loaded_rows for each, found in self._now.items()}
        return self.scope.projected_snapshots(exported, staged, self.ledger)

    def null_counts(self, columns: Iterable[str]) -> dict[str, int | None]:
        """The source's NULLs in the logical workload."""
        exported = {each: found.null_counts for each, found in self._now.items()}
        return self.scope.null_counts(columns, exported, self.ledger)

    def columns(self) -> tuple[str, ...]:
        """The names of the columns that were exported, of a partition that is committed; () when none is."""
        ledger = self.ledger
        found = (ledger.committed(each.partition_id) for each in self.partitions)
        return tuple(next((tuple(each.null_counts) for each in found if each is not None), ()))

    def keep_targets(self, ids: Iterable[str]) -> None:
        """Keep which partitions of the target the files went to. Raises DPONE_TRANSFER_CHECKPOINT."""
        with told("DPONE_TRANSFER_CHECKPOINT", "The target's partitions cannot be kept"):
            replace(self.run.files, self.run.folder / TARGETS, canonical.encode({"ids": sorted(ids)}).encode())

    def targets(self) -> tuple[str, ...]:
        """The partitions of the target that the files went to; () when nothing is known of them."""
        with told("DPONE_TRANSFER_CHECKPOINT", "The target's partitions cannot be read"):
            found = self.run.files.read(self.run.folder / TARGETS)
        return tuple(canonical.decode(found.decode(), max_bytes=LONGEST_LINE)["ids"]) if found is not None else ()

    def publish(self, boundary: str, gates: QualityGateReport, acceptance: Mapping[str, Any], attempts: int) -> None:
        """Publish the success, last of all (N6), then let the artefacts go. Raises DPONE_TRANSFER_REPORT."""
        ledger, run = self.ledger, self.run
        report = TransferReport(
            run_id=run.run_id,
            load_id=run.load_id,
            operation_id=run.operation_id,
            attempts=attempts,
            boundary=boundary,
            scope=self.scope.summary(),
            committed=self._committed(),
            rows=self.scope.committed_snapshots(ledger).source.row_count,
            gates=gates,
            acceptance=acceptance,
        )
        publish_success(run.folder, run.files, report)
        self._forget()

    def failed(self, error: DponeError, standing: Standing) -> None:
        """Leave what may be said of a failure; none of it stands in the error's way (X7, N7).

        What was staged and then refused as a whole is marked FAILED and its artefacts removed: a retry reads it again.
        """
        run = self.run
        if self.staged and standing.target == "not_mutated" and not error.retryable:
            with suppress(DponeError):
                for partition in self.active:
                    self._fail(partition, error)
                self._forget()
        failure = TransferFailure(
            run_id=run.run_id,
            load_id=run.load_id,
            operation_id=run.operation_id,
            attempts=self.attempt,
            error_code=error.code,
            failure_boundary=standing.boundary,
            scope=self.scope.summary(),
            committed=self._committed(),
        )
        publish_failure(run.folder, run.files, failure)

    def _fail(self, partition: TransferPartition, error: DponeError) -> None:
        fresh = Checkpoint(partition_id=partition.partition_id, state="failed", attempt=self.attempt)
        self._journal.append(attrs.evolve(fresh, error_code=error.code))

    def _forget(self) -> None:
        self.store.remove(each.partition_id for each in self.partitions)

    def _committed(self) -> int:
        ledger = self.ledger
        return sum(ledger.is_committed(each.partition_id) for each in self.partitions)
