"""Artefacts: what is written comes back, and what is not whole is none."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.native.artifact import ArtifactStore
from dpone_provider.native.files import LocalFiles
from dpone_provider.native.places import LocalPlace, RemotePlace

ID = "a" * 64
SCHEMA = pa.schema([pa.field("id", pa.uint64(), False), pa.field("name", pa.string())])
COLUMNS = (("id", "UInt64"), ("name", "Nullable(String)"))


def batch(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": ids, "name": [None if each % 2 else str(each) for each in ids]}, SCHEMA)


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    if request.param == "local":
        return ArtifactStore(LocalPlace(folder=tmp_path / "deep" / "artifacts", files=LocalFiles()))
    return ArtifactStore(RemotePlace(f"memory://{tmp_path.name}"))


def test_rows_come_back_group_by_group_with_the_columns_they_are_for(store: ArtifactStore) -> None:
    made = store.export(ID, SCHEMA, COLUMNS, iter([batch(1, 2), batch(), batch(3)]))
    assert made.rows == 3
    assert store.intact(ID, made)
    assert store.shape(ID) == (COLUMNS, SCHEMA)
    assert list(store.batches(ID)) == [batch(1, 2), batch(3)]


def test_a_partition_without_rows_has_an_artefact(store: ArtifactStore) -> None:
    made = store.export(ID, SCHEMA, COLUMNS, [])
    assert (made.rows, store.intact(ID, made), list(store.batches(ID))) == (0, True, [])


def test_the_same_rows_are_the_same_bytes(store: ArtifactStore) -> None:
    assert store.export(ID, SCHEMA, COLUMNS, [batch(1)]) == store.export(ID, SCHEMA, COLUMNS, [batch(1)])


def test_a_removed_artefact_is_not_intact(store: ArtifactStore) -> None:
    made = store.export(ID, SCHEMA, COLUMNS, [batch(1)])
    assert store.remove([ID, "b" * 64])
    assert not store.intact(ID, made)


def test_a_source_that_fails_leaves_no_artefact_and_its_own_error(store: ArtifactStore) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise DponeError("DPONE_SOURCE_FAILED")

    with pytest.raises(DponeError, match="DPONE_SOURCE_FAILED"):
        store.export(ID, SCHEMA, COLUMNS, failing())


WIDE = pa.schema(
    [
        pa.field("d", pa.decimal256(60, 4)),
        pa.field("ts", pa.timestamp("ns", "UTC")),
        pa.field("fixed", pa.binary(16)),
        pa.field("words", pa.list_(pa.field("item", pa.string(), False)), False),
        pa.field("pair", pa.struct([pa.field("a", pa.int8(), False), pa.field("b", pa.float32())]), False),
        pa.field("map", pa.map_(pa.string(), pa.uint16()), False),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32(), False),
        pa.field("small", pa.uint8(), False),
        pa.field("yes", pa.bool_()),
    ]
)


@pytest.mark.parametrize("times", [1, 5_000], ids=["one row", "enough to look for dictionaries"])
def test_every_carrier_of_a_column_survives(store: ArtifactStore, times: int) -> None:
    import datetime

    row: dict[str, Any] = {
        "d": Decimal("123456789012345678901234567890.1234"),
        "ts": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "fixed": b"x" * 16,
        "words": ["a", "b"],
        "pair": {"a": 1, "b": 0.5},
        "map": [("k", 2)],
        "bytes": b"\xff\x00",
        "day": datetime.date(1969, 1, 1),
        "small": 255,
        "yes": None,
    }
    rows = pa.RecordBatch.from_pylist([row] * times, WIDE)
    store.export(ID, WIDE, (), [rows])
    (back,) = store.batches(ID)
    assert back.schema == WIDE
    assert back == rows


def local(tmp_path: Path, files: Any = None) -> ArtifactStore:
    return ArtifactStore(LocalPlace(folder=tmp_path, files=files or LocalFiles()))


def test_one_changed_byte_is_not_intact(tmp_path: Path) -> None:
    store = local(tmp_path)
    made = store.export(ID, SCHEMA, COLUMNS, [batch(1)])
    path = tmp_path / f"{ID}.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not store.intact(ID, made)


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.parquet").write_bytes(b"no parquet")
    with pytest.raises(DponeError, match="DPONE_TRANSFER_ARTIFACT"):
        list(local(tmp_path).batches(ID))


class Broken(LocalFiles):
    """The disk refuses one effect."""

    def __init__(self, at: str) -> None:
        self.at = at
        for name in ("mkdir", "create", "write", "fsync", "rename", "fsync_dir"):
            if name == at:
                setattr(self, name, self._refuse)

    def _refuse(self, *_: Any) -> Any:
        raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize("at", ["mkdir", "create", "write", "fsync", "rename", "fsync_dir"])
def test_a_disk_that_refuses_leaves_nothing_unfinished_and_says_no_path(tmp_path: Path, at: str) -> None:
    folder = tmp_path / "artifacts"
    with pytest.raises(DponeError, match="ENOSPC") as caught:
        local(folder, Broken(at)).export(ID, SCHEMA, COLUMNS, [batch(1)])
    assert caught.value.code == "DPONE_TRANSFER_ARTIFACT"
    assert str(tmp_path) not in str(caught.value)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_remote_place_that_keeps_other_bytes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ArtifactStore(RemotePlace(f"memory://{tmp_path.name}"))
    monkeypatch.setattr(ArtifactStore, "intact", lambda *_: False)
    with pytest.raises(DponeError, match="DPONE_TRANSFER_ARTIFACT"):
        store.export(ID, SCHEMA, COLUMNS, [batch(1)])
