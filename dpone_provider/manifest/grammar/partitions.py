"""How a load is split into partitions that are moved, checked and remembered one by one."""

from __future__ import annotations

from typing import Any

from dpone_provider.manifest.grammar.declare import CREDENTIALS, IDENTIFIER, MAX_IDENTIFIER_BYTES, key, model

CUT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
MOST_PARTITIONS = 1_000
MOST_WORKERS = 16
FOLDER = ".dpone/transfers"
LARGEST = 2**63 - 1
_LOCAL = r"(?!(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//)[\s\S]*\S[\s\S]*"


def _column(description: str) -> Any:
    return key(description, example="id", pattern=IDENTIFIER, least=1, most=MAX_IDENTIFIER_BYTES, required=True)


@model(excludes=("size", "bounds"))
class PartitionRange:
    """Partitions that are spans of a column."""

    column: str = _column("A column of whole numbers or dates without NULLs.")
    size: int = key(
        "The width of a partition, in whole numbers or days; the grid is fixed, so that a retry finds the same ones.",
        example=1_000_000,
        least=1,
        most=LARGEST,
    )
    bounds: tuple[int | str, ...] = key(
        "The cuts between the partitions, ascending: whole numbers or dates; the outer partitions are open.",
        example=["2026-01-01", "2026-02-01"],
        least=1,
        many=MOST_PARTITIONS - 1,
        unique=True,
        pattern=CUT,
    )


@model()
class PartitionList:
    """Partitions that are values of a column."""

    column: str = _column("A column of whole numbers, dates or text without NULLs.")
    values: tuple[int | str, ...] = key(
        "The values that are read, one partition each; a full refresh refuses a source that has others.",
        example=["2026-01-01", "2026-01-02"],
        least=1,
        many=MOST_PARTITIONS,
        unique=True,
        required=True,
    )


@model()
class Partitions:
    """How a load is split: exactly one of range, list and file."""

    range: PartitionRange = key(
        "Spans of a column.", example={"column": "id", "size": 1_000_000}, only=("clickhouse", "sql")
    )
    list: PartitionList = key(
        "Values of a column.", example={"column": "day", "values": ["2026-01-01"]}, only=("clickhouse", "sql")
    )
    file: bool = key("Every file that path matches is a partition.", example=True, default=False, only=("file",))
    workers: int = key("How many partitions are moved at a time.", example=4, default=2, least=1, most=MOST_WORKERS)
    folder: str = key(
        "A local folder for checkpoints and reports, from the manifest's folder.",
        example="/var/lib/dpone/transfers",
        default=FOLDER,
        pattern=_LOCAL,
    )
    artifacts: str = key(
        "Where the Parquet files go, a folder or an fsspec URL: default inside folder.",
        example="s3://lake/dpone",
        pattern=rf"(?!{CREDENTIALS})[\s\S]*\S[\s\S]*",
    )
