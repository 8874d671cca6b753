"""What to observe on each side: the acceptance policy met with each side's own schema (X2, X5, X8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from dpone_provider.canonical import text_digest
from dpone_provider.errors import DponeError
from dpone_provider.quality.acceptance_policy import ACCEPTANCE_SIDES, AcceptanceMetricPolicy, ColumnCheck

TECHNICAL_PREFIX = "__dpone__"
UNKNOWN_COLUMNS = "acceptance_metric_columns_unknown"
UNAVAILABLE: dict[str, str] = {
    "source": "source_acceptance_metric_probe_unavailable",
    "staged": "staged_acceptance_metric_unavailable",
    "target": "target_acceptance_metric_probe_unavailable",
}


@attrs.frozen(kw_only=True)
class MetricRequest:
    """What to observe on one side.

    ``dataset``: a name without secrets (a query stands as its hash); ``columns``: the side's whole ordered schema;
    ``null_columns``, ``distinct_columns``: in schema order. ``unknown_columns``: asked for, not in this side's schema
    and so dropped (warn_only). ``available`` False: the side has nothing to observe (warn_only).
    """

    side: str = attrs.field(validator=attrs.validators.in_(ACCEPTANCE_SIDES))
    dataset: str
    columns: tuple[str, ...]
    row_count: bool
    null_columns: tuple[str, ...] = ()
    distinct_columns: tuple[str, ...] = ()
    required: bool = True
    unknown_columns: tuple[str, ...] = ()
    available: bool = True


def plan_requests(
    policy: AcceptanceMetricPolicy | None,
    schemas_by_side: Mapping[str, Sequence[str]],
    datasets_by_side: Mapping[str, str],
    *,
    sides: Iterable[str] = ACCEPTANCE_SIDES,
) -> tuple[MetricRequest, ...]:
    """One request for each side that the policy asks for, as far as it is in ``sides``, in the fixed order of sides.

    ``schemas_by_side``: ordered column names of every side that the path has; a side that is not in it is unavailable.
    Raises ``DponeError`` DPONE_ACCEPTANCE_UNAVAILABLE in required mode for an unavailable side or an unknown column.
    """
    wanted = tuple(sides)
    if policy is None:
        return ()
    return tuple(
        _request(policy, side, schemas_by_side.get(side), datasets_by_side.get(side, ""))
        for side in policy.sides
        if side in wanted
    )


def unobserved(side: str, error_code: str, message: str) -> DponeError:
    """The error for a required observation that was not made; its context is what load evidence may record (X9)."""
    return DponeError(
        "DPONE_ACCEPTANCE_UNAVAILABLE",
        f"Acceptance of {side}: {message} ({error_code})",
        context={"acceptance_side": side, "error_code": error_code},
    )


def query_dataset(sql: str) -> str:
    """The dataset name of a source query: its SHA-256, never its text (X8)."""
    return "source_query:" + text_digest(sql)


def _request(policy: AcceptanceMetricPolicy, side: str, columns: Sequence[str] | None, dataset: str) -> MetricRequest:
    required = policy.mode == "required"
    if columns is None:
        request = MetricRequest(
            side=side, dataset=dataset, columns=(), row_count=policy.row_count, required=required, available=False
        )
        if required:
            raise unobserved(side, UNAVAILABLE[side], "It cannot be observed on this route.")
        return request
    unknown = _unknown(policy, columns)
    if unknown and required:
        raise unobserved(side, f"{side}_{UNKNOWN_COLUMNS}", f"There is no column {', '.join(unknown)} on this side.")
    return MetricRequest(
        side=side,
        dataset=dataset,
        columns=tuple(columns),
        row_count=policy.row_count,
        null_columns=_selected(policy.null_counts, columns),
        distinct_columns=_selected(policy.distinct_counts, columns),
        required=required,
        unknown_columns=unknown,
    )


def _unknown(policy: AcceptanceMetricPolicy, columns: Sequence[str]) -> tuple[str, ...]:
    named = [
        name for check in (policy.null_counts, policy.distinct_counts) if isinstance(check, tuple) for name in check
    ]
    return tuple(name for name in dict.fromkeys(named) if name not in columns)


def _selected(check: ColumnCheck, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(check, tuple):
        return tuple(name for name in columns if name in check)
    if check == "business_columns":
        return tuple(name for name in columns if not name.startswith(TECHNICAL_PREFIX))
    return tuple(columns) if check == "all_columns" else ()
