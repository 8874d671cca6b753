"""What a process reads: files, ClickHouse or another SQL database."""

from __future__ import annotations

from typing import Any

from dpone_provider.manifest.grammar.declare import CREDENTIALS, IDENTIFIER, MAX_IDENTIFIER_BYTES, key, model
from dpone_provider.manifest.grammar.partitions import Partitions

CONNECTION = r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}"
SOURCES = ("file", "clickhouse", "sql")
FORMATS = ("csv", "jsonl", "parquet", "arrow")
_CHARACTER = r"[\x00-\x09\x0b\x0c\x0e-\x7f]"
_SOME = r"[\s\S]+"


@model()
class SourceTable:
    """A table to read whole; parts that are not written are the process's source schema and table."""

    schema: str = key(
        "The database of the table.", example="sales", pattern=IDENTIFIER, least=1, most=MAX_IDENTIFIER_BYTES
    )
    name: str = key("The name of the table.", example="orders", pattern=IDENTIFIER, least=1, most=MAX_IDENTIFIER_BYTES)


def _option(description: str, example: Any, only: tuple[str, ...], default: Any = None, **rules: Any) -> Any:
    return key(description, example=example, only=only, default=default, text=False, **rules)


@model()
class Cursor:
    """Read only rows that are new since the last load; with strategy.mode append."""

    column: str = key(
        "A column without NULLs that only grows: rows above its last loaded value are read.",
        example="id",
        pattern=IDENTIFIER,
        least=1,
        most=MAX_IDENTIFIER_BYTES,
        required=True,
    )


@model()
class SourceOptions:
    """How files of a format, or a database, are read; an option of another one is refused."""

    delimiter: str = _option("What stands between two fields.", ";", ("csv",), ",", pattern=_CHARACTER, most=1)
    quote_char: str = _option("What stands around a quoted field.", "'", ("csv",), '"', pattern=_CHARACTER, most=1)
    escape_char: str = _option(
        "What takes the meaning off the next character.", "\\", ("csv",), pattern=_CHARACTER, most=1
    )
    decimal_point: str = _option("What stands before decimals.", ",", ("csv",), ".", pattern=_CHARACTER, most=1)
    double_quote: bool = _option("A doubled quote inside a quoted field is one quote.", False, ("csv",), True)
    newlines_in_values: bool = _option(
        "A value may hold line ends: default true for csv, false for jsonl.", True, ("csv", "jsonl")
    )
    strings_can_be_null: bool = _option(
        "The null_values count in text columns too: default true with null_values.", True, ("csv",)
    )
    skip_rows: int = _option("Lines to skip before the header.", 1, ("csv",), 0, least=0, most=1_000_000)
    encoding: str = _option("The encoding of the text.", "latin-1", ("csv",), "utf8", least=1)
    column_names: tuple[str, ...] = _option(
        "The columns, when the file has no header.", ["id", "name"], ("csv",), least=1, pattern=_SOME, unique=True
    )
    null_values: tuple[str, ...] = _option("The spellings of NULL.", ["NA", ""], ("csv",), least=1)
    true_values: tuple[str, ...] = _option("The spellings of true.", ["Y"], ("csv",), least=1)
    false_values: tuple[str, ...] = _option("The spellings of false.", ["N"], ("csv",), least=1)
    timestamp_formats: tuple[str, ...] = _option(
        "strptime formats of date-time columns; %z reads an offset.", ["%d.%m.%Y %H:%M"], ("csv",), least=1
    )
    header: bool = _option("The first line names the columns: default true without column_names.", True, ("csv",))
    block_size: int = _option(
        "Bytes of text parsed at once; a line must fit.",
        4_194_304,
        ("csv", "jsonl"),
        1 << 20,
        least=1 << 10,
        most=1 << 30,
    )
    columns: tuple[str, ...] = _option(
        "The columns to read: default all.", ["id", "name"], ("parquet", "arrow"), least=1, pattern=_SOME, unique=True
    )
    batch_rows: int = _option("Rows of a batch.", 10_000, ("parquet", "arrow", "sql"), 65_536, least=1, most=1 << 20)


@model(tag="type", excludes=("table", "query"))
class Source:
    """What a process reads: files, or a table or query of a ClickHouse server or another SQL database."""

    type: str = key("Where the rows come from.", example="file", choices=SOURCES, required=True)
    connection_ref: str = key(
        "The Airflow connection id of the source; address and credentials stand there only.",
        example="warehouse",
        pattern=CONNECTION,
        required=("clickhouse", "sql"),
    )
    format: str = key("The format of the files.", example="csv", choices=FORMATS, only=("file",), required=True)
    path: str = key(
        "A path from the manifest's folder, a pattern or an fsspec URL; {schema} and {table} are filled in.",
        example="exports/orders-*.csv.gz",
        pattern=rf"(?!{CREDENTIALS})[\s\S]*\S[\s\S]*",
        only=("file",),
        required=True,
    )
    table: SourceTable = key(
        "The table to read whole: default the process's source schema and table.",
        example={"schema": "sales", "name": "orders"},
        only=("clickhouse", "sql"),
    )
    query: str = key(
        "One SELECT to read instead of a table.",
        example="SELECT id, placed FROM sales.orders",
        only=("clickhouse", "sql"),
    )
    options: SourceOptions = key(
        "How the files or the database are read.",
        example={"null_values": ["NA"]},
        default={},
        by=("format", "type"),
        empty_for=("clickhouse",),
    )
    cursor: Cursor = key(
        "Read only rows that are new since the last load; with strategy.mode append.", example={"column": "id"}
    )
    partitions: Partitions = key(
        "Split the load into partitions that are moved one by one and remembered.",
        example={"range": {"column": "id", "size": 1_000_000}, "workers": 4},
        by=("type",),
    )
