"""Artefacts: a partition's rows as a Parquet file with a checksum, written durably, read a row group at a time.

What is written is what goes on the wire to the target: loading an artefact converts nothing. With it stand the
target's columns, so that a later attempt knows them without the source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpone_provider.errors import DponeError
from dpone_provider.native.files import told
from dpone_provider.native.places import Place, RemotePlace

Columns = tuple[tuple[str, str], ...]
_COLUMNS: Final = b"dpone.columns"
_GATHERED: Final = 1 << 20
_SAMPLE: Final = 4_096
_CODE: Final = "DPONE_TRANSFER_ARTIFACT"


@attrs.frozen(kw_only=True)
class Artifact:
    """What was written: rows, bytes of the file, its SHA-256 in hex."""

    rows: int
    bytes: int
    sha256: str


class ArtifactStore:
    """The artefacts of one operation, by partition id. Raises ``DponeError`` DPONE_TRANSFER_ARTIFACT."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def export(
        self, partition_id: str, schema: pa.Schema, columns: Columns, batches: Iterable[pa.RecordBatch]
    ) -> Artifact:
        """Write the batches, each a row group. ``columns``: the target's, ``(name, type)``.

        Raises what ``batches`` raises, as it was; then, and after any failure, there is no artefact.
        """
        made: list[Artifact] = []

        def fill(handle: Any) -> None:
            made.append(_written(handle, schema.with_metadata({_COLUMNS: json.dumps(columns).encode()}), batches))

        name = _name(partition_id)
        with _refused("An artefact could not be written", retryable=False):  # a type that Parquet has not
            self._place.write(name, fill)
        if isinstance(self._place, RemotePlace) and not self.intact(partition_id, made[0]):
            raise DponeError(_CODE, "What was written to the artefacts' place is not what it holds.")
        return made[0]

    def intact(self, partition_id: str, artifact: Artifact) -> bool:
        """Is it there, byte by byte as it was written?"""
        digest, size = hashlib.sha256(), 0
        with _refused("An artefact could not be read"):
            try:
                with self._place.open(_name(partition_id)) as handle:
                    while piece := handle.read(_GATHERED):
                        digest.update(piece)
                        size += len(piece)
            except FileNotFoundError:
                return False
        return (size, digest.hexdigest()) == (artifact.bytes, artifact.sha256)

    def shape(self, partition_id: str) -> tuple[Columns, pa.Schema]:
        """The target's columns that it was made for, and the schema that it was written in."""
        with self._opened(partition_id) as file:
            schema = file.schema_arrow
        columns = json.loads((schema.metadata or {}).get(_COLUMNS, b"[]"))
        return tuple((name, kind) for name, kind in columns), schema.remove_metadata()

    def batches(self, partition_id: str) -> Iterator[pa.RecordBatch]:
        """The rows, a row group at a time, in the schema that they were written in."""
        with self._opened(partition_id) as file:
            for number in range(file.num_row_groups):
                with _refused("An artefact could not be read"):
                    table = file.read_row_group(number, use_threads=False).replace_schema_metadata(None)
                yield from table.to_batches()

    def remove(self, partition_ids: Iterable[str]) -> bool:
        """Remove artefacts; False when one could not be: nothing depends on it."""
        gone = True
        for partition_id in partition_ids:
            try:
                self._place.remove(_name(partition_id))
            except OSError:
                gone = False
        return gone

    @contextmanager
    def _opened(self, partition_id: str) -> Iterator[pq.ParquetFile]:
        with _refused("An artefact could not be read"):
            handle = self._place.open(_name(partition_id))
        with handle:
            with _refused("An artefact could not be read"):
                file = pq.ParquetFile(handle)
            yield file


class _Counted:
    """Between the Parquet writer and the file: gathers, counts and hashes what passes."""

    closed = False

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._gathered = bytearray()
        self._digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._gathered += view
        if len(self._gathered) >= _GATHERED:
            self.flush()
        return len(view)

    def flush(self) -> None:
        piece = bytes(self._gathered)
        self._gathered.clear()
        if piece:
            self._digest.update(piece)
            self.bytes += len(piece)
            self._handle.write(piece)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def _written(handle: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Artifact:
    counted, rows = _Counted(handle), 0
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    repeating = [] if first is None else [name for name in schema.names if _repeats(first.column(name))]
    # Statistics are for readers that skip: an artefact is read whole.
    with pq.ParquetWriter(
        pa.PythonFile(counted, mode="w"), schema, compression="zstd", use_dictionary=repeating, write_statistics=False
    ) as writer:
        for batch in chain([first] if first is not None else [], filled):
            writer.write_batch(batch, row_group_size=batch.num_rows)
            rows += batch.num_rows
    counted.flush()
    return Artifact(rows=rows, bytes=counted.bytes, sha256=counted.sha256)


def _repeats(column: pa.Array) -> bool:
    """Do its values come again so often that a dictionary is less work than the values?"""
    try:
        return len(column) >= _SAMPLE and 4 * pc.count_distinct(column.slice(0, _SAMPLE)).as_py() <= _SAMPLE
    except pa.ArrowNotImplementedError:  # nested values
        return False


@contextmanager
def _refused(what: str, *, retryable: bool = True) -> Iterator[None]:
    with told(_CODE, what):
        try:
            yield
        except pa.ArrowException as error:
            if isinstance(error, OSError):
                raise
            raise DponeError(_CODE, f"{what}: Parquet refuses it.", retryable=retryable) from None


def _name(partition_id: str) -> str:
    return f"{partition_id}.parquet"
