"""Compressed files as streams of their content; what is cut off or damaged fails instead of ending early."""

from __future__ import annotations

import lzma
import os
import zipfile
from typing import Any

import attrs
import pyarrow as pa

from dpone_provider.errors import DponeError
from dpone_provider.sources.locate import FileRef
from dpone_provider.unwinding import on_failure

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, lzma.LZMAError)
"""What reading damaged content raises, besides ``pa.ArrowInvalid``."""


@attrs.frozen(kw_only=True)
class Content:
    """A file's unpacked content: ``stream`` to read; close it here."""

    stream: Any
    raw: Any

    def close(self) -> None:
        """Close the content and the file under it."""
        self.stream.close()
        self.raw.close()


def open_content(file: FileRef) -> Content:
    """A file's content, unpacked by the end of its name.

    Raises ``DponeError`` DPONE_SOURCE_INVALID for an archive with more or less than one file, one of ``DAMAGED`` or
    ``pa.ArrowInvalid`` for a damaged one.
    """
    suffix = os.path.splitext(file.path)[1].lower()
    raw = file.open()
    with on_failure(raw.close):
        return Content(stream=_unpacked(file, raw, suffix), raw=raw)


def _unpacked(file: FileRef, raw: Any, suffix: str) -> Any:
    if suffix in _CODECS:
        return pa.CompressedInputStream(raw, _CODECS[suffix])
    if suffix == ".xz":
        return pa.PythonFile(lzma.LZMAFile(raw), mode="r")
    if suffix == ".zip":
        return pa.PythonFile(_only_member(file, raw), mode="r")
    return raw


def _only_member(file: FileRef, raw: Any) -> Any:
    archive = zipfile.ZipFile(raw)
    members = [item for item in archive.infolist() if not item.is_dir()]
    if len(members) != 1:
        raise DponeError(
            "DPONE_SOURCE_INVALID",
            f"The archive {file.name} holds {len(members)} files; one is needed.",
            remedy="Name the file inside it: zip://NAME::ARCHIVE.zip, or pack one file.",
        )
    try:
        return archive.open(members[0])
    except RuntimeError:  # encrypted
        raise DponeError("DPONE_SOURCE_INVALID", f"The archive {file.name} is encrypted.") from None
