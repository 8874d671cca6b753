"""The checkpoints of one operation on the local disk: append-only JSONL under a lock, durable line by line (N1, N5)."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from dpone_provider.errors import DponeError
from dpone_provider.native.checkpoint import LONGEST_LINE, Checkpoint, Ledger, fold
from dpone_provider.native.files import Files, make_folder, replace, settle, told

CHECKPOINTS = "checkpoints.jsonl"
LOCK = "lock"


class CheckpointJournal:
    """The open journal of one operation; nobody else has it open. Safe to use from several threads.

    A line that did not end is no line: it is cut off before the next one is written. What ``latest`` says is durable.
    """

    def __init__(self, files: Files, fd: int, end: int, ledger: Ledger, held: ExitStack) -> None:
        self._files, self._fd, self._end, self._ledger, self._held = files, fd, end, ledger, held
        self._torn = False
        self._mutex = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, folder: Path, files: Files) -> CheckpointJournal:
        """Take the lock of the folder, which is made where it is missing, and read.

        Raises ``DponeError`` DPONE_TRANSFER_BUSY while another holds the lock, DPONE_TRANSFER_CHECKPOINT for what the
        disk refuses or another version wrote.
        """
        path = folder / CHECKPOINTS
        with ExitStack() as held:
            with told("DPONE_TRANSFER_CHECKPOINT", "The checkpoints cannot be read"):
                make_folder(files, folder)
                settle(files, folder)
                try:
                    lock = files.lock(folder / LOCK)
                except BlockingIOError:
                    raise DponeError("DPONE_TRANSFER_BUSY") from None
                held.callback(files.close, lock)
                found = files.read(path) or b""
                kept = found[: found.rfind(b"\n") + 1]
                ledger = fold(kept.decode("utf-8", "replace").split("\n"))
                # Whether a disk has the lines of a process that was killed, or whose fsync failed, nobody can say, and
                # an fsync of today would not. Written anew, they are durable before they are trusted.
                replace(files, path, kept)
                fd = files.open_append(path)
                held.callback(files.close, fd)
            return cls(files, fd, len(kept), ledger, held.pop_all())

    def latest(self) -> Ledger:
        """The latest checkpoint of each partition."""
        return self._ledger

    def append(self, checkpoint: Checkpoint) -> bool:
        """Write a checkpoint durably; False, and nothing is written, where the ledger says no (COMMITTED ends it).

        Raises ``DponeError`` DPONE_TRANSFER_CHECKPOINT; then nothing is known of this line, and it is not trusted.
        """
        data = checkpoint.line().encode() + b"\n"
        if len(data) > LONGEST_LINE:
            raise DponeError("DPONE_TRANSFER_CHECKPOINT", "A checkpoint is too long: the source has too many columns.")
        with self._mutex:
            if self._closed:  # the descriptor may be another file's by now
                raise DponeError("DPONE_TRANSFER_CHECKPOINT", "The journal is closed.")
            if not self._ledger.may(checkpoint.partition_id, checkpoint.state):
                return False
            with told("DPONE_TRANSFER_CHECKPOINT", "A checkpoint cannot be written"):
                self._write(data)
            self._ledger = self._ledger.after(checkpoint)
        return True

    def _write(self, data: bytes) -> None:
        if self._torn:
            self._files.truncate(self._fd, self._end)
        self._torn = True
        self._files.write(self._fd, data)
        self._files.fsync(self._fd)
        self._end += len(data)
        self._torn = False

    def close(self) -> None:
        """Give the lock back. Nothing happens the second time."""
        with self._mutex:
            self._closed = True
        with suppress(OSError):  # what was told as written was synced, and a descriptor is gone in any case
            self._held.close()

    def __enter__(self) -> CheckpointJournal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
