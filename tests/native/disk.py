"""A disk that can lose its power, and files that break at one effect of our choice."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from dpone_provider.native.files import Files
from tests.crash.wire import Died

Outcome = Literal["nothing", "names", "data", "all"]
OUTCOMES: tuple[Outcome, ...] = ("nothing", "names", "data", "all")
"""What of all that was never synced a loss of power leaves: it may have been written, or not."""


class Content:
    """A file's bytes: what every process sees, and what stays without power."""

    def __init__(self) -> None:
        self.seen = b""
        self.kept = b""
        self.lost: set[int] = set()  # bytes that a failed fsync gave up; no later one writes them

    def synced(self) -> bytes:
        return bytes(0 if at in self.lost else byte for at, byte in enumerate(self.seen)) if self.lost else self.seen


class Disk:
    """A disk with a cache: bytes are durable after ``fsync``, names after ``fsync_dir`` of their folder."""

    def __init__(self) -> None:
        self.names: dict[Path, Content | None] = {Path("/"): None}
        self.kept_names = dict(self.names)
        self.open: dict[int, Content] = {}
        self.locks: dict[int, Path] = {}
        self._fds = iter(range(3, 10**9))

    def mkdir(self, path: Path) -> bool:
        if path.parent not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no parent")
        found = path in self.names
        self.names.setdefault(path, None)
        return not found

    def read(self, path: Path) -> bytes | None:
        found = self.names.get(path)
        return None if found is None else found.seen

    def open_append(self, path: Path) -> int:
        return self._opened(path, new=False)

    def create(self, path: Path) -> int:
        return self._opened(path, new=True)

    def write(self, fd: int, data: bytes) -> None:
        self.open[fd].seen += data

    def truncate(self, fd: int, size: int) -> None:
        content = self.open[fd]
        content.seen = content.seen[:size]
        content.lost = {at for at in content.lost if at < size}

    def fsync(self, fd: int) -> None:
        content = self.open[fd]
        content.kept = content.synced()

    def fsync_failed(self, fd: int) -> None:
        content = self.open[fd]
        content.lost |= set(range(len(content.kept), len(content.seen)))

    def close(self, fd: int) -> None:
        self.open.pop(fd, None)
        self.locks.pop(fd, None)

    def fsync_dir(self, path: Path) -> None:
        for name in [name for name in self.kept_names if name.parent == path and name not in self.names]:
            del self.kept_names[name]
        self.kept_names |= {name: content for name, content in self.names.items() if name.parent == path}

    def rename(self, old: Path, new: Path) -> None:
        self.names[new] = self.names.pop(old)

    def unlink(self, path: Path) -> None:
        self.names.pop(path, None)

    def lock(self, path: Path) -> int:
        if path in self.locks.values():
            raise BlockingIOError(errno.EWOULDBLOCK, "held")
        fd = self._opened(path, new=False)
        self.locks[fd] = path
        return fd

    def process_dies(self) -> None:
        """The kernel closes what a dead process had open."""
        self.open.clear()
        self.locks.clear()

    def loses_power(self, outcome: Outcome) -> None:
        """Nothing is left but what was synced, and of the rest what the outcome says."""
        self.process_dies()
        if outcome in ("names", "all"):
            self.kept_names = dict(self.names)
        for content in {id(each): each for each in self.kept_names.values() if each is not None}.values():
            if outcome in ("data", "all"):
                content.kept = content.synced()
            content.seen, content.lost = content.kept, set()
        self.kept_names = {name: each for name, each in self.kept_names.items() if self._reachable(name)}
        self.names = dict(self.kept_names)

    def _reachable(self, name: Path) -> bool:
        return all(parent in self.kept_names for parent in name.parents)

    def _opened(self, path: Path, *, new: bool) -> int:
        if path.parent not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no parent")
        content = self.names.get(path)
        if content is None:
            content = self.names[path] = Content()
        if new:
            content.seen, content.lost = b"", set()
        fd = next(self._fds)
        self.open[fd] = content
        return fd


def outcomes(fault: dict[str, Any]) -> tuple[str, ...]:
    """What may be left after a break: the cache, or one loss of power of each kind."""
    return ("process", "all") if fault["mode"] == "torn" else ("process", *OUTCOMES)


def after(disk: Disk, outcome: Any) -> Disk:
    """The disk that the next process finds."""
    result = deepcopy(disk)
    if outcome == "process":
        result.process_dies()
    else:
        result.loses_power(outcome)
    return result


Mode = Literal["dies_before", "dies_after", "torn", "ENOSPC", "EIO", "EIO_after"]
MODES: tuple[Mode, ...] = ("dies_before", "dies_after", "ENOSPC", "EIO", "EIO_after")
WRITES = ("mkdir", "open_append", "create", "write", "truncate", "fsync", "fsync_dir", "rename", "unlink")


class Breaking:
    """Files that number their effects and break at one: the process dies, or the disk refuses.

    ``torn``: how many bytes of the write arrive before its end. A dead process has no further effect.
    """

    def __init__(self, files: Any, *, at: int = -1, mode: Mode = "dies_before", torn: int = 0) -> None:
        self.files, self.at, self.mode, self.torn = files, at, mode, torn
        self.effects: list[str] = []
        self.sizes: dict[int, int] = {}
        self.dead = False
        self.fds: set[int] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self.files, name)

        def effect(*args: Any) -> Any:
            if self.dead:
                raise Died
            number = len(self.effects)
            self.effects.append(name)
            if name == "write":
                self.sizes[number] = len(args[1])
            if number == self.at:
                self._break(name, call, args)
            return self._done(name, args, call(*args))

        return effect

    def _break(self, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if name == "write" and self.mode in ("torn", "ENOSPC"):
            call(args[0], args[1][: self.torn])
        elif name == "close" or self.mode in ("dies_after", "EIO_after"):  # a close that fails has closed
            self._done(name, args, call(*args))
        if self.mode in ("dies_before", "dies_after", "torn"):
            self.die()
        if name == "fsync":
            with suppress(AttributeError):
                self.files.fsync_failed(args[0])
        raise OSError(errno.ENOSPC if self.mode == "ENOSPC" else errno.EIO, "refused: /secret/path")

    def _done(self, name: str, args: tuple[Any, ...], result: Any) -> Any:
        if name in ("open_append", "create", "lock"):
            self.fds.add(result)
        elif name == "close":
            self.fds.discard(args[0])
        return result

    def die(self) -> None:
        """End the process: its descriptors are closed by the kernel."""
        self.dead = True
        for fd in self.fds:
            self.files.close(fd)
        raise Died


def faults(effects: list[str], sizes: dict[int, int], every_prefix_of: int) -> Iterator[dict[str, Any]]:
    """Each way to break each effect; a torn write of every prefix of one write, and a few of the others."""
    for at, name in enumerate(effects):
        modes = MODES if name in WRITES else MODES[:4]
        for mode in modes:
            yield {"at": at, "mode": mode, "torn": sizes.get(at, 0) // 2}
        if name == "write":
            size = sizes[at]
            for torn in range(1, size + 1) if at == every_prefix_of else (1, size - 1, size):
                yield {"at": at, "mode": "torn", "torn": torn}


def as_files(files: Breaking) -> Files:
    """The same, for the type checker."""
    return files  # type: ignore[return-value]
