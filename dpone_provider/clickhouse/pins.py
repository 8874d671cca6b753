"""Settings that a statement carries itself, so that no user profile can change what it means (A4, B13, R7)."""

from __future__ import annotations

from collections.abc import Mapping

Settings = Mapping[str, bool | int | float | str]

READ_WHERE_KNOWN: Settings = {
    "dialect": "clickhouse",
    "select": "",
    "filter": "",
    "sort": "",
    "order": "",
    "page": 0,
    "implicit_table_at_top_level": "",
    "inject_random_order_for_select_without_order_by": 0,
    "discard_query_data": 0,
    "run_query_in_background": 0,
    "partial_result_on_first_cancel": 0,
    "query_cache_for_subqueries": 0,
    "apply_patch_parts": 1,
    "select_sequential_consistency": 0,
    "parallel_replicas_count": 0,
    "parallel_replica_offset": 0,
    "enable_named_columns_in_function_tuple": 0,
    "show_table_uuid_in_table_create_query_if_not_nil": 0,
    "show_create_query_identifier_quoting_rule": "when_necessary",
    "show_create_query_identifier_quoting_style": "Backticks",
}
"""The part of READ that older servers do not know, and so cannot be changed by.

A server rewrites a query, answers it with no row, or prints a table in another way, when a profile says so.
"""

READ: Settings = {
    **READ_WHERE_KNOWN,
    "readonly": 1,
    "final": 0,
    "limit": 0,
    "offset": 0,
    "extremes": 0,
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "apply_deleted_mask": 1,
    "skip_unavailable_shards": 0,
    "use_query_cache": 0,
    "max_parallel_replicas": 1,
    "empty_result_for_aggregation_by_empty_set": 0,
    "aggregate_functions_null_for_empty": 0,
    "prefer_column_name_to_alias": 0,
    "transform_null_in": 0,
    "max_result_rows": 0,
    "max_result_bytes": 0,
    "max_rows_to_read": 0,
    "max_bytes_to_read": 0,
    "max_rows_to_read_leaf": 0,
    "max_bytes_to_read_leaf": 0,
    "read_overflow_mode": "throw",
    "read_overflow_mode_leaf": "throw",
    "result_overflow_mode": "throw",
    "group_by_overflow_mode": "throw",
    "sort_overflow_mode": "throw",
    "set_overflow_mode": "throw",
    "distinct_overflow_mode": "throw",
    "join_overflow_mode": "throw",
    "transfer_overflow_mode": "throw",
    "timeout_overflow_mode": "throw",
    "timeout_overflow_mode_leaf": "throw",
}
"""Of every SELECT: nothing filtered, cut, cached or turned into NULL; a limit throws instead of answering in part."""

AUTHORITY_WRITE: Settings = {
    **{name: value for name, value in READ.items() if name != "readonly" and name not in READ_WHERE_KNOWN},
    "async_insert": 0,
    "insert_null_as_default": 0,
}
"""Of the authority's INSERT and UPDATE.

26.9 turns ``async_insert`` on by default; an UPDATE reads the row that it changes.
"""

DEFINE: Settings = {"data_type_default_nullable": 0}
"""Of CREATE TABLE: a type means what is written."""

DROP: Settings = {
    "max_table_size_to_drop": 0,
    "max_partition_size_to_drop": 0,
    "database_atomic_wait_for_drop_and_detach_synchronously": 0,
}
"""Of DROP TABLE: no size limit on our own generations, no waiting for readers of them."""

INSERT: Settings = {
    "async_insert": 0,
    "insert_deduplicate": 0,
    "insert_null_as_default": 0,
    "input_format_null_as_default": 0,
    "input_format_skip_unknown_fields": 0,
    "input_format_arrow_allow_missing_columns": 0,
    "input_format_arrow_case_insensitive_column_matching": 0,
    "send_progress_in_http_headers": 0,
    "timeout_overflow_mode": "throw",
    "wait_end_of_query": 1,
}
"""Of the bulk INSERT.

No block dropped as a duplicate, no NULL or missing column replaced, the status line is the verdict.
"""

INSERT_WHERE_KNOWN: Settings = {"deduplicate_insert": "disable"}
"""Of the bulk INSERT on servers that know it: there it overrides ``insert_deduplicate``, and is on by default."""

APPEND: Settings = {
    **INSERT,
    "wait_for_async_insert": 1,
    "distributed_foreground_insert": 1,
    "materialized_views_ignore_errors": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 0,
}
"""Of the INSERT into a live table: acknowledged rows are there, those that its views make of them too."""

HOOK: Settings = {"async_insert": 0, "max_result_rows": 10_000, "result_overflow_mode": "throw"}
"""Of an author's statement: an INSERT has happened when it is acknowledged; what a SELECT returns stays small."""
