"""What a receipt may say about the partitions that its counts are over: how many, and a digest of which (N2)."""

from __future__ import annotations

import re
from typing import Any

import attrs

from dpone_provider.quality.problems import is_count
from dpone_provider.quality.verdicts import SHA256

_KIND = re.compile(r"[a-z][a-z0-9_.]{0,63}")


def _count(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not is_count(value):
        raise ValueError(f"{field.name} must be a whole number of zero or more")


def _text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not str or not (SHA256 if field.name == "digest" else _KIND).fullmatch(value):
        raise ValueError(f"{field.name} has another form")


@attrs.frozen(kw_only=True)
class QualityScopeSummary:
    """Counts of partitions, each once: planned = active + skipped, without what is active again. No id, no bound.

    ``kind``: a word of at most 64 characters; ``digest``: ``sha256:`` over the sorted identities. Raises ``ValueError``
    for anything else.
    """

    kind: str = attrs.field(validator=_text)
    digest: str = attrs.field(validator=_text)
    planned_count: int = attrs.field(validator=_count)
    active_count: int = attrs.field(validator=_count)
    skipped_committed_count: int = attrs.field(validator=_count)
    reactivated_count: int = attrs.field(validator=_count)

    def __attrs_post_init__(self) -> None:
        active, skipped, again = self.active_count, self.skipped_committed_count, self.reactivated_count
        if again > min(active, skipped) or self.planned_count != active + skipped - again:
            raise ValueError("the partitions do not add up")

    def payload(self) -> dict[str, Any]:
        """The JSON form."""
        return attrs.asdict(self)
