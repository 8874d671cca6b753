"""What must be true of a load. The words are the quality room's own."""

from __future__ import annotations

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.manifest.grammar.declare import key, model
from dpone_provider.quality.acceptance_policy import ACCEPTANCE_MODES, COLUMN_WORDS
from dpone_provider.quality.gate_spec import (
    AVAILABLE,
    HASH_MODES,
    MAX_SQL,
    NEEDS_THRESHOLD,
    SEVERITIES,
    SIDES,
    SQL_TYPES,
    TOLERANCE_MODES,
)

_NAME = r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"
_COLUMN = r"[\s\S]*\S[\s\S]*"
_SQL = r"(?=[\s\S]*\S)[^\x00-\x08\x0b-\x1f\x7f-\x9f]*"


def _users(field: str) -> tuple[str, ...]:
    return tuple(gate for gate, used in AVAILABLE.items() if field in used)


@model()
class Tolerance:
    """How far two row counts may be apart."""

    mode: str = key(
        "absolute counts rows, pct per cent of the source rows.", example="pct", choices=TOLERANCE_MODES, required=True
    )
    value: float = key("Rows, or per cent.", example=0.1, least=0, most=MAX_INTEGER, required=True)


@model(tag="type")
class Gate:
    """One check of a load: of staged rows before they are published, of an append once its rows are added."""

    id: str = key(
        "A name that no other gate of the process has.",
        example="rows",
        pattern=_NAME,
        most=128,
        text=False,
        required=True,
    )
    type: str = key("What is checked.", example="min_rows", choices=tuple(AVAILABLE), required=True)
    severity: str = key("error ends the load, warn is recorded.", example="warn", default="error", choices=SEVERITIES)
    side: str = key(
        "Whose rows are counted; target are the staged rows.",
        example="source",
        default="target",
        choices=SIDES,
        only=_users("side"),
    )
    threshold: int = key(
        "min_rows: the smallest number of rows that passes; else the largest number that passes: default 0.",
        example=1000,
        least=0,
        most=MAX_INTEGER,
        only=_users("threshold"),
        required=NEEDS_THRESHOLD,
    )
    tolerance: Tolerance = key(
        "How far the rows of source and staging may be apart: default not at all.",
        example={"mode": "pct", "value": 0.1},
        only=_users("tolerance"),
    )
    mode: str = key(
        "Which rows are hashed: full, or a sample by key; one mode for all typed hashes of a load.",
        example="sample",
        default="full",
        choices=HASH_MODES,
        only=_users("mode"),
    )
    sql: str = key(
        "What the server computes on the staged rows: an expression; of custom_sql one SELECT with {table} for them.",
        example="order_id",
        pattern=_SQL,
        most=MAX_SQL,
        only=SQL_TYPES,
        required=SQL_TYPES,
    )


@model()
class Capture:
    """The sides that are observed."""

    source: bool = key("Observe what was read.", example=True, default=True)
    staged: bool = key("Observe the staged generation; append has none.", example=True, default=True)
    target: bool = key("Observe the live table after the load.", example=False, default=True)


@model()
class Checks:
    """What is observed of each side."""

    row_count: bool = key("Count the rows.", example=True, default=True)
    null_counts: bool | str | tuple[str, ...] = key(
        "Columns whose NULLs are counted: names, a word, true (business columns) or false.",
        example=["id"],
        default=False,
        choices=COLUMN_WORDS,
        pattern=_COLUMN,
        text=False,
        least=1,
        unique=True,
    )
    distinct_counts: bool | str | tuple[str, ...] = key(
        "Columns whose different values are counted: names, a word, true (business columns) or false.",
        example="business_columns",
        default=False,
        choices=COLUMN_WORDS,
        pattern=_COLUMN,
        text=False,
        least=1,
        unique=True,
    )


@model()
class Acceptance:
    """Observations that are recorded with the load; they compare nothing."""

    enabled: bool = key("false asks for nothing; the rest is checked all the same.", example=True, required=True)
    mode: str = key(
        "required ends the load when a count cannot be made, warn_only records a warning.",
        example="required",
        default="warn_only",
        choices=ACCEPTANCE_MODES,
    )
    capture: Capture = key("The sides that are observed.", example={"target": False}, default={})
    checks: Checks = key("What is observed of each side.", example={"null_counts": ["id"]}, default={})


@model()
class Quality:
    """What must be true of a load, and what is recorded of it."""

    gates: tuple[Gate, ...] = key(
        "Checks of the load.", example=[{"id": "rows", "type": "row_count_reconciliation"}], default=[]
    )
    acceptance: Acceptance = key("Observations of each side.", example={"enabled": True, "mode": "required"})
