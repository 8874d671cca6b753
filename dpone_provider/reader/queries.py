"""The statements of the bounded reader, and the settings that every one of them carries (protocol 7; R7, R9).

Three SELECTs: what the settings are, what the table is, what is in it. Names are quoted, values are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from dpone_provider.clickhouse import pins, quote

MAX_MEMORY_BYTES: Final = 2 * 1024**3
"""What one query may take on the server: pinned as ``max_memory_usage``; distinct counts are forecast against it."""
MAX_THREADS: Final = 4
"""Threads of one query: each keeps distinct values of its own, so they bound what a distinct count may take."""

OBSERVE: pins.Settings = {
    **pins.READ,
    "database": "",
    "max_result_rows": 1,
    "max_threads": MAX_THREADS,
    "allow_experimental_parallel_reading_from_replicas": 0,
    "automatic_parallel_replicas_mode": 0,
    "parallel_replicas_custom_key": "",
    "make_distributed_plan": 0,
    "implicit_transaction": 0,
    "apply_mutations_on_fly": 0,
    "ignore_cold_parts_seconds": 0,
    "prefer_warmed_unmerged_parts_seconds": 0,
    "data_type_default_nullable": 0,
    "group_by_use_nulls": 0,
    "join_use_nulls": 0,
    "optimize_trivial_count_query": 0,
    "optimize_trivial_approximate_count_query": 0,
    "optimize_use_projections": 0,
    "optimize_use_implicit_projections": 0,
    "optimize_using_constraints": 0,
    "use_statistics_for_min_max_aggregation": 0,
    "use_statistics_for_part_pruning": 0,
    "use_query_condition_cache": 0,
    "force_primary_key": 0,
    "force_index_by_date": 0,
    "force_data_skipping_indices": "",
    "ast_fuzzer_runs": 0,
    "output_format_native_encode_types_in_binary_format": 0,
    "unknown_packet_in_send_data": 0,
}
"""Beyond READ: one server, one row, and counts that come from reading the columns instead of from what is kept beside
them (part headers, projections, statistics, caches)."""

WHERE_KNOWN: Final = (OBSERVE.keys() - pins.READ.keys()) | pins.READ_WHERE_KNOWN.keys()
"""Those that a server may not know, and so cannot be changed by."""

SETTINGS: Final = "SELECT groupArray([name, value]) FROM system.settings WHERE name IN ({names})"

STATE: Final = """
SELECT toString(uuid), engine, engine_full, create_table_query,
  (SELECT groupArray([leftPad(toString(position), 10, '0'), name, type, default_kind]) FROM system.columns
   WHERE database = {database:String} AND table = {table:String}),
  (SELECT count() FROM system.row_policies
   WHERE database = {database:String} AND table IN ({table:String}, '', '*')),
  (SELECT count() FROM system.mutations
   WHERE database = {database:String} AND table = {table:String} AND NOT is_done),
  (SELECT [countIf(startsWith(partition_id, 'patch-')), countIf(has_lightweight_delete)] FROM system.parts
   WHERE database = {database:String} AND table = {table:String} AND active),
  (SELECT groupArray([is_readonly, queue_size, active_replicas, total_replicas]) FROM system.replicas
   WHERE database = {database:String} AND table = {table:String})
FROM system.tables WHERE database = {database:String} AND name = {table:String}"""
"""One row, or none when there is no such table. A lightweight UPDATE shows in ``system.parts`` only, as patch parts."""


def pinned(*, seconds: float, max_memory_bytes: int) -> dict[str, int | float | str]:
    """The settings of one statement. ``seconds``: what the server may take, at least a millisecond; 0 is no limit."""
    bounds = {"max_execution_time": max(0.001, round(seconds, 3)), "max_memory_usage": max_memory_bytes}
    return {**OBSERVE, **bounds}


def settings_query(names: Mapping[str, object]) -> str:
    """The SELECT that reads these settings back: one row with ``[[name, value]…]``, unknown ones left out."""
    return SETTINGS.replace("{names}", ", ".join(quote.string(name) for name in names))


@attrs.frozen(kw_only=True)
class Scan:
    """One SELECT over the table. ``aliases``: of its columns, ``m0`` onwards, in the order of ``metrics``.

    ``metrics``: ``(kind, column)`` with kind ``rows``, ``nulls`` or ``distinct``.
    """

    sql: str
    metrics: tuple[tuple[str, str], ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(f"m{ordinal}" for ordinal in range(len(self.metrics)))


def scan(
    *, database: str, table: str, row_count: bool, null_columns: tuple[str, ...], distinct_columns: tuple[str, ...]
) -> Scan | None:
    """The scan for a selection, None when it is empty.

    Every column is named by its table, so one that is called like an alias is that column (R9).
    """
    metrics = [("rows", "")] if row_count else []
    metrics += [("nulls", name) for name in null_columns]
    metrics += [("distinct", name) for name in distinct_columns]
    if not metrics:
        return None
    selected = ", ".join(f"{_expression(*metric)} AS m{ordinal}" for ordinal, metric in enumerate(metrics))
    return Scan(sql=f"SELECT {selected} FROM {quote.table(database, table)} AS dpone_g", metrics=tuple(metrics))


def _expression(kind: str, column: str) -> str:
    if kind == "rows":
        return "count()"
    name = f"dpone_g.{quote.identifier(column)}"
    return f"countIf(isNull({name}))" if kind == "nulls" else f"uniqExact({name})"
