"""SQL gates: one bounded read-only SELECT a gate on the staged rows; one whole number or no answer (Q1, B7, B23)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.control import Answer, ControlClient
from dpone_provider.manifest.sqltext import scalar_fault, with_table
from dpone_provider.quality.gate_spec import SQL_TYPES, GateSpec
from dpone_provider.wire import Effect, StatementFailed

WITHIN: Final = 300.0
"""Seconds that the server may take for one gate."""
MEANING: Final[pins.Settings] = {
    "session_timezone": "",  # a day begins when the server's does
    "join_use_nulls": 0,
    "join_default_strictness": "ALL",
    "any_join_distinct_right_table_keys": 0,
    "query_plan_convert_join_to_in": 0,
    "union_default_mode": "",
    "except_default_mode": "ALL",
    "intersect_default_mode": "ALL",
    "count_distinct_implementation": "uniqExact",
    "group_by_use_nulls": 0,
    "cast_keep_nullable": 0,
}
"""The server's defaults: an author's SQL means the same whatever the user's profile says of its joins and NULLs."""
_WHOLE = re.compile(r"(?:(?:Nullable|LowCardinality)\()*U?Int\d+\)*")
_STATEMENTS: Final[Mapping[str, str]] = {
    "not_null": "SELECT countIf(isNull({sql})), any(toTypeName({sql})) FROM {table}",
    "accepted_values": "SELECT count() - countIf({sql}) FROM {table}",
    # Grouping spills to disk where an exact distinct count would not; NULL is a value. No alias: a column may have it.
    "unique": "SELECT sum(`count()`) - count() FROM (SELECT count() FROM {table} GROUP BY tuple({sql}))",
    # The maximum of no rows is 1970, so that it counts only where a value is.
    "freshness": ("SELECT if(count({sql}) = 0, NULL, greatest(0, dateDiff('second', max({sql}), now()))) FROM {table}"),
}


@attrs.frozen(kw_only=True)
class GateAnswers:
    """What the server said. ``values``: the scalar by gate id, None = unavailable.

    ``reasons``: why a gate is unavailable, by its id: fixed words or the server's error number.
    """

    values: Mapping[str, int | None]
    reasons: Mapping[str, str]


class _Unanswered(Exception):
    pass


def gate_answers(
    client: ControlClient,
    database: str,
    name: str,
    gates: Iterable[GateSpec],
    *,
    before: Callable[[], None] = lambda: None,
    within: float = WITHIN,
    replica: str = "",
) -> GateAnswers:
    """Ask the SQL gates among ``gates`` on one staged table, one after another. ``before``: called before each.

    A gate that the server refuses, or that has no whole number of 0 to 2**63-1 for an answer, is unavailable: it never
    counts as zero, and never hides another gate. Raises ``StatementFailed`` when no answer came at all.
    """
    effect = Effect(kind="query", what="ask an SQL gate", replica=replica)
    bounds = {"max_execution_time": within, "max_result_rows": 1, "max_result_bytes": 65_536}
    settings = {**pins.READ, **MEANING, **bounds}
    values: dict[str, int | None] = {}
    reasons: dict[str, str] = {}
    for gate in gates:
        if gate.type not in SQL_TYPES:
            continue
        before()
        try:
            statement = _statement(gate, quote.table(database, name))
            values[gate.id] = _scalar(gate, client.read(effect, statement, settings=settings))
        except _Unanswered as why:
            values[gate.id], reasons[gate.id] = None, str(why)
        except StatementFailed as failed:
            if failed.code is None:
                raise
            values[gate.id], reasons[gate.id] = None, f"server error {failed.code}"
    return GateAnswers(values=values, reasons=reasons)


def _statement(gate: GateSpec, table: str) -> str:
    query, sql = gate.type == "custom_sql", gate.sql or ""
    fault = scalar_fault(sql, query=query)
    if fault is not None:
        raise _Unanswered(fault)
    if query:  # in brackets nothing but a SELECT can stand; the line's end closes a comment
        return f"SELECT * FROM (\n{with_table(sql, table)}\n)"
    return _STATEMENTS[gate.type].format(table=table, sql=sql)


def _scalar(gate: GateSpec, answer: Answer) -> int:
    if len(answer.rows) != 1:
        raise _Unanswered(f"{len(answer.rows)} rows instead of one")
    value, *rest = answer.rows[0]
    if gate.type == "not_null" and rest and str(rest.pop()).startswith("Tuple("):
        raise _Unanswered("a tuple is never NULL")
    if rest:
        raise _Unanswered(f"{1 + len(rest)} columns instead of one")
    if value is None:
        raise _Unanswered("NULL")
    if type(value) is not int or not _WHOLE.fullmatch(answer.columns[0][1]):
        raise _Unanswered("no whole number")
    if not 0 <= value < 2**63:
        raise _Unanswered("a number below 0 or of 2**63 and more")
    return value
