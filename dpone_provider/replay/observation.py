"""The target observation of a v2 COMPLETE: its exact form, bound to the sealed core (protocol 5 and 6; C2, C4, C5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpone_provider import canonical
from dpone_provider.replay.capsule_core import (
    BINDING,
    COUNTS,
    HEX32,
    HEX64,
    SHA256,
    STRING,
    TEXT,
    CapsuleError,
    exactly,
    fields,
    invalid,
    list_of,
    mismatch,
    nullable,
    uint64,
)
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest

KIND = "dpone.quality.target-observation.v1"
PROFILE = "clickhouse-immutable-generation-v1"
CAPTURE_BOUNDARY = "committed_generation_before_governance_complete"
UNAVAILABLE = "target_acceptance_metric_probe_unavailable"

OBSERVATION = fields(
    kind=exactly(KIND),
    side=exactly("target"),
    dataset=TEXT,
    columns=list_of(TEXT),
    selection_digest=HEX64,
    schema_digest=SHA256,
    binding=BINDING,
    replica=STRING,
    observation_profile=exactly(PROFILE),
    attempt_id=HEX32,
    row_count=nullable(uint64),
    null_counts=COUNTS,
    distinct_counts=COUNTS,
    warnings=list_of(STRING),
    capture_boundary=exactly(CAPTURE_BOUNDARY),
)


def compose(
    core: Mapping[str, Any],
    *,
    replica: str,
    attempt_id: str,
    row_count: int | None = None,
    null_counts: Mapping[str, int] | None = None,
    distinct_counts: Mapping[str, int] | None = None,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """An observation of the sealed generation: what the plan fixes, plus what was seen. Not checked here."""
    plan = core["target_plan"]
    return {
        "kind": KIND,
        "side": "target",
        "dataset": plan["dataset"],
        "columns": [name for name, _ in plan["columns"]],
        "selection_digest": plan["selection_digest"],
        "schema_digest": plan["schema_digest"],
        "binding": core["binding"],
        "replica": replica,
        "observation_profile": PROFILE,
        "attempt_id": attempt_id,
        "row_count": row_count,
        "null_counts": dict(null_counts or {}),
        "distinct_counts": dict(distinct_counts or {}),
        "warnings": list(warnings),
        "capture_boundary": CAPTURE_BOUNDARY,
    }


def check_observation(value: Any, core: Mapping[str, Any]) -> None:
    """Check an observation against the sealed core.

    Raises ``CapsuleError``: ``…_INVALID`` for a wrong form, another plan or other metrics than were sealed,
    ``…_MISMATCH`` for another generation or another replica than the first sorted one.
    """
    where = "observation"
    OBSERVATION(value, where)
    plan = core["target_plan"]
    expected = compose(core, replica=value["replica"], attempt_id=value["attempt_id"])
    for name in ("dataset", "columns", "selection_digest", "schema_digest"):
        if value[name] != expected[name]:
            raise invalid(f"{where}.{name} is not the sealed plan's")
    if not (_measured(value, plan) or _unavailable(value, plan)):
        raise invalid(f"{where} has other metrics or warnings than the sealed plan allows")
    if value["binding"] != core["binding"]:
        raise mismatch(f"{where}.binding")
    if value["replica"] != plan["replicas"][0]:
        raise mismatch(f"{where}.replica")


def request_of(core: Mapping[str, Any], attempt_id: str) -> TargetRequest:
    """What the sealed core asks to be observed; today's manifest has no say in it (C5)."""
    plan, desired = core["target_plan"], core["binding"]["desired"]
    return TargetRequest(
        database=plan["database"],
        table=plan["table"],
        generation=desired["uuid"],
        engine_full=desired["engine_full"],
        columns=tuple((name, kind) for name, kind in plan["columns"]),
        row_count=plan["row_count"],
        null_columns=tuple(plan["null_columns"]),
        distinct_columns=tuple(plan["distinct_columns"]),
        replicas=tuple(plan["replicas"]),
        attempt_id=attempt_id,
    )


def observed(core: Mapping[str, Any], counts: TargetCounts) -> dict[str, Any]:
    """The observation that these counts make.

    Raises ``CapsuleError``: like ``check_observation``, and ``…_MISMATCH`` when the live generation does not count
    what was counted of it when it was staged.
    """
    value = compose(
        core,
        replica=counts.replica,
        attempt_id=counts.attempt_id,
        row_count=counts.row_count,
        null_counts=counts.null_counts,
        distinct_counts=counts.distinct_counts,
    )
    check_observation(value, core)
    staged = core["acceptance"].get("staged", {})
    rows = {core["binding"]["staged_rows"], staged.get("row_count"), value["row_count"]} - {None}
    if value["row_count"] is not None and len(rows) != 1:
        raise _differs("row_count", value)
    for name in ("null_counts", "distinct_counts"):
        earlier = staged.get(name, {})
        if any(earlier.get(column, count) != count for column, count in value[name].items()):
            raise _differs(name, value)
    return value


def _differs(metric: str, value: Mapping[str, Any]) -> CapsuleError:
    """The live generation counts something else than it did when it was staged; the error says what was counted."""
    return CapsuleError(
        "DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH",
        f"The live table does not count what it counted when it was staged ({metric}): something wrote to it since.",
        remedy="Find the other writer in system.query_log, then start a new run: it reads the source again.",
        context={"target_observation": {name: value[name] for name in ("row_count", "null_counts", "distinct_counts")}},
    )


def unavailable(core: Mapping[str, Any], attempt_id: str) -> dict[str, Any]:
    """The one record of a probe that cannot exist, for a policy that only warns (R11). Checked like any other."""
    value = compose(core, replica=core["target_plan"]["replicas"][0], attempt_id=attempt_id, warnings=(UNAVAILABLE,))
    check_observation(value, core)
    return value


def worst_cases(core: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The largest observations that the sealed plan allows: every count at 2**64-1, and the warning form if permitted.

    They have the longest admitted replica, so they are for measuring only (C4).
    """
    plan = core["target_plan"]
    place = {"replica": max(plan["replicas"], key=lambda name: len(canonical.encode(name))), "attempt_id": "f" * 32}
    most = canonical.MAX_INTEGER
    yield compose(
        core,
        **place,
        row_count=most if plan["row_count"] else None,
        null_counts=dict.fromkeys(plan["null_columns"], most),
        distinct_counts=dict.fromkeys(plan["distinct_columns"], most),
    )
    if plan["mode"] == "warn_only":
        yield compose(core, **place, warnings=(UNAVAILABLE,))


def _measured(value: dict[str, Any], plan: dict[str, Any]) -> bool:
    """Exactly the requested metrics, and no warning."""
    return bool(
        (value["row_count"] is not None) == plan["row_count"]
        and value["null_counts"].keys() == set(plan["null_columns"])
        and value["distinct_counts"].keys() == set(plan["distinct_columns"])
        and value["warnings"] == []
    )


def _unavailable(value: dict[str, Any], plan: dict[str, Any]) -> bool:
    """The one record without metrics, under warn_only only."""
    metrics = (value["row_count"], value["null_counts"], value["distinct_counts"])
    return bool(plan["mode"] == "warn_only" and value["warnings"] == [UNAVAILABLE]) and metrics == (None, {}, {})
