"""One configured gate: its values, and how it is read from a manifest (Q1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.canonical import text_digest
from dpone_provider.quality.problems import Path, Reader, is_measure, is_text, plain

SEVERITIES = ("error", "warn")
SIDES = ("source", "target")
TOLERANCE_MODES = ("absolute", "pct")
HASH_MODES = ("full", "sample")

# One scalar of the staged table each: asked by the load path, answered by the server, judged in verdicts.py.
SQL_TYPES = ("not_null", "unique", "accepted_values", "freshness", "custom_sql")
HASH_TYPE = "typed_hash_reconciliation"
# The fields that a type reads beyond id, type and severity. A new entry also needs an evaluation in verdicts.py.
AVAILABLE: dict[str, tuple[str, ...]] = {
    "row_count_reconciliation": ("tolerance",),
    "min_rows": ("side", "threshold"),
    HASH_TYPE: ("mode",),
    **dict.fromkeys(SQL_TYPES, ("threshold", "sql")),
}
NEEDS_THRESHOLD = ("min_rows", "freshness")  # the others pass at zero
GATE_TYPES = tuple(AVAILABLE)
GATE_FIELDS = ("id", "type", "severity", "side", "threshold", "tolerance", "mode", "sql")

CODE = "DPONE_QUALITY_CONFIGURATION"
MAX_SQL = 65_536


def _measure(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not is_measure(value):
        raise ValueError(f"{field.name} must be a finite number of zero or more")


def _sql(_: object, __: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not is_text(value, MAX_SQL):
        raise ValueError(f"sql must be text of at most {MAX_SQL} characters, without control characters")


@attrs.frozen(kw_only=True)
class Tolerance:
    """How far two row counts may be apart: ``value`` rows (absolute) or ``value`` per cent of the source rows (pct)."""

    mode: str = attrs.field(default="absolute", validator=attrs.validators.in_(TOLERANCE_MODES))
    value: int | float = attrs.field(default=0, converter=plain, validator=_measure)


@attrs.frozen(kw_only=True)
class GateSpec:
    """One gate. ``side``, ``threshold``, ``tolerance``, ``mode`` and ``sql`` are None where the type does not use them.

    ``side`` target means the staged rows, before publication; ``threshold``: rows, seconds of a freshness gate, or the
    number of a custom one; ``mode``: of a typed hash. Raises ``ValueError`` for a word outside the vocabulary.
    """

    id: str = attrs.field(validator=attrs.validators.min_len(1))
    type: str = attrs.field(validator=attrs.validators.in_(GATE_TYPES))
    severity: str = attrs.field(default="error", validator=attrs.validators.in_(SEVERITIES))
    side: str | None = attrs.field(default=None, validator=attrs.validators.in_((None, *SIDES)))
    threshold: int | float | None = attrs.field(default=None, converter=plain, validator=_measure)
    tolerance: Tolerance | None = None
    mode: str | None = attrs.field(default=None, validator=attrs.validators.in_((None, *HASH_MODES)))
    sql: str | None = attrs.field(default=None, repr=False, validator=_sql)

    def snapshot(self, ordinal: int) -> dict[str, Any]:
        """The JSON form that digests are made of (Q2). ``ordinal``: 0-based. SQL stands as its SHA-256 only."""
        tolerance = self.tolerance
        return {
            "ordinal": ordinal,
            "id": self.id,
            "type": self.type,
            "severity": self.severity,
            "side": self.side,
            "threshold": self.threshold,
            "tolerance": None if tolerance is None else {"mode": tolerance.mode, "value": tolerance.value},
            "hash_mode": self.mode,
            "sql_sha256": None if self.sql is None else text_digest(self.sql),
        }


def read_gates(raw: object, path: Path, reader: Reader) -> tuple[GateSpec, ...]:
    """The well-formed gates of an authored list, in order; every problem goes to ``reader``."""
    if not isinstance(raw, list | tuple):
        reader.note(path, "This must be a list of gates.", "Write one list item a gate.")
        return ()
    gates: list[GateSpec] = []
    seen: set[str] = set()
    for position, item in enumerate(raw):
        at = (*path, position)
        fields = reader.mapping(item, at, GATE_FIELDS)
        if fields is None:
            continue
        gate_id = _gate_id(fields, at, reader, seen)
        gate = _read_gate(fields, at, reader, gate_id)
        if gate is None:
            continue
        if gate.mode is not None and gate.mode != next((other.mode for other in gates if other.mode), gate.mode):
            message = "Another typed hash has another mode."
            reader.note((*at, "mode"), message, "Give all typed hashes of a load one mode: each side is hashed once.")
            continue
        gates.append(gate)
    return tuple(gates)


def _gate_id(fields: Mapping[str, Any], path: Path, reader: Reader, seen: set[str]) -> str | None:
    gate_id = reader.name(fields.get("id"), (*path, "id"))
    if gate_id is not None and gate_id in seen:
        reader.note((*path, "id"), "Two gates have this id.", "Give every gate an id of its own.")
        return None
    if gate_id is not None:
        seen.add(gate_id)
    return gate_id


def _read_gate(fields: Mapping[str, Any], path: Path, reader: Reader, gate_id: str | None) -> GateSpec | None:
    before = len(reader.problems)
    gate_type = reader.choice(fields.get("type"), (*path, "type"), GATE_TYPES)
    severity = reader.choice(fields.get("severity", "error"), (*path, "severity"), SEVERITIES)
    if gate_type is None:
        return None
    values = _type_fields(gate_type, fields, path, reader)
    if gate_id is None or severity is None or len(reader.problems) > before:
        return None
    return GateSpec(id=gate_id, type=gate_type, severity=severity, **values)


def _type_fields(gate_type: str, fields: Mapping[str, Any], path: Path, reader: Reader) -> dict[str, Any]:
    used = AVAILABLE[gate_type]
    for key in fields:
        if key in GATE_FIELDS[3:] and key not in used:
            reader.note((*path, key), f"Gates of type {gate_type} do not use this field.", "Remove it.")
    values: dict[str, Any] = {}
    if "side" in used:
        values["side"] = reader.choice(fields.get("side", "target"), (*path, "side"), SIDES)
    if "threshold" in used:
        default = None if gate_type in NEEDS_THRESHOLD else 0
        values["threshold"] = reader.integer(fields.get("threshold", default), (*path, "threshold"))
    if "tolerance" in used:
        values["tolerance"] = _read_tolerance(fields, path, reader)
    if "mode" in used:
        values["mode"] = reader.choice(fields.get("mode", "full"), (*path, "mode"), HASH_MODES)
    if "sql" in used:
        values["sql"] = reader.text(fields.get("sql"), (*path, "sql"), most=MAX_SQL)
    return values


def _read_tolerance(fields: Mapping[str, Any], path: Path, reader: Reader) -> Tolerance | None:
    at = (*path, "tolerance")
    if "tolerance" not in fields:
        return Tolerance()
    raw = reader.mapping(fields["tolerance"], at, ("mode", "value"))
    if raw is None:
        return None
    mode = reader.choice(raw.get("mode"), (*at, "mode"), TOLERANCE_MODES)
    value = reader.number(raw.get("value"), (*at, "value"))
    return None if mode is None or value is None else Tolerance(mode=mode, value=value)
