"""The sealed core of a capsule: its exact fields, their forms, and what must agree inside it (protocol 5; C2, C5).

A ``Rule`` checks one decoded JSON value and raises ``CapsuleError`` naming the place, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dpone_provider import canonical
from dpone_provider.errors import DponeError

V1 = "dpone.quality.replay.v1"
V2 = "dpone.quality.replay.v2"
IDENTITY_VERSION = "dpone.quality.replay.identity.v1"
MAX_SELECTED_COLUMNS = 256
MAX_NESTING = 64

Rule = Callable[[Any, str], None]


class CapsuleError(DponeError):
    """A proof that the protocol does not admit: ``code`` ends in ``_INVALID``, ``_MISMATCH`` or ``_UNSUPPORTED``."""


def invalid(where: str) -> CapsuleError:
    """The error for a malformed or inconsistent proof. ``where``: a field's path or a short statement."""
    return CapsuleError("DPONE_REPLAY_QUALITY_EVIDENCE_INVALID", f"The proof is not valid: {where}.")


def mismatch(where: str) -> CapsuleError:
    """The error for a well-formed proof of something else than what was sealed."""
    return CapsuleError("DPONE_REPLAY_QUALITY_EVIDENCE_MISMATCH", f"The proof is of something else: {where}.")


def text(pattern: str) -> Rule:
    """A string that the whole pattern matches."""
    form = re.compile(pattern)

    def rule(value: Any, where: str) -> None:
        if type(value) is not str or form.fullmatch(value) is None:
            raise invalid(where)

    return rule


def exactly(*allowed: str | bool) -> Rule:
    """One of these values, of the same type."""

    def rule(value: Any, where: str) -> None:
        if not any(type(value) is type(item) and value == item for item in allowed):
            raise invalid(where)

    return rule


