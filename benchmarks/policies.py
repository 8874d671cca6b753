"""The quality policies whose cost is compared, each on top of the same plain load (``benchmarks.quality``)."""

from __future__ import annotations

from typing import Any, Final

from benchmarks import data

GATES: Final[list[dict[str, Any]]] = [
    {"id": "rows", "type": "row_count_reconciliation"},
    {"id": "some", "type": "min_rows", "threshold": 1},
]
SQL_GATES: Final[list[dict[str, Any]]] = [
    {"id": "origin", "type": "not_null", "sql": "origin"},
    {"id": "one", "type": "unique", "sql": "id"},
    {"id": "known", "type": "accepted_values", "sql": "origin IN ('EWR', 'JFK', 'LGA')"},
    {"id": "fresh", "type": "freshness", "sql": "time_hour", "threshold": 10**10},
    {"id": "months", "type": "custom_sql", "sql": "SELECT countIf(month NOT BETWEEN 1 AND 12) FROM {table}"},
]
WORDS: Final = {
    "quality_none": "no gate, no observation",
    "quality_gates": "+ row_count_reconciliation, min_rows",
    "quality_nulls": "+ acceptance: rows and NULLs of all columns, both sides",
    "quality_distinct": "+ acceptance: exact distinct of id, both sides",
    "quality_sample": "+ typed_hash_reconciliation, mode sample (by id)",
    "quality_hash": "+ typed_hash_reconciliation, mode full",
    "quality_sql": "+ one gate of each of the five SQL types",
    "quality_all": "all of it",
}


def observations(distinct: tuple[str, ...] = (), *, nulls: bool = True, target: bool = False) -> dict[str, Any]:
    """An acceptance block: rows, NULLs of every column, exact distinct of some."""
    return {
        "enabled": True,
        "mode": "required",
        "capture": {"source": True, "staged": True, "target": target},
        "checks": {
            "row_count": True,
            "null_counts": list(data.ORDER) if nulls else False,
            "distinct_counts": list(distinct) or False,
        },
    }


def hashed(mode: str) -> dict[str, Any]:
    """The typed hash gate."""
    return {"id": "hash", "type": "typed_hash_reconciliation", "mode": mode}


POLICIES: Final[dict[str, dict[str, Any]]] = {
    "quality_none": {},
    "quality_gates": {"gates": GATES},
    "quality_nulls": {"acceptance": observations()},
    "quality_distinct": {"acceptance": observations(("id",), nulls=False)},
    "quality_sample": {"gates": [hashed("sample")]},
    "quality_hash": {"gates": [hashed("full")]},
    "quality_sql": {"gates": SQL_GATES},
    "quality_all": {"gates": [*GATES, hashed("full"), *SQL_GATES], "acceptance": observations(("id",))},
}
