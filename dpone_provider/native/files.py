"""The door of file effects: each method is one effect on the local disk, so that a test can break any of them."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from dpone_provider.errors import Boundary, DponeError
from dpone_provider.unwinding import on_failure


class Files(Protocol):
    """File effects; ``fd`` is what ``open_append``, ``create`` or ``lock`` gave. Every method may raise ``OSError``."""

    def mkdir(self, path: Path) -> bool:
        """Make one folder; False where it is already. ``FileNotFoundError`` without its parent."""

    def read(self, path: Path) -> bytes | None:
        """The whole content, None where there is no such file."""

    def open_append(self, path: Path) -> int:
        """Open for writing at its end; an empty file where there is none."""

    def create(self, path: Path) -> int:
        """Open an empty file for writing; what it held is gone."""

    def write(self, fd: int, data: bytes) -> None:
        """Write all of the data. After an error any part of it may be there."""

    def truncate(self, fd: int, size: int) -> None:
        """Cut to ``size`` bytes."""

    def fsync(self, fd: int) -> None:
        """What was written survives a loss of power."""

    def close(self, fd: int) -> None:
        """Give the descriptor back, and a lock with it."""

    def fsync_dir(self, path: Path) -> None:
        """The names in a folder survive a loss of power."""

    def rename(self, old: Path, new: Path) -> None:
        """Put a file in the place of another, atomically."""

    def unlink(self, path: Path) -> None:
        """Remove a file; nothing to do where there is none."""

    def lock(self, path: Path) -> int:
        """Hold a lock file until it is closed or the process ends. ``BlockingIOError`` while another holds it."""


class LocalFiles:
    """The real disk."""

    def mkdir(self, path: Path) -> bool:
        try:
            path.mkdir()
        except FileExistsError:
            return False
        return True

    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def open_append(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def lock(self, path: Path) -> int:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with on_failure(lambda: os.close(fd)):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd


@contextmanager
def told(code: str, what: str, *, boundary: Boundary | None = None) -> Iterator[None]:
    """An ``OSError`` inside becomes a ``DponeError`` of this code; of it only the error's name is kept, no path."""
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "unknown")
        raise DponeError(code, f"{what} ({name}).", boundary=boundary) from None


def make_folder(files: Files, path: Path) -> None:
    """The folder and those above it are there, and stay after a loss of power. Raises ``OSError``."""
    try:
        files.mkdir(path)
    except FileNotFoundError:
        make_folder(files, path.parent)
        files.mkdir(path)
    files.fsync_dir(path.parent)


def settle(files: Files, path: Path) -> None:
    """All folders above ``path`` stay after a loss of power, even if a process that died had made them.

    Those that we may not open, and places that cannot be asked, are nothing that we have made. Raises ``OSError``.
    """
    for above in path.parents:
        try:
            files.fsync_dir(above)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP):
                raise


def replace(files: Files, path: Path, data: bytes) -> None:
    """The file has this content, wholly or as before, also after a loss of power. Raises ``OSError``."""
    temporary = path.with_name(f"{path.name}.tmp")
    fd = files.create(temporary)
    try:
        files.write(fd, data)
        files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path)
    files.fsync_dir(path.parent)
