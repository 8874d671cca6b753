"""The ``source`` of a process: files, ClickHouse or another SQL database, closed and strict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.grammar import source as authored
from dpone_provider.manifest.grammar.declare import CREDENTIALS, Key, declared, keys
from dpone_provider.manifest.grammar.source import FORMATS, SOURCES, SourceOptions
from dpone_provider.manifest.nodes import Mapping, Node, Scalar, Sequence, kind_of, locate
from dpone_provider.manifest.partitions import read_partitions
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.spec import ClickHouseSource, Cursor, FileSource, SourceSpec, SqlSource, TableRef
from dpone_provider.manifest.sqltext import any_query_fault, identifier_fault, query_fault
from dpone_provider.manifest.tables import HOOKS, Place, checked, read_connection, read_name, read_table

OPTIONS: dict[str, dict[str, Key]] = {
    word: {name: told for name, told in declared(SourceOptions).items() if word in told.only}
    for word in (*FORMATS, *SOURCES)
}
_CREDENTIALS = re.compile(CREDENTIALS)
_LATER = dict.fromkeys(("pre_sql", "post_sql", "hooks"), HOOKS)


def read_source(node: Mapping, place: Place, log: ProblemLog) -> SourceSpec | None:
    """The source, or None after noting what is wrong with it."""
    kind = _peek(node, "type")
    fields = Fields(node, log, keys(authored.Source, kind if kind in SOURCES else ""), _LATER)
    match fields.choice("type", dict.fromkeys(SOURCES)):
        case "file":
            return _read_file(fields, place)
        case "clickhouse":
            return _read_clickhouse(fields, place)
        case "sql":
            return _read_sql(fields, place)
        case _:
            return None


def _read_file(fields: Fields, place: Place) -> FileSource | None:
    form = fields.choice("format", dict.fromkeys(FORMATS))
    path = fields.text("path", required=True)
    connection = read_connection(fields, required=False)
    if path is not None and _CREDENTIALS.match(path):
        remedy = "Put credentials into a connection and name it in connection_ref."
        fields.problem("path", "DPONE_MANIFEST_VALUE", "the path holds credentials", remedy)
        return None
    options = _read_options(fields, OPTIONS.get(form or ""))
    cursor, parts = _read_cursor(fields), read_partitions(fields, place.base)
    read = dict(options).get("columns", dict(options).get("column_names"))
    if cursor is not None and read and cursor.column not in read:
        message, remedy = "the column is not among those that are read", "Add it to the options, or correct it."
        fields.log.add(locate(fields.node, ("cursor", "column")), "DPONE_MANIFEST_VALUE", message, remedy)
    if form is None or path is None:
        return None
    if place.table:
        path = path.replace("{schema}", place.schema).replace("{table}", place.table)
    elif "{schema}" in path or "{table}" in path:
        message = "{schema} and {table} stand for a batch's source table; this process has none"
        fields.problem("path", "DPONE_MANIFEST_VALUE", message, "Write the path itself.")
        return None
    return FileSource(
        format=cast(Any, form),
        path=path,
        options=options,
        connection_ref=connection,
        base=place.base,
        cursor=cursor,
        partitions=parts,
    )


def _read_clickhouse(fields: Fields, place: Place) -> ClickHouseSource | None:
    connection = read_connection(fields, required=True)
    default = TableRef(database=place.schema, name=place.table) if place.table else None
    query = _read_query(fields, query_fault)
    table = read_table(fields, default) if "query" not in fields else None
    options = _read_options(fields, OPTIONS["clickhouse"])
    cursor, parts = _read_cursor(fields), read_partitions(fields, place.base)
    if connection is None or (query is None and table is None):
        return None
    return ClickHouseSource(
        connection_ref=connection, table=table, query=query, options=options, cursor=cursor, partitions=parts
    )


def _read_sql(fields: Fields, place: Place) -> SqlSource | None:
    connection = read_connection(fields, required=True)
    query = _read_query(fields, any_query_fault)
    schema, table = _read_sql_table(fields, place) if "query" not in fields else ("", None)
    options = dict(_read_options(fields, OPTIONS["sql"]))
    cursor, parts = _read_cursor(fields), read_partitions(fields, place.base)
    if connection is None or (query is None and table is None):
        return None
    return SqlSource(
        connection_ref=connection, schema=schema, table=table, query=query, cursor=cursor, partitions=parts, **options
    )


def _read_sql_table(fields: Fields, place: Place) -> tuple[str, str | None]:
    """Schema ("": the connection's own) and table; parts that are not written are those of the process."""
    node = fields.mapping("table", required=not place.table)
    if node is None:
        return place.schema, None if "table" in fields else place.table or None
    inner = Fields(node, fields.log, keys(authored.SourceTable))
    schema = checked(inner, "schema", inner.text("schema"), identifier_fault)
    return schema or place.schema, read_name(inner, "name", place.table)


def _read_query(fields: Fields, fault_of: Callable[[str], str | None]) -> str | None:
    query = checked(fields, "query", fields.text("query"), fault_of)
    if "query" in fields and "table" in fields:
        fields.problem("query", "DPONE_MANIFEST_CONFLICT", "a source has a table or a query, not both")
    return query


def _read_cursor(fields: Fields) -> Cursor | None:
    node = fields.mapping("cursor")
    if node is None:
        return None
    column = read_name(Fields(node, fields.log, keys(authored.Cursor)), "column")
    return Cursor(column=column) if column else None


def _read_options(fields: Fields, kinds: dict[str, Key] | None) -> tuple[tuple[str, Any], ...]:
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
            message = f"expected {_expected(kinds[name])}, found {kind_of(found)}"
            inner.problem(name, "DPONE_MANIFEST_TYPE", message)
        else:
            options.append((name, value))
    return tuple(options)


def _option(node: Node, told: Key) -> Any:
    """The value of an option, None when it is not as declared."""
    if told.kind == "tuple[str, ...]":
        items = node.items if isinstance(node, Sequence) else ()
        words = tuple(item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str))
        fits = all(_fits(word, told) for word in words) and not (told.unique and len(set(words)) < len(words))
        return words if words and len(words) == len(items) and fits else None
    value = node.value if isinstance(node, Scalar) else None
    if told.kind == "bool":
        return value if type(value) is bool else None
    if told.kind == "int":
        return value if type(value) is int and (told.least or 0) <= value <= (told.most or 0) else None
    return value if isinstance(value, str) and value and _fits(value, told) else None


def _fits(word: str, told: Key) -> bool:
    return not told.pattern or re.fullmatch(told.pattern, word) is not None


def _expected(told: Key) -> str:
    match told.kind:
        case "bool":
            return "true or false"
        case "int":
            return f"an integer from {told.least} to {told.most}"
        case "tuple[str, ...]":
            return "a list of different names" if told.unique else "a list of strings"
        case _:
            return "one ASCII character" if told.pattern else "a string"


def _peek(node: Mapping, key: str) -> str:
    found = node.get(key)
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else ""
