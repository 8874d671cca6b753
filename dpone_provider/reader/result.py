"""What a server answered, checked before it is believed (protocol 7; R7, R9, B7).

No row, another alias, another type or a value that is no count is an error, never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.catalog import mentions_ttl, text
from dpone_provider.clickhouse.control import Answer
from dpone_provider.reader import queries
from dpone_provider.reader.messages import ObservationError
from dpone_provider.reader.queries import Scan

_PLAIN_ENGINES = frozenset({"MergeTree", "ReplicatedMergeTree"})


@attrs.frozen(kw_only=True)
class TableSight:
    """A table as one server shows it. ``columns``: ordered ``(name, type, kind of default)``.

    ``patched``, ``lightweight_deletes``: active parts of those kinds; ``replica``: ``(is_readonly, queue_size,
    active_replicas, total_replicas)``, None for an engine that does not replicate.
    """

    uuid: str
    engine: str
    engine_full: str
    columns: tuple[tuple[str, str, str], ...]
    has_ttl: bool
    row_policies: int
    mutations: int
    patched: int
    lightweight_deletes: int
    replica: tuple[int, int, int, int] | None

    def drift(self, *, generation: str, engine_full: str, columns: Sequence[tuple[str, str]]) -> str | None:
        """The first reason why this is not the sealed generation or cannot be observed, None when it is and can."""
        replicated = self.engine == "ReplicatedMergeTree"
        healthy = (self.replica is None and not replicated) or (
            self.replica is not None and replicated and _healthy(*self.replica)
        )
        checks = (
            ("generation", self.uuid == generation),
            ("engine", self.engine in _PLAIN_ENGINES and self.engine_full == engine_full),
            ("schema", self.columns == tuple((name, kind, "") for name, kind in columns)),
            ("ttl", not self.has_ttl),
            ("row_policy", self.row_policies == 0),
            ("mutation", self.mutations == 0 and self.patched == 0),
            ("lightweight_delete", self.lightweight_deletes == 0),
            ("replica_health", healthy),
        )
        return next((reason for reason, holds in checks if not holds), None)


def _healthy(readonly: int, queue: int, active: int, total: int) -> bool:
    return not readonly and queue == 0 and active == total and total > 0


def table_sight(answer: Answer) -> TableSight | None:
    """The table of an answer to ``queries.STATE``, None when there is none.

    Raises ``ObservationError``: ``answer`` for another form; ``network`` when the server could not print the table,
    which it does with an empty text instead of an error.
    """
    if not answer.rows:
        return None
    row = _only(answer.rows, width=9)
    try:
        uuid, engine, engine_full, create, columns, policies, mutations, parts, replicas = row
        ordered = sorted([text(item) for item in column] for column in columns)
        sight = TableSight(
            uuid=uuid,
            engine=engine,
            engine_full=text(engine_full),
            columns=tuple((name, kind, default) for _, name, kind, default in ordered),
            has_ttl=mentions_ttl(text(create)),
            row_policies=_count(policies),
            mutations=_count(mutations),
            patched=_count(parts[0]),
            lightweight_deletes=_count(parts[1]),
            replica=_replica(replicas),
        )
    except (TypeError, ValueError, LookupError):
        raise ObservationError("answer") from None
    if not create or not engine_full:
        raise ObservationError("network")
    return sight


def require_settings(answer: Answer, sent: pins.Settings) -> None:
    """Check that every setting is as it was sent. Raises ``ObservationError`` ``setting_changed`` or ``answer``."""
    if wrong_setting(answer, sent) is not None:
        raise ObservationError("setting_changed")


def wrong_setting(answer: Answer, sent: pins.Settings) -> str | None:
    """The first setting that is not as it was sent, None when all are. One that the server does not know is none.

    Raises ``ObservationError`` ``answer``.
    """
    found = settings_of(answer)
    for name, value in sent.items():
        if name not in found and name in queries.WHERE_KNOWN:
            continue
        if name not in found or not _same(found[name], value):
            return name
    return None


def settings_of(answer: Answer) -> dict[str, str]:
    """Name and value of the settings in an answer to ``queries.SETTINGS``. Raises ``ObservationError`` ``answer``."""
    try:
        return {text(name): text(value) for name, value in _only(answer.rows, width=1)[0]}
    except (TypeError, ValueError):
        raise ObservationError("answer") from None


def scan_result(answer: Answer, scan: Scan | None, replica: str) -> dict[str, Any]:
    """The result of the pipe's form. ``scan`` None: nothing was asked, so ``answer`` is not looked at (R10).

    Raises ``ObservationError`` ``answer``: not one row, not exactly the aliases, not UInt64.
    """
    result: dict[str, Any] = {"replica": replica, "row_count": None, "null_counts": {}, "distinct_counts": {}}
    if scan is None:
        return result
    if answer.columns != tuple((alias, "UInt64") for alias in scan.aliases):
        raise ObservationError("answer")
    row = _only(answer.rows, width=len(scan.metrics))
    for (kind, column), value in zip(scan.metrics, row, strict=True):
        count = _count(value)
        if kind == "rows":
            result["row_count"] = count
        else:
            result["null_counts" if kind == "nulls" else "distinct_counts"][column] = count
    return result


def _only(rows: Sequence[tuple[Any, ...]], *, width: int) -> tuple[Any, ...]:
    if len(rows) != 1 or len(rows[0]) != width:
        raise ObservationError("answer")
    return rows[0]


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**64:
        raise ObservationError("answer")
    return value


def _replica(found: Sequence[Sequence[int]]) -> tuple[int, int, int, int] | None:
    if len(found) == 0:
        return None
    if len(found) != 1:
        raise ObservationError("answer")
    readonly, queue, active, total = (_count(number) for number in found[0])
    return readonly, queue, active, total


def _same(found: str, sent: bool | int | float | str) -> bool:
    if found == str(sent):
        return True
    if type(sent) is not float:
        return False
    try:
        return float(found) == sent
    except ValueError:
        return False
