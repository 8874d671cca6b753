"""The ``source`` of a process: files or ClickHouse, closed and strict."""

from __future__ import annotations

import re
from typing import Any, cast

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.nodes import Mapping, Node, Scalar, Sequence, kind_of
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.spec import ClickHouseSource, FileSource, SourceSpec, TableRef
from dpone_provider.manifest.sqltext import query_fault
from dpone_provider.manifest.tables import Place, checked, read_connection, read_table

_KEYS = {
    "file": ("type", "connection_ref", "format", "path", "options"),
    "clickhouse": ("type", "connection_ref", "table", "query", "options"),
}
FILE_OPTIONS: dict[str, dict[str, str]] = {
    "csv": {
        "delimiter": "character",
        "quote_char": "character",
        "escape_char": "character",
        "decimal_point": "character",
        "double_quote": "flag",
        "newlines_in_values": "flag",
        "strings_can_be_null": "flag",
        "skip_rows": "integer",
        "encoding": "string",
        "column_names": "strings",
        "null_values": "strings",
        "true_values": "strings",
        "false_values": "strings",
        "timestamp_formats": "strings",
        "header": "flag",
        "block_size": "size",
    },
    "jsonl": {"newlines_in_values": "flag", "block_size": "size"},
    "parquet": {"columns": "strings", "batch_rows": "size"},
    "arrow": {"columns": "strings", "batch_rows": "size"},
}
_EXPECTED = {
    "character": "one character",
    "flag": "true or false",
    "integer": "an integer from 0 to 1000000",
    "size": "an integer from 1 to 1073741824",
    "string": "a string",
    "strings": "a list of strings",
}
_BOUNDS = {"integer": (0, 1_000_000), "size": (1, 1 << 30)}
_CREDENTIALS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*@")
_UNSTAGED = {"pre_sql": "hooks are not available yet", "post_sql": "hooks are not available yet"}


def read_source(node: Mapping, place: Place, log: ProblemLog) -> SourceSpec | None:
    """The source, or None after noting what is wrong with it."""
    known = _KEYS.get(_peek(node, "type"), _KEYS["file"] + _KEYS["clickhouse"])
    fields = Fields(node, log, known, _UNSTAGED)
    match fields.choice("type", dict.fromkeys(_KEYS)):
        case "file":
            return _read_file(fields, place)
        case "clickhouse":
            return _read_clickhouse(fields, place)
        case _:
            return None


def _read_file(fields: Fields, place: Place) -> FileSource | None:
    form = fields.choice("format", dict.fromkeys(FILE_OPTIONS))
    path = fields.text("path", required=True)
    connection = read_connection(fields, required=False)
    if path is not None and _CREDENTIALS.match(path):
        remedy = "Put credentials into a connection and name it in connection_ref."
        fields.problem("path", "DPONE_MANIFEST_VALUE", "the path holds credentials", remedy)
        return None
    options = _read_options(fields, FILE_OPTIONS.get(form or ""))
    if form is None or path is None:
        return None
    if place.table:
        path = path.replace("{schema}", place.schema).replace("{table}", place.table)
    return FileSource(format=cast(Any, form), path=path, options=options, connection_ref=connection, base=place.base)


def _read_clickhouse(fields: Fields, place: Place) -> ClickHouseSource | None:
    connection = read_connection(fields, required=True)
    default = TableRef(database=place.schema, name=place.table) if place.table else None
    query = checked(fields, "query", fields.text("query"), query_fault)
    table = None
    if "query" in fields and "table" in fields:
        fields.problem("query", "DPONE_MANIFEST_CONFLICT", "a source has a table or a query, not both")
    elif "query" not in fields:
        table = read_table(fields, default)
    options = _read_options(fields, {})
    if connection is None or (query is None and table is None):
        return None
    return ClickHouseSource(connection_ref=connection, table=table, query=query, options=options)


def _read_options(fields: Fields, kinds: dict[str, str] | None) -> tuple[tuple[str, Any], ...]:
    """Known options of the source, sorted by name; their order never matters. ``kinds`` None: the format is unknown."""
    node = fields.mapping("options")
    if node is None or kinds is None:
        return ()
    inner = Fields(node, fields.log, kinds)
    options: list[tuple[str, Any]] = []
    for name in sorted(kinds.keys() & node.entries.keys()):
        found = node.entries[name].node
        value = _option(found, kinds[name])
        if value is None:
            message = f"expected {_EXPECTED[kinds[name]]}, found {kind_of(found)}"
            inner.problem(name, "DPONE_MANIFEST_TYPE", message)
        else:
            options.append((name, value))
    return tuple(options)


def _option(node: Node, kind: str) -> Any:
    """The value of an option of this kind, None when it is of another one."""
    if kind == "strings":
        items = node.items if isinstance(node, Sequence) else ()
        words = tuple(item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str))
        return words if words and len(words) == len(items) else None
    value = node.value if isinstance(node, Scalar) else None
    if kind == "flag":
        return value if type(value) is bool else None
    if kind in _BOUNDS:
        least, most = _BOUNDS[kind]
        return value if type(value) is int and least <= value <= most else None
    return value if isinstance(value, str) and value and (kind == "string" or len(value) == 1) else None


def _peek(node: Mapping, key: str) -> str:
    found = node.get(key)
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else ""
