"""Files as sources: every format, compressed, many, remote; and what is wrong with them, in words to act on."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpone_provider.canonical import text_digest
from dpone_provider.errors import DponeError
from dpone_provider.manifest.spec import FileSource
from dpone_provider.sources.fit import plan_fit
from dpone_provider.sources.open import OpenSource, open_source
from dpone_provider.wire import DirectWire

CSV = "id,name\n1,a\n2,\n3,c\n"
TABLE = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def source(
    folder: Path, path: str, form: str = "csv", columns: Any = (), wire: Any = None, **options: Any
) -> OpenSource:
    spec = FileSource(format=form, path=path, options=tuple(options.items()), base=str(folder))  # type: ignore[arg-type]
    return open_source(spec, None, wire=wire or DirectWire(), columns=columns)


def rows(folder: Path, path: str, form: str = "csv", columns: Any = (), **options: Any) -> list[dict[str, Any]]:
    with source(folder, path, form, columns, **options) as opened:
        return [row for batch in opened.batches() for row in batch.to_pylist()]


def failure(folder: Path, path: str, form: str = "csv", columns: Any = (), **options: Any) -> DponeError:
    with pytest.raises(DponeError) as caught:
        rows(folder, path, form, columns, **options)
    assert str(folder) not in str(caught.value)
    return caught.value


def ipc(table: pa.Table, stream: bool) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return sink.getvalue()


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("id,name\n1,a\n2,NA\n3,c\n")
    (tmp_path / "f.jsonl").write_text('{"id":1,"name":"a"}\n{"id":2}\n{"id":3,"name":"c"}\n')
    pq.write_table(TABLE, tmp_path / "f.parquet")
    (tmp_path / "f.arrow").write_bytes(ipc(TABLE, stream=False))
    (tmp_path / "s.arrow").write_bytes(ipc(TABLE, stream=True))
    expected = TABLE.to_pylist()
    assert rows(tmp_path, "f.csv", null_values=["NA"]) == expected
    assert rows(tmp_path, "f.jsonl", "jsonl") == expected
    assert rows(tmp_path, "f.parquet", "parquet") == expected
    assert rows(tmp_path, "f.arrow", "arrow") == expected
    assert rows(tmp_path, "s.arrow", "arrow") == expected


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        (".gz", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
        (".bz2", lambda data: bz2.compress(data[:9]) + bz2.compress(data[9:])),
    ],
)
def test_compressed_csv_is_read_by_its_suffix(tmp_path: Path, suffix: str, pack: Any) -> None:
    (tmp_path / f"f.csv{suffix}").write_bytes(pack(CSV.encode()))
    assert [row["id"] for row in rows(tmp_path, f"f.csv{suffix}")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("suffix", "harm"),
    [(suffix, harm) for suffix in (".gz", ".bz2", ".xz", ".zip") for harm in ("cut", "flip")] + [(".zst", "cut")],
)  # a zstd frame carries no checksum unless its writer asked for one, so a flipped bit in it cannot be seen
def test_damaged_compressed_files_are_refused(tmp_path: Path, suffix: str, harm: str) -> None:
    text = ("id,name\n" + "".join(f"{n},{n * 7919 % 1000}\n" for n in range(20_000))).encode()
    packed = io.BytesIO()
    if suffix == ".zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("f.csv", text)
    else:
        packs: Any = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
        zstd = lambda data: pa.compress(data, "zstd", asbytes=True)  # noqa: E731
        packed.write(packs.get(suffix, zstd)(text))
    data = bytearray(packed.getvalue())
    if harm == "cut":
        data = data[: len(data) * 2 // 3]
    else:
        data[len(data) // 2] ^= 0x55
    (tmp_path / f"f.csv{suffix}").write_bytes(data)
    error = failure(tmp_path, f"f.csv{suffix}")
    assert error.code in ("DPONE_SOURCE_INVALID", "DPONE_SOURCE_VALUE_REFUSED")


def test_a_zip_archive_must_hold_one_file(tmp_path: Path) -> None:
    for name, members in (("one.zip", ["f.csv"]), ("two.zip", ["f.csv", "g.csv"]), ("none.zip", [])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(member, CSV)
    assert len(rows(tmp_path, "one.zip")) == 3
    assert "holds 2 files" in failure(tmp_path, "two.zip").message
    assert failure(tmp_path, "none.zip").code == "DPONE_SOURCE_INVALID"
    assert len(rows(tmp_path, "zip://g.csv::two.zip")) == 3
    assert len(rows(tmp_path, "zip://*.csv::two.zip")) == 6
    assert failure(tmp_path, "zip://h.csv::two.zip").code == "DPONE_SOURCE_NOT_FOUND"
    assert failure(tmp_path, "zip://h.csv::three.zip").code == "DPONE_SOURCE_NOT_FOUND"


def test_urls_go_through_fsspec(tmp_path: Path) -> None:
    with fsspec.open("memory://dpone/f.csv", "w") as file:
        file.write(CSV)
    (tmp_path / "f g.csv").write_text(CSV)
    assert len(rows(tmp_path, "memory://dpone/f.csv")) == 3
    assert len(rows(tmp_path, f"file://{tmp_path}/f%20g.csv")) == 3
    assert failure(Path("/nowhere"), "memory://dpone/g.csv").code == "DPONE_SOURCE_NOT_FOUND"
    assert "needs the Python package s3fs" in failure(tmp_path, "s3://bucket/f.csv").message
    assert failure(tmp_path, "nonsense://x").code == "DPONE_SOURCE_INVALID"


def test_files_of_a_pattern_are_read_in_sorted_order_and_each_is_opened_once(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n1,{name}\n")
    (tmp_path / "sub").mkdir()
    wire = DirectWire()
    with source(tmp_path, "*.csv", wire=wire) as opened:
        assert [row["name"] for batch in opened.batches() for row in batch.to_pylist()] == ["a", "b", "c"]
    assert wire.counts["source_open"] == 3
    assert wire.counts["source_read"] == 6


def test_a_name_with_pattern_characters_is_that_file_when_it_exists(tmp_path: Path) -> None:
    (tmp_path / "f[1].csv").write_text(CSV)
    assert len(rows(tmp_path, "f[1].csv")) == 3


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    (tmp_path / "b.csv").write_text("name,id\nb,2\n")
    assert rows(tmp_path, "?.csv") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    (tmp_path / "c.csv").write_text("id,other\n1,a\n")
    error = failure(tmp_path, "?.csv")
    assert error.code == "DPONE_SOURCE_INVALID"
    assert "?.csv (c.csv) has other columns or types than the first file: name, other" in error.message
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"], "name": ["y"]}), tmp_path / "b.parquet")
    with pytest.raises(DponeError, match=r"b.parquet\) has other columns or types than the first file: id"):
        source(tmp_path, "*.parquet", "parquet")


def test_what_is_not_there_is_said_with_its_authored_path(tmp_path: Path) -> None:
    for path, words in (
        ("no.csv", "no.csv does not exist"),
        ("no*.csv", "no*.csv matches no file"),
        (".", "is a folder"),
    ):
        error = failure(tmp_path, path)
        assert error.code == "DPONE_SOURCE_NOT_FOUND"
        assert words in error.message
        assert error.next_step
    spec = FileSource(format="csv", path="f.csv")
    with pytest.raises(DponeError, match="is relative"):
        open_source(spec, None, wire=DirectWire())


def test_an_empty_field_is_null_for_numbers_and_empty_text_for_text(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text('n,s,t\n,,\n1,x,2024-01-01 00:00:00\n2,"","2024-01-01 00:00:00"\n')
    columns = (("t", "Nullable(DateTime)"),)
    found = rows(tmp_path, "f.csv", columns=columns)
    assert found[0] == {"n": None, "s": "", "t": None}
    assert found[2]["s"] == ""


def test_null_values_hold_for_text_too_but_not_when_quoted(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text('n,s\nNA,NA\n1,"NA"\n2,\n')
    assert rows(tmp_path, "f.csv", null_values=["NA"]) == [
        {"n": None, "s": None},
        {"n": 1, "s": "NA"},
        {"n": 2, "s": ""},
    ]
    assert rows(tmp_path, "f.csv", null_values=["NA"], strings_can_be_null=False)[0] == {"n": None, "s": "NA"}


def test_csv_options(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes("x;'ü;1'\n2,5;'a''b'\n".encode("latin-1"))
    options = {"delimiter": ";", "quote_char": "'", "encoding": "latin-1", "header": False, "column_names": ["a", "b"]}
    assert rows(tmp_path, "f.csv", **options) == [{"a": "x", "b": "ü;1"}, {"a": "2,5", "b": "a'b"}]
    options |= {"header": True, "decimal_point": ","}
    assert rows(tmp_path, "f.csv", **options) == [{"a": 2.5, "b": "a'b"}]
    (tmp_path / "t.csv").write_text("t\n31.12.2024 01:02\n")
    columns = (("t", "DateTime('UTC')"),)
    found = rows(tmp_path, "t.csv", columns=columns, timestamp_formats=["%d.%m.%Y %H:%M"])
    assert found[0]["t"].isoformat() == "2024-12-31T01:02:00"
    assert failure(tmp_path, "f.csv").code == "DPONE_SOURCE_INVALID"  # not UTF-8


@pytest.mark.parametrize(
    ("form", "options", "words"),
    [
        ("csv", {"delimeter": ";"}, "unknown option 'delimeter'"),
        ("csv", {"delimiter": ";;"}, "delimiter must be one ASCII character"),
        ("csv", {"null_values": "NA"}, "null_values must be a list of strings"),
        ("csv", {"header": False}, "needs source.options.column_names"),
        ("csv", {"block_size": True}, "block_size must be bytes"),
        ("csv", {"encoding": "klingon"}, "encoding must be the name of an encoding"),
        ("parquet", {"batch_rows": 0}, "batch_rows must be rows"),
        ("jsonl", {"delimiter": ";"}, "unknown option 'delimiter' for jsonl"),
    ],
)
def test_options_that_are_unknown_or_wrong_are_refused(tmp_path: Path, form: str, options: Any, words: str) -> None:
    error = failure(tmp_path, "f", form, **options)
    assert error.code == "DPONE_SOURCE_INVALID"
    assert words in error.message


@pytest.mark.parametrize("blanks", [0, 2])
def test_a_ragged_line_is_refused_with_file_and_line(tmp_path: Path, blanks: int) -> None:
    (tmp_path / "f.csv").write_text("id,name\n" + '1,"a\nb"\n' * 3_000 + "\n" * blanks + "secret\n" + "2,b\n" * 9)
    error = failure(tmp_path, "f.csv", block_size=1024)
    assert error.code == "DPONE_SOURCE_INVALID"
    assert f"File f.csv, line {6002 + blanks}: 1 values where the header has 2" in error.message
    assert "secret" not in str(error)


def test_a_later_value_of_another_type_is_refused_with_file_line_and_column(tmp_path: Path) -> None:
    """B11: text that is no number never becomes one; declaring the type is the remedy."""
    (tmp_path / "f.csv").write_text("id,name\n" + "1,a\n" * 3_000 + "secret,b\n")
    error = failure(tmp_path, "f.csv", block_size=1024)
    assert error.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert error.message == "File f.csv, line 3002, column id: a value that is not of type int64."
    assert "sink.columns" in error.next_step
    assert "secret" not in str(error)
    assert len(rows(tmp_path, "f.csv", columns=(("id", "String"),), block_size=1024)) == 3001


def test_declared_types_are_parsed_as_such(tmp_path: Path) -> None:
    """B11: 300 for Int8 is refused while it is read."""
    (tmp_path / "f.csv").write_text("id,zip\n1,007\n300,008\n")
    error = failure(tmp_path, "f.csv", columns=(("id", "Int8"),))
    assert error.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert "line 3, column id" in error.message
    assert rows(tmp_path, "f.csv", columns=(("zip", "LowCardinality(String)"),))[0] == {"id": 1, "zip": "007"}


def test_text_of_every_declared_type_goes_through_the_fit(tmp_path: Path) -> None:
    typed = {
        "a": ("Int256", "-5"),
        "b": ("Decimal(40, 2)", "1.50"),
        "c": ("Nullable(UUID)", "12345678-1234-5678-9abc-def012345678"),
        "d": ("Enum8('x' = 1)", "x"),
        "e": ("DateTime64(3, 'Europe/Berlin')", "2024-01-01T00:00:00.123+01:00"),
        "f": ("IPv6", "::1"),
        "g": ("Date", "2024-01-01"),
        "h": ("Bool", "true"),
        "i": ("FixedString(2)", "ab"),
        "j": ("Decimal(9, 2)", "1.5"),
        "k": ("Time", "01:02:03"),
        "l": ("BFloat16", "1.5"),
    }
    (tmp_path / "f.csv").write_text(",".join(typed) + "\n" + ",".join(text for _, text in typed.values()) + "\n")
    columns = tuple((name, kind) for name, (kind, _) in typed.items())
    with source(tmp_path, "f.csv", columns=columns) as opened:
        fit = plan_fit(opened.schema, columns)
        (batch,) = map(fit.convert, opened.batches())
    assert (batch.num_rows, batch.column(6)[0].as_py().isoformat()) == (1, "2024-01-01")


@pytest.mark.parametrize("text", ["n\n18446744073709551615\n", "n\n1e400\n"])
def test_a_number_too_large_to_be_exact_needs_a_declared_type(tmp_path: Path, text: str) -> None:
    """An integer beyond Int64 would be taken for a float and rounded."""
    (tmp_path / "f.csv").write_text(text)
    error = failure(tmp_path, "f.csv")
    assert error.code == "DPONE_SOURCE_VALUE_REFUSED"
    assert "column n: a number too large" in error.message
    (tmp_path / "f.jsonl").write_text('{"n": 18446744073709551615}\n')
    assert failure(tmp_path, "f.jsonl", "jsonl").code == "DPONE_SOURCE_VALUE_REFUSED"
    assert rows(tmp_path, "f.jsonl", "jsonl", (("n", "UInt64"),)) == [{"n": 2**64 - 1}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,a\n1,2\n", "two of one name"),
        ('a,b\n1,"' + "x" * 5_000, "quote that is not closed"),
        ("a\n1\n" + "y" * 5_000, "a line longer than a block"),
    ],
)
def test_other_broken_csv_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "f.csv").write_text(text)
    error = failure(tmp_path, "f.csv", block_size=1024)
    assert error.code == "DPONE_SOURCE_INVALID"
    assert words in error.message


GOOD = '{"id":1,"name":"a"}\n'


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("{secret", "DPONE_SOURCE_INVALID", "object 1001: not well-formed JSON"),
        ('{"id":"secret"}', "DPONE_SOURCE_VALUE_REFUSED", "object 1001, column id: a string where a number"),
        ('{"id":1.5}', "DPONE_SOURCE_VALUE_REFUSED", "a value that is not of its column's type"),
        ('{"secret":1}', "DPONE_SOURCE_COLUMN_UNKNOWN", "a key that the first objects do not have"),
        ('["secret"]', "DPONE_SOURCE_INVALID", "not a JSON object"),
        ('{"id":1,"id":2}', "DPONE_SOURCE_INVALID", "not well-formed JSON"),
    ],
)
def test_broken_json_lines_are_refused_with_their_place(tmp_path: Path, line: str, code: str, words: str) -> None:
    (tmp_path / "f.jsonl").write_text(GOOD * 1_000 + line + "\n")
    error = failure(tmp_path, "f.jsonl", "jsonl", block_size=1024)
    assert error.code == code
    assert words in error.message
    assert "secret" not in str(error)


def test_json_values_of_declared_types(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"a":300,"t":"2024-01-01T00:00:00Z","l":[1],"p":{"x":"1.5"}}\n')
    columns = (("t", "DateTime('UTC')"), ("l", "Array(UInt8)"), ("p", "Tuple(x Decimal(5, 2))"), ("a", "Int16"))
    with source(tmp_path, "f.jsonl", "jsonl", columns) as opened:
        fit = plan_fit(opened.schema, columns)
        (batch,) = map(fit.convert, opened.batches())
    assert batch.num_rows == 1
    error = failure(tmp_path, "f.jsonl", "jsonl", (("a", "Int8"),))
    assert error.code == "DPONE_SOURCE_VALUE_REFUSED"


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_a_cut_off_parquet_or_arrow_file_is_refused(tmp_path: Path, keep: float) -> None:
    table = pa.table({"id": range(1000)})
    pq.write_table(table, tmp_path / "whole.parquet")
    for name, data in (
        ("f.parquet", (tmp_path / "whole.parquet").read_bytes()),
        ("f.arrow", ipc(table, stream=False)),
        ("s.arrow", ipc(table, stream=True)),
    ):
        (tmp_path / name).write_bytes(data[: int(len(data) * keep)])
        error = failure(tmp_path, name, name[2:])
        assert error.code == "DPONE_SOURCE_INVALID"
        assert name in error.message


def test_an_arrow_stream_cut_between_two_batches_is_refused(tmp_path: Path) -> None:
    """Arrow takes it for a complete stream."""
    data = ipc(TABLE, stream=True)
    (tmp_path / "f.arrow").write_bytes(data[:-8])
    assert pa.ipc.open_stream(data[:-8]).read_all().num_rows == 3
    assert "is cut off" in failure(tmp_path, "f.arrow", "arrow").message


def test_columns_and_batch_rows_choose_what_is_read(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet")
    (tmp_path / "f.arrow").write_bytes(ipc(TABLE, stream=False))
    for form in ("parquet", "arrow"):
        with source(tmp_path, f"f.{form}", form, batch_rows=1) as opened:
            assert [batch.num_rows for batch in opened.batches()] == [1, 1, 1]
        spec = FileSource(format=form, path=f"f.{form}", base=str(tmp_path), options=(("columns", ("name",)),))  # type: ignore[arg-type]
        with open_source(spec, None, wire=DirectWire()) as opened:
            assert opened.schema.names == ["name"]
            assert opened.schema == next(opened.batches()).schema.remove_metadata()
        spec = FileSource(format=form, path=f"f.{form}", base=str(tmp_path), options=(("columns", ("no",)),))  # type: ignore[arg-type]
        with pytest.raises(DponeError, match="has no column no"):
            open_source(spec, None, wire=DirectWire())


def test_what_is_counted(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(100_000), pa.int64())})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=30_000)
    with source(tmp_path, "*.parquet", "parquet") as opened:
        assert (opened.total_rows, opened.rows, opened.bytes) == (200_000, 0, 0)
        assert opened.dataset == "source_file:" + text_digest("*.parquet")
        first = next(iter(batches := opened.batches()))
        assert (opened.rows, opened.bytes) == (first.num_rows, first.nbytes)
        rest = sum(batch.nbytes for batch in batches)
        assert (opened.rows, opened.bytes) == (200_000, first.nbytes + rest)


def test_bytes_of_slices_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "f.arrow").write_bytes(ipc(pa.table({"id": pa.array(range(100), pa.int64())}), stream=True))
    with source(tmp_path, "f.arrow", "arrow", batch_rows=1) as opened:
        for _ in opened.batches():
            pass
        assert (opened.rows, opened.bytes) == (100, 800)


def test_a_source_is_read_once_and_closed_on_every_path(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(CSV * 1)
    with source(tmp_path, "f.csv") as opened:
        batches = opened.batches()
        with pytest.raises(DponeError, match="only once"):
            opened.batches()
        next(batches)
        opened.close()
        assert list(batches) == []
    opened.close()
    with pytest.raises(DponeError, match="only once"):
        opened.batches()


def test_a_wire_that_dies_in_a_read_closes_the_file(tmp_path: Path) -> None:
    class DeadWire(DirectWire):
        def send(self, effect: Any, call: Any) -> Any:
            if effect.kind == "source_read":
                raise KeyboardInterrupt
            return super().send(effect, call)

    (tmp_path / "f.csv").write_text(CSV)
    opened = source(tmp_path, "f.csv", wire=DeadWire())
    with pytest.raises(KeyboardInterrupt):
        list(opened.batches())
    with pytest.raises(DponeError, match="only once"):
        opened.batches()


def test_a_header_without_rows_is_an_empty_source(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("id,name\n")
    with source(tmp_path, "f.csv", columns=(("id", "Int64"),)) as opened:
        assert opened.schema.names == ["id", "name"]
        assert list(opened.batches()) == []
        assert opened.rows == 0


def test_a_pipe_is_refused_instead_of_blocking_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    spec = FileSource(format="csv", path="pipe.csv", base=str(tmp_path))
    with pytest.raises(DponeError) as raised, open_source(spec, None, wire=DirectWire()):
        pass
    assert raised.value.code == "DPONE_SOURCE_NOT_FOUND"
