"""What must be observed of the live generation, fixed while it is staged (protocol 5; C5, C6, R1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpone_provider import canonical
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load.columns import Columns
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.reader.admission import (
    forecast_distinct_memory,
    refuse_distinct_memory,
    refuse_unsupported_metrics,
)
from dpone_provider.replay.capsule_core import selection

Distinct = Mapping[str, int]


def admit_request(request: MetricRequest, columns: Columns) -> None:
    """Refuse, before anything is staged, a target that could not be observed as it is asked for.

    Raises DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED: a column that is not there, in every mode, because a sealed plan
    is never made smaller; a type without that metric; more than 256 columns.
    """
    if request.unknown_columns:
        raise DponeError(
            "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
            f"Acceptance of target: there is no column {', '.join(request.unknown_columns[:10])}.",
            remedy="Correct null_counts and distinct_counts in quality.acceptance.checks.",
        )
    refuse_unsupported_metrics(columns, request.null_columns, request.distinct_columns, required=request.required)


def admit_memory(
    request: MetricRequest, columns: Columns, counted: StagedMetrics, approximate: Callable[[Sequence[str]], Distinct]
) -> None:
    """Refuse, before the publication, distinct counts that could run out of the reader's memory.

    ``counted``: of the staged generation; where its distinct values were not asked for, ``approximate`` gives about
    how many a column has. Raises DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED.
    """
    known = dict(counted.distinct_counts)
    unknown = [name for name in request.distinct_columns if name not in known]
    forecast = forecast_distinct_memory(
        columns,
        request.distinct_columns,
        rows=counted.row_count,
        distinct_counts={**known, **(approximate(unknown) if unknown else {})},
    )
    refuse_distinct_memory(forecast)


def target_plan(spec: LoadSpec, request: MetricRequest, columns: Columns, replicas: Sequence[str]) -> dict[str, Any]:
    """The plan that the capsule seals. ``columns``: ordered, with the types as the server prints them."""
    table = spec.sink.table
    plan: dict[str, Any] = {
        "mode": "required" if request.required else "warn_only",
        "cluster": spec.sink.cluster,
        "database": table.database,
        "table": table.name,
        "dataset": request.dataset,
        "columns": [list(pair) for pair in columns],
        "schema_digest": "sha256:" + canonical.digest([list(pair) for pair in columns]),
        "row_count": request.row_count,
        "null_columns": list(request.null_columns),
        "distinct_columns": list(request.distinct_columns),
        "replicas": sorted(replicas),
    }
    return {**plan, "selection_digest": canonical.digest(selection(plan))}
