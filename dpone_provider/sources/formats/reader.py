"""What every file reader is, and the errors that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import pyarrow as pa

from dpone_provider.clickhouse.types import ChType
from dpone_provider.errors import DponeError
from dpone_provider.sources.locate import FileRef

DECLARE = "Declare the column's type in sink.columns, or correct the file."


class FileReader(Protocol):
    """Reads one file once. ``schema`` has no metadata; ``total_rows`` is None when only reading would tell."""

    schema: pa.Schema
    total_rows: int | None

    def read(self) -> pa.RecordBatch | None:
        """The next batch, None at the clean end. Raises ``DponeError``."""

    def close(self) -> None:
        """Close the file; more than once does no harm."""


@attrs.frozen(kw_only=True)
class Reading:
    """How the files of one source are read.

    ``declared``: the ClickHouse type of columns that the manifest declares. ``fixed``: the Arrow types found in the
    first file, which the next ones must have; None for the first.
    """

    options: Mapping[str, Any]
    declared: Mapping[str, ChType]
    fixed: pa.Schema | None = None


def invalid(file: FileRef, problem: str, remedy: str = "", **context: Any) -> DponeError:
    """The file cannot be read as declared."""
    return DponeError("DPONE_SOURCE_INVALID", f"File {file.name}{problem}.", remedy=remedy, context=context)


def refused(file: FileRef, problem: str, **context: Any) -> DponeError:
    """A value in the file is not of its column's type."""
    return DponeError("DPONE_SOURCE_VALUE_REFUSED", f"File {file.name}{problem}.", remedy=DECLARE, context=context)


def damaged(file: FileRef) -> DponeError:
    """The file ends too early or its bytes are not what they were."""
    return invalid(file, " is cut off or damaged", "Write or transfer the file again.")


def unopened(file: FileRef, error: BaseException) -> DponeError | None:
    """The error for a file that is gone or may not be read, None for any other problem."""
    if isinstance(error, FileNotFoundError):
        return DponeError("DPONE_SOURCE_NOT_FOUND", f"The source {file.name} does not exist.")
    if isinstance(error, PermissionError):
        remedy = "Let the worker's user read it."
        return DponeError("DPONE_SOURCE_NOT_FOUND", f"The source {file.name} may not be read.", remedy=remedy)
    return None


def bare(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, its own and its fields'."""
    return pa.schema([field.remove_metadata() for field in schema])