def nullable(inner: Rule) -> Rule:
    """Null, or what the rule admits."""

    def rule(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return rule


def fields(**rules: Rule) -> Rule:
    """An object with exactly these fields."""

    def rule(value: Any, where: str) -> None:
        if type(value) is not dict or value.keys() != rules.keys():
            raise invalid(f"{where} has not exactly its fields")
        for name, inner in rules.items():
            inner(value[name], f"{where}.{name}")

    return rule


def some_fields(**rules: Rule) -> Rule:
    """An object with any of these fields and no other."""

    def rule(value: Any, where: str) -> None:
        if type(value) is not dict or not value.keys() <= rules.keys():
            raise invalid(f"{where} has a field that is not one of its own")
        for name in value:
            rules[name](value[name], f"{where}.{name}")

    return rule


def list_of(inner: Rule, *, length: int | None = None) -> Rule:
    """A list of values, of this length if one is given."""

    def rule(value: Any, where: str) -> None:
        if type(value) is not list or (length is not None and len(value) != length):
            raise invalid(where)
        for index, item in enumerate(value):
            inner(item, f"{where}[{index}]")

    return rule


def map_of(inner: Rule) -> Rule:
    """An object of free names; a name never stands in the error."""

    def rule(value: Any, where: str) -> None:
        if type(value) is not dict:
            raise invalid(where)
        for item in value.values():
            inner(item, f"{where}[]")

    return rule


def uint64(value: Any, where: str) -> None:
    """A whole number of 0 to 2**64-1, never a boolean."""
    if type(value) is not int or not 0 <= value <= canonical.MAX_INTEGER:
        raise invalid(where)


def flag(value: Any, where: str) -> None:
    """``true`` or ``false``."""
    if type(value) is not bool:
        raise invalid(where)


def free(value: Any, where: str, levels: int = MAX_NESTING) -> None:
    """Any JSON value of at most 64 levels: what was admitted once can then be read again on every stack."""
    if levels == 0:
        raise invalid(where)
    for item in value.values() if type(value) is dict else value if type(value) is list else ():
        free(item, where, levels - 1)


STRING = text(r"(?s).*")
TEXT = text(r"(?s).+")
HEX32 = text(r"[0-9a-f]{32}")
HEX64 = text(r"[0-9a-f]{64}")
SHA256 = text(r"sha256:[0-9a-f]{64}")
UUID = text(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OBJECT = map_of(free)
COUNTS = map_of(uint64)

PROBE = fields(row_count=nullable(uint64), typed_hash=nullable(STRING))
REPORT = fields(kind=exactly("dpone.data_quality.gates.v1"), passed=flag, results=list_of(OBJECT))
EFFECTIVE_PLAN = fields(
    contract_version=exactly(IDENTITY_VERSION),
    admission_digest=SHA256,
    effective_config_digest=SHA256,
    source_schema_digest=SHA256,
    payload_schema_digest=SHA256,
    target_schema_digest=SHA256,
    effective_plan_digest=SHA256,
)
# A table without replication has no Keeper name and path: both are "".
DESIRED = fields(uuid=UUID, engine_full=STRING, schema_digest=HEX64, keeper_name=STRING, keeper_path=STRING)
BINDING = fields(
    target_key=HEX64,
    operation_id=HEX64,
    fence_token=HEX32,
    inventory_digest=HEX64,
    plan_digest=HEX64,
    desired=DESIRED,
    staged_rows=uint64,
)
# One server has the cluster "".
TARGET_PLAN = fields(
    mode=exactly("required", "warn_only"),
    cluster=STRING,
    database=TEXT,
    table=TEXT,
    dataset=TEXT,
    columns=list_of(list_of(TEXT, length=2)),
    schema_digest=SHA256,
    selection_digest=HEX64,
    row_count=flag,
    null_columns=list_of(TEXT),
    distinct_columns=list_of(TEXT),
    replicas=list_of(TEXT),
)


def _snapshot(side: str) -> Rule:
    # A side that could not be observed (warn_only) has no dataset, no columns and no counts.
    return fields(
        kind=exactly("dpone.acceptance.metric_snapshot.v1"),
        side=exactly(side),
        dataset=STRING,
        columns=list_of(TEXT),
        row_count=nullable(uint64),
        null_counts=COUNTS,
        distinct_counts=COUNTS,
        warnings=list_of(STRING),
        captured_before_cleanup=exactly(True),
    )


_SHARED: dict[str, Rule] = {
    "policy_snapshot_id": SHA256,
    "admission_digest": SHA256,
    "effective_plan": EFFECTIVE_PLAN,
    "run_id": TEXT,
    "load_id": TEXT,
    "source_probe": PROBE,
    "target_probe": PROBE,
    "report": REPORT,
    "acceptance": some_fields(source=_snapshot("source"), staged=_snapshot("staged")),
    "binding": BINDING,
}
_CORES: dict[str, Rule] = {V1: fields(**_SHARED), V2: fields(**_SHARED, target_plan=TARGET_PLAN)}


def check_core(kind: str, core: Any) -> None:
    """Check a decoded core of this capsule kind. Raises ``CapsuleError`` ``…_INVALID`` (C2, C5)."""
    _CORES[kind](core, "core")
    plan = core["effective_plan"]
    if not core["admission_digest"] == plan["admission_digest"] == plan["effective_config_digest"]:
        raise invalid("core.effective_plan has another admission_digest")
    if kind == V2:
        _check_target_plan(core["target_plan"])


def selection(plan: dict[str, Any]) -> dict[str, Any]:
    """The part of a target plan that ``selection_digest`` is over."""
    return {name: plan[name] for name in ("row_count", "null_columns", "distinct_columns")}


def _check_target_plan(plan: dict[str, Any]) -> None:
    names = [name for name, _ in plan["columns"]]
    nulls, distincts, replicas = plan["null_columns"], plan["distinct_columns"], plan["replicas"]
    selected = {*nulls, *distincts}
    rules = {
        "columns": bool(names) and len(set(names)) == len(names),
        "null_columns": len(set(nulls)) == len(nulls) and selected.issubset(names),
        "distinct_columns": len(set(distincts)) == len(distincts) and len(selected) <= MAX_SELECTED_COLUMNS,
        "replicas": bool(replicas) and replicas == sorted(set(replicas)),
        "selection_digest": plan["selection_digest"] == canonical.digest(selection(plan)),
    }
    for name, holds in rules.items():
        if not holds:
            raise invalid(f"core.target_plan.{name}")
