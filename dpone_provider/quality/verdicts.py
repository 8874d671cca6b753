"""What each type of gate says of the facts: one pure evaluation a type (Q1, Q8).

A fact that nobody has is never a passed gate, and never zero. The metrics are an allow-list a type: whole numbers, and
typed hashes as ``sha256:`` digests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import attrs

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.quality.gate_spec import HASH_TYPE, NEEDS_THRESHOLD, GateSpec
from dpone_provider.quality.problems import is_count

Metric = int | str
# Whether the gate holds, a code, and the metrics.
Verdict = tuple[bool, str, Mapping[str, Metric]]

SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_HASH = re.compile(r"(sha256:)?[0-9a-f]{64}")


def _row_count(_: object, __: object, value: Any) -> None:
    if value is not None and not is_count(value):
        raise ValueError("row_count must be a whole number of rows, or None when nobody counted")


def _typed_hash(_: object, __: object, value: Any) -> None:
    if value is not None and not (type(value) is str and _HASH.fullmatch(value)):
        raise ValueError("typed_hash must be a SHA-256 in lower-case hex, or None when nobody computed it")


@attrs.frozen(kw_only=True)
class Probe:
    """What is known of one side. ``row_count``: rows, None when nobody counted; ``typed_hash``: SHA-256 hex, or None.

    None makes the gates that need the fact fail; zero rows is a fact. Raises ``ValueError`` for anything else.
    """

    row_count: int | None = attrs.field(default=None, validator=_row_count)
    typed_hash: str | None = attrs.field(default=None, validator=_typed_hash)

    def payload(self) -> dict[str, Any]:
        """The JSON form ``{row_count, typed_hash}`` that a capsule stores."""
        return {"row_count": self.row_count, "typed_hash": self.typed_hash}


@attrs.frozen(kw_only=True)
class Facts:
    """What one gate is judged by. ``answer``: the scalar of an SQL gate as it came; only a count is an answer."""

    source: Probe
    target: Probe
    answer: object = None


def verdict(gate: GateSpec, facts: Facts) -> Verdict:
    """What this gate says. Every known type has an evaluation."""
    return EVALUATIONS[gate.type](gate, facts)


def _row_count_reconciliation(gate: GateSpec, facts: Facts) -> Verdict:
    source, target = facts.source.row_count, facts.target.row_count
    if source is None:
        return False, "source_row_count_unavailable", {}
    if target is None:
        return False, "target_row_count_unavailable", {}
    difference, allowed = abs(source - target), _allowed_rows(gate, source)
    metrics = {"source_rows": source, "target_rows": target, "difference_rows": difference, "allowed_rows": allowed}
    holds = difference <= allowed
    return holds, "rows_reconciled" if holds else "rows_outside_tolerance", metrics


def _allowed_rows(gate: GateSpec, source_rows: int) -> int:
    """The tolerance in whole rows, exact: an authored ``0.1`` is one tenth, not its nearest binary float."""
    if gate.tolerance is None:
        return 0
    value = Fraction(str(gate.tolerance.value))
    exact = value if gate.tolerance.mode == "absolute" else value * source_rows / 100
    return min(int(exact), MAX_INTEGER)


def _min_rows(gate: GateSpec, facts: Facts) -> Verdict:
    side = gate.side or "target"
    rows = (facts.source if side == "source" else facts.target).row_count
    if rows is None:
        return False, f"{side}_row_count_unavailable", {}
    if type(gate.threshold) is not int:
        return False, "threshold_missing", {}
    holds = rows >= gate.threshold
    metrics = {"rows": rows, "threshold_rows": gate.threshold}
    return holds, "rows_reach_threshold" if holds else "rows_below_threshold", metrics


def _typed_hash_reconciliation(gate: GateSpec, facts: Facts) -> Verdict:
    source, target = facts.source.typed_hash, facts.target.typed_hash
    if source is None:
        return False, "source_typed_hash_unavailable", {}
    if target is None:
        return False, "target_typed_hash_unavailable", {}
    metrics = {"source_hash": _prefixed(source), "target_hash": _prefixed(target)}
    holds = metrics["source_hash"] == metrics["target_hash"]
    return holds, "typed_hashes_equal" if holds else "typed_hashes_differ", metrics


def _prefixed(typed_hash: str) -> str:
    return "sha256:" + typed_hash.removeprefix("sha256:")


def _scalar(gate: GateSpec, facts: Facts) -> Verdict:
    """An SQL gate holds when its one number is at most the threshold."""
    noun, metric, limit = SCALARS[gate.type]
    threshold = 0 if gate.threshold is None and gate.type not in NEEDS_THRESHOLD else gate.threshold
    if type(threshold) is not int:
        return False, "threshold_missing", {}
    if gate.sql is None or not is_count(facts.answer):
        return False, f"{noun}_unavailable", {}
    holds = facts.answer <= threshold
    return holds, f"{noun}_{'within' if holds else 'over'}_threshold", {metric: facts.answer, limit: threshold}


# What the number of an SQL gate is called: in codes, as a metric, and its threshold.
SCALARS = {
    "not_null": ("nulls", "null_rows", "threshold_rows"),
    "unique": ("duplicates", "duplicate_rows", "threshold_rows"),
    "accepted_values": ("unaccepted_values", "unaccepted_rows", "threshold_rows"),
    "freshness": ("age", "age_seconds", "threshold_seconds"),
    "custom_sql": ("value", "value", "threshold"),
}
EVALUATIONS: dict[str, Callable[[GateSpec, Facts], Verdict]] = {
    "row_count_reconciliation": _row_count_reconciliation,
    "min_rows": _min_rows,
    HASH_TYPE: _typed_hash_reconciliation,
    **dict.fromkeys(SCALARS, _scalar),
}
# The metrics that a report may carry.
METRICS: dict[str, frozenset[str]] = {
    "row_count_reconciliation": frozenset({"source_rows", "target_rows", "difference_rows", "allowed_rows"}),
    "min_rows": frozenset({"rows", "threshold_rows"}),
    HASH_TYPE: frozenset({"source_hash", "target_hash"}),
    **{gate_type: frozenset({metric, limit}) for gate_type, (_, metric, limit) in SCALARS.items()},
}
