"""The evidence document ``dpone.evidence.v1``: its exact form, for whoever writes it and for whoever shows it (F4, F8).

People with rights can edit what Airflow keeps, so ``parse`` trusts nothing: exact fields, exact types, bounded size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeVar

import attrs
import cattrs

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.errors import Boundary, TargetCommit

KEY = "dpone_evidence"
KIND = "dpone.evidence.v1"
MOST_BYTES = 64 * 1024  # that are read; what is written is far smaller

State = Literal["done", "failed", "kept", "never"]
Outcome = Literal["running", "succeeded", "failed", "stopped"]
Governance = Literal["complete", "blocked"]
Milestone = Literal["claimed", "staged", "sealed", "dispatched", "proven", "observed", "complete"]
MILESTONES: tuple[Milestone, ...] = ("claimed", "staged", "sealed", "dispatched", "proven", "observed", "complete")
T = TypeVar("T")


class NotEvidence(ValueError):
    """A value that is not a document of this version. Its text is safe to show."""


@attrs.frozen(kw_only=True)
class Failure:
    """How it ended. ``meaning``: one safe sentence."""

    code: str
    boundary: Boundary
    retryable: bool
    meaning: str


@attrs.frozen(kw_only=True)
class Next:
    """What a person should do."""

    title: str
    text: str


@attrs.frozen(kw_only=True)
class Replica:
    """One server. ``live``: the UUID that its own catalog showed, None: not looked up, or there is no table."""

    name: str
    predecessor: str | None = None
    live: str | None = None


@attrs.frozen(kw_only=True)
class Generation:
    """The new version of the table, by UUID."""

    uuid: str
    replicas: tuple[Replica, ...] = ()


@attrs.frozen(kw_only=True)
class Gate:
    """One verdict. ``metrics``: whole numbers of the gate type's allow-list."""

    id: str
    type: str
    severity: str
    status: Literal["passed", "failed", "warned"]
    code: str
    metrics: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Count:
    """One metric, side by side; None: that side was not counted."""

    metric: str
    source: int | None = None
    staged: int | None = None
    target: int | None = None

    @property
    def agrees(self) -> bool:
        """Do all sides that were counted say the same?"""
        return len({self.source, self.staged, self.target} - {None}) <= 1


@attrs.frozen(kw_only=True)
class Step:
    """One milestone of an attempt. ``at``: UTC, None: not known. ``kept``: an earlier attempt did it."""

    step: Milestone
    state: State
    at: str | None = None
    note: str = ""


@attrs.frozen(kw_only=True)
class Attempt:
    """What one attempt did itself. ``stopped``: it gave no last word."""

    number: int
    epoch: int
    outcome: Outcome
    source_reads: int
    inserted_rows: int
    publications: int
    steps: tuple[Step, ...]


@attrs.frozen(kw_only=True)
class Original:
    """Which staging was proven."""

    run_id: str
    load_id: str


@attrs.frozen(kw_only=True)
class Evidence:
    """What is known of one operation. ``target_commit`` None: no claim. ``error`` None and ``blocked``: it runs, or it
    died. ``adds``: rows are added to the live table, nothing is switched. ``resumes``: it is moved by partitions, whose
    checkpoints tell a retry what is left. ``left_out``: how many gates, counts or attempts did not fit.
    """

    operation_id: str
    target: str
    target_commit: TargetCommit | None
    governance: Governance
    next: Next
    recorded_at: str
    kind: Literal["dpone.evidence.v1"] = "dpone.evidence.v1"
    operation: Mapping[str, str | int] | None = None
    connection: str = ""
    durable: bool = True
    adds: bool = False
    resumes: bool = False
    recorded_by_try: int | None = None
    step: str = ""
    attempt: int = 1
    extracted_rows: int = 0
    replayed: bool = False
    replayed_from: Original | None = None
    target_observation: Literal["observed", "unavailable", "not_requested"] | None = None
    error: Failure | None = None
    generation: Generation | None = None
    gates: tuple[Gate, ...] = ()
    counts: tuple[Count, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    digests: Mapping[str, str] = attrs.field(factory=dict)
    left_out: Mapping[str, int] = attrs.field(factory=dict)

    def payload(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: _plain(value) for name, value in attrs.asdict(self).items()}

    @property
    def rows(self) -> int | None:
        """Rows of the target as far as they were counted, None: nobody counted."""
        found = next((count for count in self.counts if count.metric == "rows"), None)
        sides = (found.target, found.staged, found.source) if found is not None else ()
        return next((side for side in sides if side is not None), None)


def parse(value: object) -> Evidence:
    """A document out of what was stored, text or JSON value. Raises ``NotEvidence``."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
        if len(text) > MOST_BYTES:
            raise NotEvidence("It is larger than any document that a task writes.")
        decoded = json.loads(text, parse_constant=_refuse)
        kind = decoded.get("kind") if type(decoded) is dict else None
        if kind != KIND:
            raise NotEvidence("It is not of a kind that this version reads.")
        return _CONVERTER.structure(decoded, Evidence)
    except NotEvidence:
        raise
    except (ValueError, TypeError, RecursionError, cattrs.BaseValidationError):
        raise NotEvidence("It does not have the form of its kind.") from None


def _refuse(constant: str) -> NoReturn:
    raise NotEvidence("It holds a number that is not finite.")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _exactly(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError("another type")
    return value


def _number(value: Any, _: object) -> int:
    if not -1 <= _exactly(value, int) <= MAX_INTEGER:
        raise ValueError("no count")
    return int(value)


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    converter.register_structure_hook(str, _exactly)
    converter.register_structure_hook(bool, _exactly)
    converter.register_structure_hook(int, _number)
    converter.register_structure_hook(str | int, lambda v, _: _number(v, int) if type(v) is int else _exactly(v, str))
    return converter


_CONVERTER = _converter()
