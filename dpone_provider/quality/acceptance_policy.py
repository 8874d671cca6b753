"""What acceptance asks to be observed, and how strictly: the values, and the reading of ``quality.acceptance`` (X1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.quality.problems import FieldProblem, Path, Reader

ACCEPTANCE_MODES = ("warn_only", "required")
ACCEPTANCE_SIDES = ("source", "staged", "target")
NOTHING = ("off", "none")
BUSINESS = ("business_columns", "source_and_binary_semantics", "strict")
COLUMN_CHECKS = ("null_counts", "distinct_counts")
CHECKS = ("row_count", *COLUMN_CHECKS)
PATH: Path = ("quality", "acceptance")
COLUMN_WORDS = (*NOTHING, "all_columns", *BUSINESS)

CODE = "DPONE_ACCEPTANCE_CONFIGURATION"
QUALITY_CODE = "DPONE_QUALITY_CONFIGURATION"

ColumnCheck = str | tuple[str, ...]


class AcceptanceMetricConfigurationError(DponeError, ValueError):
    """``quality.acceptance`` is malformed. ``field_path``: the public path, e.g. ``quality.acceptance.mode`` (X1)."""

    def __init__(self, code: str, field_path: str, message: str = "", *, remedy: str = "") -> None:
        self.field_path = field_path
        super().__init__(code, f"{field_path}: {message}" if message else field_path, remedy=remedy)


@attrs.frozen(kw_only=True)
class AcceptanceMetricPolicy:
    """Which observations of which sides a load needs.

    ``null_counts`` and ``distinct_counts`` become ``none``, ``all_columns``, ``business_columns`` or a tuple of column
    names. The default is a disabled policy: nothing is asked for. Raises ``AcceptanceMetricConfigurationError`` for
    what an author may not write either (X1).
    """

    enabled: bool = False
    mode: str = "warn_only"
    source: bool = True
    staged: bool = True
    target: bool = True
    row_count: bool = True
    null_counts: ColumnCheck = "none"
    distinct_counts: ColumnCheck = "none"

    def __attrs_post_init__(self) -> None:
        reader = Reader(code=CODE)
        values = _read_values(self._authored(), PATH, reader)
        if reader.problems:
            raise _error(reader.problems[0])
        for check in COLUMN_CHECKS:
            object.__setattr__(self, check, values[check])

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides to observe, in their fixed order; none when disabled."""
        return tuple(side for side in ACCEPTANCE_SIDES if self.enabled and getattr(self, side))

    def snapshot(self) -> dict[str, Any] | None:
        """The JSON form that digests are made of; None when disabled, since a disabled policy asks for nothing."""
        if not self.enabled:
            return None
        authored = self._authored()
        del authored["enabled"]
        checks = {name: list(check) if type(check) is tuple else check for name, check in authored["checks"].items()}
        return {**authored, "checks": checks}

    def _authored(self) -> dict[str, Any]:
        return {
            "enabled": self.enabled,
            "mode": self.mode,
            "capture": {side: getattr(self, side) for side in ACCEPTANCE_SIDES},
            "checks": {name: getattr(self, name) for name in CHECKS},
        }

    @classmethod
    def from_load_config(cls, config: object) -> AcceptanceMetricPolicy:
        """The policy of a load configuration, a mapping that may have ``quality.acceptance``; disabled without.

        Raises ``AcceptanceMetricConfigurationError`` with the code and path that ``parse_quality`` reports first.
        """
        reader = Reader(code=QUALITY_CODE)
        policy: AcceptanceMetricPolicy | None = cls()
        if not isinstance(config, Mapping):
            reader.note((), "The load configuration must be a mapping.", "Pass the mapping of a process.")
        elif "quality" in config:
            quality = config["quality"]
            if not isinstance(quality, Mapping):
                reader.note(("quality",), "This must be a mapping.", "Use the fields gates, acceptance.")
            elif "acceptance" in quality:
                reader.code = CODE
                policy = read_acceptance(quality["acceptance"], PATH, reader)
        if policy is None or reader.problems:
            raise _error(reader.problems[0])
        return policy


def read_acceptance(raw: object, path: Path, reader: Reader) -> AcceptanceMetricPolicy | None:
    """The policy of an authored mapping, or None when ``reader`` got problems. A disabled one is checked as well."""
    before = len(reader.problems)
    values = _read_values(raw, path, reader)
    return None if len(reader.problems) > before else AcceptanceMetricPolicy(**values)


def _read_values(raw: object, path: Path, reader: Reader) -> dict[str, Any]:
    """The fields of a policy; they are whole only when ``reader`` got no problem."""
    before = len(reader.problems)
    fields = reader.mapping(raw, path, ("enabled", "mode", "capture", "checks"))
    if fields is None:
        return {}
    enabled = reader.flag(fields.get("enabled"), (*path, "enabled"))
    mode = reader.choice(fields.get("mode", "warn_only"), (*path, "mode"), ACCEPTANCE_MODES)
    capture = _read_capture(fields.get("capture", {}), (*path, "capture"), reader)
    checks = _read_checks(fields.get("checks", {}), (*path, "checks"), reader)
    if enabled and len(reader.problems) == before:
        if not any(capture.values()):
            reader.note((*path, "capture"), "No side is captured.", "Set source, staged or target to true.")
        if not checks["row_count"] and checks["null_counts"] == checks["distinct_counts"] == "none":
            reader.note((*path, "checks"), "No check is asked for.", "Ask for a check, or set enabled to false.")
    return {"enabled": enabled, "mode": mode, **capture, **checks}


def _read_capture(raw: object, path: Path, reader: Reader) -> dict[str, Any]:
    fields = reader.mapping(raw, path, ACCEPTANCE_SIDES) or {}
    return {side: reader.flag(fields.get(side, True), (*path, side)) for side in ACCEPTANCE_SIDES}


def _read_checks(raw: object, path: Path, reader: Reader) -> dict[str, Any]:
    fields = reader.mapping(raw, path, CHECKS) or {}
    checks: dict[str, Any] = {"row_count": reader.flag(fields.get("row_count", True), (*path, "row_count"))}
    for name in COLUMN_CHECKS:
        checks[name] = _read_columns(fields.get(name, False), (*path, name), reader)
    return checks


def _read_columns(raw: object, path: Path, reader: Reader) -> ColumnCheck:
    if type(raw) is bool:
        return "business_columns" if raw else "none"
    if type(raw) is str and raw in COLUMN_WORDS:
        return "none" if raw in NOTHING else "business_columns" if raw in BUSINESS else raw
    if not isinstance(raw, list | tuple) or not raw:
        remedy = f"Use true, false, one of {', '.join(COLUMN_WORDS)}, or a list of column names."
        reader.note(path, "This does not select columns.", remedy)
        return "none"
    seen: set[str] = set()
    for position, item in enumerate(raw):
        if type(item) is not str or not item.strip():
            reader.note((*path, position), "This must be a column name.", "Write the name of a column.")
        elif item in seen:
            reader.note((*path, position), "This column is listed twice.", "List every column once.")
        else:
            seen.add(item)
    return tuple(item for item in raw if type(item) is str)


def _error(problem: FieldProblem) -> AcceptanceMetricConfigurationError:
    return AcceptanceMetricConfigurationError(problem.code, problem.field_path, problem.message, remedy=problem.remedy)
