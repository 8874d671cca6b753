"""The fields that sources and sinks share: connection ids, table names, checked SQL texts."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from dpone_provider.manifest.fields import Fields
from dpone_provider.manifest.grammar.declare import keys
from dpone_provider.manifest.grammar.source import CONNECTION, SourceTable
from dpone_provider.manifest.spec import TableRef
from dpone_provider.manifest.sqltext import identifier_fault

HOOKS = "hooks run at the target: write sink.pre_sql and sink.post_sql"
_CONNECTION = re.compile(CONNECTION)


@attrs.frozen(kw_only=True)
class Place:
    """The source schema and table of a process, empty for inline arguments. ``base``: the manifest's folder."""

    schema: str = ""
    table: str = ""
    base: str = ""


def read_connection(fields: Fields, *, required: bool) -> str | None:
    """``connection_ref``: an Airflow connection id, never an address."""
    ref = fields.text("connection_ref", required=required)
    if ref is not None and not _CONNECTION.fullmatch(ref):
        remedy = "Name a connection; address and credentials belong into that connection."
        fields.problem("connection_ref", "DPONE_MANIFEST_VALUE", "this is not a connection id", remedy)
        return None
    return ref


def read_table(fields: Fields, default: TableRef | None, *, required: bool = True) -> TableRef | None:
    """``table: {schema, name}``. Parts that are not written come from ``default``; without one they are missing."""
    complete = default if default and default.database and default.name else None
    node = fields.mapping("table", required=required and complete is None)
    if node is None:
        return None if "table" in fields else complete
    inner = Fields(node, fields.log, keys(SourceTable))
    database = read_name(inner, "schema", default.database if default else "")
    name = read_name(inner, "name", default.name if default else "")
    return TableRef(database=database, name=name) if database and name else None


def read_name(fields: Fields, key: str, default: str = "") -> str | None:
    """A database or table name: anything that can be quoted, bounded in length."""
    name = fields.text(key, required=not default)
    if name is None:
        return None if key in fields else default
    return checked(fields, key, name, identifier_fault)


def checked(fields: Fields, key: str, text: str | None, fault_of: Callable[[str], str | None]) -> str | None:
    """``text``, or None after noting why it may not stand in field ``key``."""
    fault = fault_of(text) if text is not None else None
    if fault:
        fields.problem(key, "DPONE_MANIFEST_VALUE", fault)
        return None
    return text
