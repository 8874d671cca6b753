"""CSV.

Nulls: without ``null_values`` an empty field is NULL, except in a text column, where it is the empty string. With
``null_values`` exactly those spellings are NULL, in text columns too (``strings_can_be_null: false`` turns that off).
A quoted field is never NULL. Undeclared types are inferred from the first block.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from dpone_provider.errors import DponeError
from dpone_provider.sources.formats.reader import Reading, bare, damaged, invalid, refused, unopened
from dpone_provider.sources.formats.text_types import carried, guessed_floats, refuse_rounded, text_type
from dpone_provider.sources.locate import FileRef
from dpone_provider.sources.options import BLOCK_SIZE
from dpone_provider.sources.unpack import DAMAGED, Content, open_content
from dpone_provider.unwinding import on_failure

_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?")


class CsvReader:
    """One CSV file, read in blocks by one thread."""

    total_rows: int | None = None

    def __init__(self, file: FileRef, reading: Reading) -> None:
        self._file = file
        self._reading = reading
        self._content: Content | None = None
        with on_failure(self.close):
            try:
                self._content = open_content(file)
                self._reader = arrow_csv.open_csv(self._content.stream, *_pyarrow_options(reading))
                self.schema = bare(self._reader.schema)
                self._check_schema()
            except (pa.ArrowException, *DAMAGED) as error:
                raise self._explained(error) from None
        formats = _formats(reading)
        self._carried = [
            name for name in self.schema.names if name in reading.declared and carried(reading.declared[name], formats)
        ]
        self._guessed = guessed_floats(self.schema, reading.declared)

    def read(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            return None
        except (pa.ArrowException, *DAMAGED) as error:
            raise self._explained(error) from None
        refuse_rounded(self._file, batch, self._guessed)
        return _with_nulls(batch, self._carried, _null_values(self._reading)) if self._carried else batch

    def close(self) -> None:
        content, self._content = self._content, None
        if content is not None:
            content.close()

    def _check_schema(self) -> None:
        names = self.schema.names
        if len(set(names)) != len(names) or "" in names:
            raise invalid(self._file, " has a column without a name or two of one name", "Correct the header.")
        for field in self.schema:
            if pa.types.is_binary(field.type):
                problem = f", column {field.name}: bytes that are not UTF-8"
                raise invalid(self._file, problem, "Set source.options.encoding, for example latin-1.")

    def _explained(self, error: BaseException) -> DponeError:
        text, file = str(error), self._file
        if found := _RAGGED.search(text):
            line, _ = _place(file, self._reading, int(found[1]))
            problem = f", line {line}: {found[3]} values where the header has {found[2]}"
            return invalid(file, problem, "Correct the line, or the options delimiter and quote_char.", line=line)
        if found := _COLUMN.search(text):
            line, names = _place(file, self._reading, int(found[2] or 0))
            number = int(found[1])
            name = names[number] if number < len(names) else f"number {number + 1}"
            where = f", line {line}" if found[2] else ""
            return refused(file, f"{where}, column {name}: {_kind(text)}", column=name, line=line)
        if "straddl" in text:
            problem = " has a line longer than a block, or a quote that is not closed"
            return invalid(file, problem, "Correct the quote, or raise source.options.block_size.")
        if "Empty CSV" in text:
            return invalid(file, " is empty: it has not even a header", "Write the header at least.")
        if gone := unopened(file, error):
            return gone
        if isinstance(error, (UnicodeError, pa.ArrowInvalid)) and "compress" not in text:
            return invalid(file, " cannot be read as CSV", "Look at its encoding, delimiter and quotes.")
        return damaged(file)


def _pyarrow_options(reading: Reading) -> tuple[Any, Any, Any]:
    options = reading.options
    names = options.get("column_names")
    read = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=options.get("block_size", BLOCK_SIZE),
        skip_rows=options.get("skip_rows", 0) + (1 if names and options.get("header", False) else 0),
        column_names=list(names) if names else None,
        encoding=options.get("encoding", "utf8"),
    )
    parse = arrow_csv.ParseOptions(
        delimiter=options.get("delimiter", ","),
        quote_char=options.get("quote_char", '"'),
        escape_char=options.get("escape_char", False),
        double_quote=options.get("double_quote", True),
        newlines_in_values=options.get("newlines_in_values", True),
    )
    given = "null_values" in options
    convert = arrow_csv.ConvertOptions(
        column_types=_column_types(reading),
        null_values=_null_values(reading),
        strings_can_be_null=options.get("strings_can_be_null", given),
        quoted_strings_can_be_null=False,
        timestamp_parsers=list(_formats(reading)) or None,
        decimal_point=options.get("decimal_point", "."),
        **{name: list(options[name]) for name in ("true_values", "false_values") if name in options},
    )
    return read, parse, convert


def _column_types(reading: Reading) -> dict[str, pa.DataType]:
    if reading.fixed is not None:
        return {field.name: field.type for field in reading.fixed}
    return {name: text_type(kind, _formats(reading)) for name, kind in reading.declared.items()}


def _null_values(reading: Reading) -> list[str]:
    return list(reading.options.get("null_values", ("",)))


def _formats(reading: Reading) -> tuple[str, ...]:
    return tuple(reading.options.get("timestamp_formats", ()))


def _with_nulls(batch: pa.RecordBatch, names: list[str], spellings: list[str]) -> pa.RecordBatch:
    """NULL for the null spellings of columns that are carried as text."""
    nothing, known = pa.scalar(None, pa.string()), pa.array(spellings, pa.string())
    for name in names:
        array = batch.column(name)
        index = batch.schema.get_field_index(name)
        batch = batch.set_column(index, name, pc.if_else(pc.is_in(array, value_set=known), nothing, array))
    return batch


def _kind(text: str) -> str:
    """What is wrong with a value, in our words; the value itself stands in Arrow's."""
    found = re.search(r"conversion error to ([a-z0-9_]+)", text)
    if "invalid UTF8" in text:
        return "bytes that are not UTF-8"
    if "zone offset" in text:
        return "times with and without a zone offset"
    if found is None:
        return "a number with more digits than its type holds"
    return (
        "a value, where the first block has only NULL"
        if found[1] == "null"
        else f"a value that is not of type {found[1]}"
    )


def _place(file: FileRef, reading: Reading, record: int) -> tuple[int, list[str]]:
    """The line on which a record starts (records count from 1, blank lines do not), and the columns' names."""
    options = reading.options
    names = list(options.get("column_names") or ())
    skipped = options.get("skip_rows", 0)
    dialect = {
        "delimiter": options.get("delimiter", ","),
        "quotechar": options.get("quote_char", '"'),
        "escapechar": options.get("escape_char"),
        "doublequote": options.get("double_quote", True),
    }
    count = start = 0
    try:
        content = open_content(file)
        try:
            lines = io.TextIOWrapper(
                content.stream, encoding=options.get("encoding", "utf-8-sig"), errors="replace", newline=""
            )
            for _ in range(skipped):
                lines.readline()
            rows = csv.reader(lines, **dialect)
            for row in rows:
                if row:
                    count += 1
                    names = names or row
                if count + skipped >= record:
                    break
                start = rows.line_num
        finally:
            content.close()
    except (csv.Error, pa.ArrowException, *DAMAGED):
        return record, names
    return start + skipped + 1, names
