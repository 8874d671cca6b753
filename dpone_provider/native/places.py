"""Where artefacts are kept: a local folder, each file whole and durable, or a folder of any fsspec file system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import attrs

from dpone_provider.native.files import Files, make_folder
from dpone_provider.unwinding import on_failure


class Place(Protocol):
    """Where files of a transfer are kept. Every method may raise ``OSError``."""

    def write(self, name: str, fill: Callable[[Any], None]) -> None:
        """Let ``fill`` write into a file; it has its name only once it is whole and durable."""

    def open(self, name: str) -> Any:
        """A binary file to read. ``FileNotFoundError`` where there is none."""

    def remove(self, name: str) -> None:
        """Remove a file; nothing to do where there is none."""


@attrs.frozen(kw_only=True)
class LocalPlace:
    """A local folder."""

    folder: Path
    files: Files

    def write(self, name: str, fill: Callable[[Any], None]) -> None:
        files, path = self.files, self.folder / name
        make_folder(files, self.folder)
        temporary = path.with_name(f"{name}.tmp")
        with on_failure(lambda: files.unlink(temporary)):
            fd = files.create(temporary)
            try:
                fill(_Descriptor(files, fd))
                files.fsync(fd)
            finally:
                files.close(fd)
            files.rename(temporary, path)
            files.fsync_dir(self.folder)

    def open(self, name: str) -> Any:
        return (self.folder / name).open("rb")

    def remove(self, name: str) -> None:
        self.files.unlink(self.folder / name)


class RemotePlace:
    """A folder of any fsspec file system. What is written is trusted only once ``ArtifactStore`` has read it back."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._system, self._folder = url_to_fs(url)

    def write(self, name: str, fill: Callable[[Any], None]) -> None:
        self._system.makedirs(self._folder, exist_ok=True)
        with self._system.open(self._path(name), "wb") as handle:
            fill(handle)

    def open(self, name: str) -> Any:
        return self._system.open(self._path(name), "rb")

    def remove(self, name: str) -> None:
        if self._system.exists(self._path(name)):
            self._system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder.rstrip('/')}/{name}"


class _Descriptor:
    """A file that is written through the door of file effects."""

    def __init__(self, files: Files, fd: int) -> None:
        self._files = files
        self._fd = fd

    def write(self, data: bytes) -> None:
        self._files.write(self._fd, data)
