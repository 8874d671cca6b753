"""What is kept of a partition's transfer, and what a list of it says: the latest wins, COMMITTED ends it (N1, N5).

Pure. A count is trusted only when two authorities agree: what the artefact says and what the server counted (N3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

import attrs

from dpone_provider import canonical
from dpone_provider.canonical import NotCanonical
from dpone_provider.errors import DponeError
from dpone_provider.quality.problems import is_count

State = Literal["planned", "exported", "loaded", "finalized", "committed", "failed"]
STATES: tuple[State, ...] = get_args(State)
VERSION = 1
LONGEST_LINE = 2**20
_HEX = re.compile(r"[0-9a-f]{64}")
_CODE = re.compile(r"DPONE_[A-Z0-9_]{1,58}")


def _count(value: object) -> int | None:
    return value if is_count(value) else None


def _counts(values: object) -> Mapping[str, int | None]:
    found = values if isinstance(values, Mapping) else {}
    return MappingProxyType({name: _count(value) for name, value in found.items() if type(name) is str})


def _matches(form: re.Pattern[str]) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is not None and (type(value) is not str or not form.fullmatch(value)):
            raise ValueError(f"{field.name} has another form")

    return check


@attrs.frozen(kw_only=True)
class Checkpoint:
    """A partition's state at one time. Counts that are no whole numbers of zero or more become None: unknown, never 0.

    ``exported_rows``, ``null_counts`` (by column), ``bytes`` and ``sha256`` are what the artefact says,
    ``loaded_rows`` what the server counted; ``error_code``: a code of ours, nothing else (N7). Raises ``ValueError``
    for an unknown state, another form of an id, digest or code, or an attempt below 1.
    """

    partition_id: str = attrs.field(validator=[attrs.validators.instance_of(str), _matches(_HEX)])
    state: State = attrs.field(validator=attrs.validators.in_(STATES))
    attempt: int = attrs.field()
    exported_rows: int | None = attrs.field(default=None, converter=_count)
    loaded_rows: int | None = attrs.field(default=None, converter=_count)
    null_counts: Mapping[str, int | None] = attrs.field(factory=dict, converter=_counts)
    bytes: int | None = attrs.field(default=None, converter=_count)
    sha256: str | None = attrs.field(default=None, validator=_matches(_HEX))
    error_code: str | None = attrs.field(default=None, validator=_matches(_CODE))

    @attempt.validator
    def _at_least_one(self, _: object, value: object) -> None:
        if not is_count(value) or value < 1:
            raise ValueError("attempt must be a whole number of one or more")

    @property
    def rows(self) -> int | None:
        """The rows that both authorities agree on, else None."""
        return self.exported_rows if self.exported_rows == self.loaded_rows else None

    def line(self) -> str:
        """The canonical JSON text, without an end of line."""
        values = attrs.asdict(self, recurse=False)
        return canonical.encode({"version": VERSION, **values, "null_counts": dict(self.null_counts)})


@attrs.frozen(kw_only=True)
class Ledger:
    """The latest checkpoint of each partition."""

    latest: Mapping[str, Checkpoint] = attrs.field(factory=dict)

    def may(self, partition_id: str, state: State) -> bool:
        """May this state be written next? A committed partition can only be committed again, by a later load of it."""
        return not self.is_committed(partition_id) or state == "committed"

    def is_committed(self, partition_id: str) -> bool:
        """Is the target's durability of this partition proven?"""
        found = self.latest.get(partition_id)
        return found is not None and found.state == "committed"

    def committed(self, partition_id: str) -> Checkpoint | None:
        """The partition's checkpoint when it is committed, else None."""
        return self.latest[partition_id] if self.is_committed(partition_id) else None

    def after(self, checkpoint: Checkpoint) -> Ledger:
        """The ledger with one more line; unchanged where ``may`` says no."""
        if not self.may(checkpoint.partition_id, checkpoint.state):
            return self
        return Ledger(latest={**self.latest, checkpoint.partition_id: checkpoint})


def fold(lines: Iterable[str]) -> Ledger:
    """The ledger of lines in the order of their writing. A line that is not ours says nothing.

    Raises ``DponeError`` DPONE_TRANSFER_CHECKPOINT for a line of another version.
    """
    ledger = Ledger()
    for line in lines:
        checkpoint = parse(line)
        if checkpoint is not None:
            ledger = ledger.after(checkpoint)
    return ledger


def parse(line: str) -> Checkpoint | None:
    """The checkpoint of a line, None for a line that cannot be trusted. Raises like ``fold``."""
    try:
        value = canonical.decode(line, max_bytes=LONGEST_LINE)
        version = value.pop("version")
        if type(version) is int and version != VERSION:
            raise DponeError("DPONE_TRANSFER_CHECKPOINT", "The checkpoints were written by another version.")
        return Checkpoint(**value) if type(version) is int else None
    except (NotCanonical, AttributeError, KeyError, TypeError, ValueError):
        return None
