"""The ``sink`` of a process: one ClickHouse table, its strategy, columns and physical design."""

from __future__ import annotations

import re
from typing import Any, cast

from dpone_provider.manifest.fields import Fields, text_of
from dpone_provider.manifest.grammar import sink as authored
from dpone_provider.manifest.grammar.declare import keys
from dpone_provider.manifest.nodes import Mapping, Scalar, kind_of
from dpone_provider.manifest.problems import ProblemLog
from dpone_provider.manifest.selector import SELECTOR
from dpone_provider.manifest.spec import PhysicalDesign, SinkSpec, Strategy, TableRef
from dpone_provider.manifest.sqltext import (
    MAX_TARGET_LENGTH,
    engine_fault,
    expression_fault,
    identifier_fault,
    statement_fault,
    stored_length,
    type_fault,
)
from dpone_provider.manifest.tables import HOOKS, Place, checked, read_connection, read_name, read_table

_LATER = dict.fromkeys(("pre_sql", "post_sql", "hooks"), HOOKS)
_SETTING = re.compile(authored.SETTING)
_CLUSTER = re.compile(authored.CLUSTER)
_TARGETS_OWN = "staging"  # as a name of the staging schema: wherever the target is


def read_sink(node: Mapping, place: Place, log: ProblemLog) -> SinkSpec | None:
    """The sink, or None after noting what is wrong with it."""
    fields = Fields(node, log, keys(authored.Sink), _LATER)
    kind = fields.choice("type", dict.fromkeys(authored.SINKS))
    connection = read_connection(fields, required=True)
    table = read_table(fields, TableRef(database="", name=place.table), required=True)
    if table and stored_length(table.database) + stored_length(table.name) > MAX_TARGET_LENGTH:
        message = f"schema and name take more than {MAX_TARGET_LENGTH} bytes in the server's file names"
        fields.problem("table", "DPONE_MANIFEST_VALUE", message, "Use shorter names of plain letters.")
    staging = _read_staging(fields, table)
    strategy = _read_strategy(fields)
    cluster = checked(fields, "cluster", fields.text("cluster"), _cluster_fault) or ""
    columns = _read_columns(fields)
    pre_sql, post_sql = (_read_statements(fields, key) for key in ("pre_sql", "post_sql"))
    options = fields.mapping("options")
    selector = keep = False
    engine = "ReplicatedMergeTree" if cluster and strategy.mode != "append" else PhysicalDesign().engine
    design = PhysicalDesign(engine=engine)
    if options is not None:
        inner = Fields(options, log, keys(authored.SinkOptions), _LATER)
        selector = inner.flag(SELECTOR, code="DPONE_REPLAY_SELECTOR_TYPE")
        keep = inner.flag("keep_previous")
        design = _read_design(inner, {name for name, _ in columns}, engine)
    if kind is None or connection is None or table is None:
        return None
    return SinkSpec(
        connection_ref=connection,
        table=table,
        strategy=strategy,
        staging_database=staging,
        columns=columns,
        design=design,
        keep_previous=keep,
        pre_sql=pre_sql,
        post_sql=post_sql,
        durable_quality_replay=selector,
        cluster=cluster,
    )


def _cluster_fault(text: str) -> str | None:
    return None if _CLUSTER.fullmatch(text) else "this is not a name of a cluster"


def _read_staging(fields: Fields, table: TableRef | None) -> str | None:
    """The staging database; None for the target's, however that was said."""
    node = fields.mapping("staging")
    if node is None:
        return None
    inner = Fields(node, fields.log, keys(authored.Staging))
    name = read_name(inner, "schema", _TARGETS_OWN)
    return None if name in (None, _TARGETS_OWN) or (table and name == table.database) else name


def _read_strategy(fields: Fields) -> Strategy:
    node = fields.mapping("strategy")
    if node is None:
        return Strategy()
    inner = Fields(node, fields.log, keys(authored.Strategy))
    mode = inner.choice("mode", dict.fromkeys(authored.MODES), default="full_refresh") or "full_refresh"
    return Strategy(mode=cast(Any, mode), max_source_bytes=inner.integer("max_source_bytes", least=1))


def _read_statements(fields: Fields, key: str) -> tuple[str, ...]:
    """The statements of a hook, in authored order; the same one may stand twice."""
    found = fields.sequence(key)
    texts = [(item.at, text_of(item, fields.log)) for item in (found.items if found else ())]
    for at, text in texts:
        fault = statement_fault(text) if text is not None else None
        if fault:
            fields.log.add(at, "DPONE_MANIFEST_VALUE", fault)
    return tuple(text for _, text in texts if text is not None)


def _read_columns(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Column names and types, in authored order."""
    node = fields.mapping("columns")
    columns: list[tuple[str, str]] = []
    for name, entry in node.entries.items() if node else ():
        fault = identifier_fault(name) if name.strip() else "the column name is empty"
        if fault:
            fields.log.add(entry.key_at, "DPONE_MANIFEST_VALUE", fault)
        text = text_of(entry.node, fields.log)
        fault = type_fault(text) if text is not None else None
        if fault:
            fields.log.add(entry.node.at, "DPONE_MANIFEST_VALUE", fault)
        elif text is not None:
            columns.append((name, text.strip()))
    return tuple(columns)


def _read_design(options: Fields, columns: set[str], default: str) -> PhysicalDesign:
    fields: Fields | None = options
    for key, below in (
        ("physical_design", authored.PhysicalDesign),
        ("storage", authored.Storage),
        ("clickhouse", authored.ClickHouseStorage),
    ):
        node = fields.mapping(key) if fields else None
        fields = Fields(node, options.log, keys(below), {"ttl": "TTL is not available"}) if node else None
    if fields is None:
        return PhysicalDesign(engine=default)
    engine = checked(fields, "engine", fields.text("engine"), engine_fault) or default
    return PhysicalDesign(
        engine=re.sub(r"\s*\(\s*\)$", "", engine.strip()),
        order_by=_read_keys(fields, columns),
        partition_by=checked(fields, "partition_by", fields.text("partition_by"), _key_fault(columns)),
        settings=_read_settings(fields),
    )


def _read_keys(fields: Fields, columns: set[str]) -> tuple[str, ...]:
    keys = fields.texts("order_by")
    for key, at in keys:
        fault = _key_fault(columns)(key)
        if fault:
            fields.log.add(at, "DPONE_MANIFEST_VALUE", fault)
    return tuple(key for key, _ in keys)


def _key_fault(columns: set[str]) -> Any:
    return lambda text: None if text in columns else expression_fault(text)


def _read_settings(fields: Fields) -> tuple[tuple[str, Any], ...]:
    """Table settings, sorted by name: scalars that are not null."""
    node = fields.mapping("settings")
    settings: list[tuple[str, Any]] = []
    for name, entry in node.entries.items() if node else ():
        value = entry.node.value if isinstance(entry.node, Scalar) else None
        if not _SETTING.fullmatch(name):
            fields.log.add(entry.key_at, "DPONE_MANIFEST_VALUE", "this is not a name of a setting")
        elif value is None:
            message = f"expected a string, number or boolean, found {kind_of(entry.node)}"
            fields.log.add(entry.node.at, "DPONE_MANIFEST_TYPE", message)
        else:
            settings.append((name, value))
    return tuple(sorted(settings))
