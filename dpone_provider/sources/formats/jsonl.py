"""JSON lines: one object a line. A key that is missing is NULL; undeclared types are inferred from the first block."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.json as arrow_json

from dpone_provider.errors import DponeError
from dpone_provider.sources.formats.reader import DECLARE, Reading, bare, damaged, invalid, refused, unopened
from dpone_provider.sources.formats.text_types import guessed_floats, json_type, refuse_rounded
from dpone_provider.sources.locate import FileRef
from dpone_provider.sources.options import BLOCK_SIZE
from dpone_provider.sources.unpack import DAMAGED, Content, open_content
from dpone_provider.unwinding import on_failure

_ROW = re.compile(r"in row (\d+)")
_CHANGED = re.compile(r"Column\((.*?)\) changed from (\w+) to (\w+)")


class JsonReader:
    """One file of JSON lines, read in blocks by one thread."""

    total_rows: int | None = None

    def __init__(self, file: FileRef, reading: Reading) -> None:
        self._file = file
        self._rows = 0
        self._content: Content | None = None
        options = reading.options
        read = arrow_json.ReadOptions(use_threads=False, block_size=options.get("block_size", BLOCK_SIZE))
        parse = arrow_json.ParseOptions(
            explicit_schema=_schema(reading),
            newlines_in_values=options.get("newlines_in_values", False),
            unexpected_field_behavior="infer" if reading.fixed is None else "error",
        )
        with on_failure(self.close):
            try:
                self._content = open_content(file)
                self._reader = arrow_json.open_json(self._content.stream, read, parse)
                self.schema = bare(self._reader.schema)
            except (pa.ArrowException, *DAMAGED) as error:
                raise self._explained(error) from None
        self._guessed = guessed_floats(self.schema, reading.declared)

    def read(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            return None
        except (pa.ArrowException, *DAMAGED) as error:
            raise self._explained(error) from None
        self._rows += batch.num_rows
        refuse_rounded(self._file, batch, self._guessed)
        return batch

    def close(self) -> None:
        content, self._content = self._content, None
        if content is not None:
            content.close()

    def _explained(self, error: BaseException) -> DponeError:
        text, file = str(error), self._file
        found = _ROW.search(text)
        row = self._rows + int(found[1]) + 1 if found else None
        where = f", object {row}" if row else f", after object {self._rows}"
        context = {"row": row} if row else {}
        if changed := _CHANGED.search(text):
            column = changed[1].strip("/").split("/")[0]
            if not column:
                return invalid(file, f"{where}: not a JSON object", "Write one object a line.", **context)
            problem = f"{where}, column {column}: a {changed[3]} where a {changed[2]} is expected"
            return refused(file, problem, column=column, **context)
        if "couldn't parse" in text or "Failed to convert" in text:
            return refused(file, f"{where}: a value that is not of its column's type", **context)
        if "unexpected field" in text:
            return DponeError(
                "DPONE_SOURCE_COLUMN_UNKNOWN",
                f"File {file.name}{where}: a key that the first objects do not have.",
                remedy=DECLARE,
            )
        if "Empty JSON" in text:
            return invalid(file, " is empty", "An empty source needs a format that names its columns.")
        if "straddl" in text:
            return invalid(file, " has an object longer than a block", "Raise source.options.block_size.")
        if gone := unopened(file, error):
            return gone
        if isinstance(error, pa.ArrowInvalid) and "compress" not in text:
            return invalid(file, f"{where}: not well-formed JSON", "Write one object a line.", **context)
        return damaged(file)


def _schema(reading: Reading) -> pa.Schema | None:
    if reading.fixed is not None:
        return reading.fixed
    types = {name: json_type(kind) for name, kind in reading.declared.items()}
    fields = [pa.field(name, kind) for name, kind in types.items() if kind is not None]
    return pa.schema(fields) if fields else None
