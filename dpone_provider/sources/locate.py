"""From an authored path, pattern or URL to the files that it names, in sorted order."""

from __future__ import annotations

import glob
import os
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import pyarrow as pa

from dpone_provider.errors import DponeError

_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "hdfs": "pyarrow with libhdfs",
}


@attrs.frozen(kw_only=True)
class FileRef:
    """One file. ``name``: how messages call it, made of the authored path; ``path``: where it is in ``system``.

    ``system`` None: the local file system.
    """

    name: str
    path: str = attrs.field(repr=False)
    system: Any = attrs.field(default=None, repr=False)

    def open(self) -> Any:
        """A pyarrow input file. Raises ``OSError``."""
        if self.system is None:
            return pa.OSFile(self.path, "r")
        return pa.PythonFile(self.system.open(self.path, "rb"), mode="r")


def locate(path: str, base: str) -> list[FileRef]:
    """The files of a source, sorted by path.

    Relative paths start at ``base``, the manifest's folder. Raises ``DponeError`` DPONE_SOURCE_NOT_FOUND when there is
    none, DPONE_SOURCE_INVALID when the path cannot be used.
    """
    local = _local(path, base)
    try:
        system, found, root = (None, *_local_files(local, path)) if local is not None else _remote_files(path, base)
    except OSError:
        raise _missing(path, "cannot be looked up") from None
    if not found:
        raise _missing(path, "matches no file" if glob.has_magic(path) else "does not exist")
    single = found == [root]
    return [
        FileRef(name=path if single else f"{path} ({os.path.basename(item)})", path=item, system=system)
        for item in sorted(found)
    ]


def file_names(path: str, base: str) -> list[str]:
    """What each file of a source is known by to ``locate_one``: relative to ``base`` where the path is. Raises too."""
    relative = _local(path, base) is not None and not path.startswith("file://") and not os.path.isabs(path)
    return [os.path.relpath(file.path, base) if relative else file.path for file in locate(path, base)]


def locate_one(path: str, base: str, name: str) -> FileRef:
    """One file of a source, by its name of ``file_names``; raises as ``locate`` does."""
    called = f"{path} ({os.path.basename(name)})"
    try:
        system = None if _local(path, base) is not None else _remote(path, base)[0]
        file = os.path.join(base, name) if system is None else name
        there = os.path.isfile(file) if system is None else system.isfile(file)
    except OSError:
        raise _missing(path, "cannot be looked up") from None
    if not there:
        raise _missing(called, "does not exist any more")
    return FileRef(name=called, path=file, system=system)


def _local(path: str, base: str) -> str | None:
    """The path on this machine, None for a URL of another kind."""
    if "::" in path:
        return None
    if path.startswith("file://"):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise _unusable(path, "names another machine")
        return unquote(parts.path)
    return None if "://" in path else _based(path, path, base)


def _based(path: str, part: str, base: str) -> str:
    if os.path.isabs(part):
        return part
    if not base:
        raise _unusable(path, "is relative, and there is no manifest whose folder it could start from")
    return os.path.join(base, part)


def _local_files(path: str, authored: str) -> tuple[list[str], str]:
    if os.path.isdir(path):
        raise _missing(authored, "is a folder", "Write a pattern such as folder/*.csv.")
    if os.path.isfile(path):
        return [path], path
    if os.path.exists(path):  # a pipe would block for ever in C, where no signal is heard
        raise _missing(authored, "is not a regular file")
    return [item for item in glob.glob(path, recursive=True) if os.path.isfile(item)], path


def _remote_files(path: str, base: str) -> tuple[Any, list[str], str]:
    try:
        system, root = _remote(path, base)
    except FileNotFoundError:
        return None, [], path
    if glob.has_magic(root) and not system.isfile(root):
        return system, [item for item in system.glob(root) if system.isfile(item)], root
    return system, [root] if system.isfile(root) else [], root


def _remote(path: str, base: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise _package(path, "fsspec") from None
    head, chain, last = path.rpartition("::")
    url = f"{head}{chain}{_based(path, last, base)}" if chain and "://" not in last else path
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError:
        raise _package(path, _package_of(path)) from None
    except (ValueError, TypeError):
        raise _unusable(path, "is not a URL that fsspec understands") from None


def _package_of(path: str) -> str:
    protocols = [part.partition("://")[0] for part in path.split("::") if "://" in part]
    return next((_PACKAGES[name] for name in protocols if name in _PACKAGES), f"one for {protocols[0]}://")


def _package(path: str, package: str) -> DponeError:
    return DponeError(
        "DPONE_SOURCE_INVALID",
        f"Reading {path} needs the Python package {package}, which is not installed.",
        remedy=f"Install {package}.",
    )


def _unusable(path: str, problem: str) -> DponeError:
    return DponeError("DPONE_SOURCE_INVALID", f"The path {path} {problem}.", remedy="Correct source.path.")


def _missing(path: str, problem: str, remedy: str = "") -> DponeError:
    return DponeError(
        "DPONE_SOURCE_NOT_FOUND",
        f"The source {path} {problem}.",
        remedy=remedy or "Correct source.path; a relative path starts at the manifest's folder.",
    )
