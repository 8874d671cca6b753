"""What the server says after the demo.

The slot, the live table, and its own log of the statements of both attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from dpone_provider.clickhouse import pins, quote
from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.load.operation import operation_of
from dpone_provider.load.outcome import LoadOutcome, RunIdentity, attempts_of
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.capsule import QualityReplayCapsule
from dpone_provider.replay.proof import replay_result
from dpone_provider.replay.record import AuthorityRecord, parse_slot
from dpone_provider.runtime.compose import REPLICA
from dpone_provider.wire import DirectWire, Effect

_STATEMENTS = """
SELECT
  event_time_microseconds >= fromUnixTimestamp64Milli({since:Int64}) AS second,
  countIf(query LIKE 'INSERT INTO %'),
  countIf(query LIKE 'EXCHANGE TABLES %' OR query LIKE 'RENAME TABLE %'),
  countIf(query LIKE 'CREATE TABLE %')
FROM system.query_log
WHERE type IN ('QueryStart', 'ExceptionBeforeStart') AND user = currentUser()
  AND query NOT LIKE '%dpone_replay_authority%'
GROUP BY second"""
_KINDS = ("inserts", "switches", "tables created")


@attrs.frozen(kw_only=True)
class Evidence:
    """Facts read back. ``first``, ``second``: the statements of each attempt that the server logged, by kind."""

    outcome: LoadOutcome
    live: str | None
    rows: int
    owner: str
    phase: str
    first: Mapping[str, int]
    second: Mapping[str, int]

    @property
    def checks(self) -> tuple[tuple[str, bool], ...]:
        """Every claim of the demo, and whether it is true."""
        attempts = self.outcome.attempts
        first, last = attempts[0], attempts[-1]
        return (
            ("one proven generation is live", self.live == self.outcome.generation),
            ("the live table holds exactly the proven rows", 0 < self.rows == self.outcome.final_rows),
            ("the live table was observed: it counts what was read and staged", _agree(self.outcome.acceptance)),
            ("the proof is complete and the slot is released", (self.phase, self.owner) == ("COMPLETE", "")),
            ("there were two attempts, the first one published", len(attempts) == 2 and first.publications == 1),
            ("the first ended between its commit and its completion", first.phases[-1] == "COMMITTED"),
            ("the second read the source 0 times", last.source_reads == 0),
            ("the second sent 0 rows and published 0 times", (last.rows, last.publications) == (0, 0)),
            ("the server's own log: one new table, one insert, one switch by the first", _all(self.first, 1)),
            ("the server's own log: none of these by the second", _all(self.second, 0)),
        )


def gather(spec: LoadSpec, identity: RunIdentity, endpoint: Endpoint) -> Evidence:
    """Read everything. Raises DPONE_DEMO_FAILED when the slot holds no finished operation of this identity."""
    operation = operation_of(spec, identity)
    database, table = spec.sink.table.database, spec.sink.table.name
    control = ControlClient(endpoint, DirectWire())
    try:
        store = ClickHouseReplayQualityStore({REPLICA: control}, database)
        record = parse_slot(store.read(operation.target.key), key=operation.target.key).record
        if record is None or record.operation != operation or record.phase != "COMPLETE":
            raise DponeError("DPONE_DEMO_FAILED", "The slot does not hold the finished operation.")
        first, second = _statements(control, record)
        return Evidence(
            outcome=_outcome(spec, identity, record),
            live=_live(control, database, table),
            rows=_one(control, f"SELECT count() FROM {quote.table(database, table)}"),
            owner=record.owner,
            phase=record.phase,
            first=first,
            second=second,
        )
    finally:
        control.close()


def _outcome(spec: LoadSpec, identity: RunIdentity, record: AuthorityRecord) -> LoadOutcome:
    capsule = QualityReplayCapsule.parse(record.capsule or "")
    result, core = replay_result(capsule), capsule.core
    attempts = attempts_of(record.history, record.operation.operation_id)
    return LoadOutcome(
        spec=spec,
        identity=identity,
        durable=True,
        replayed=True,
        target_commit="proven",
        extracted_rows=attempts[-1].rows,
        inserted_rows=attempts[-1].rows,
        final_rows=core["binding"]["staged_rows"],
        duration_seconds=0.0,
        generation=record.generation or "",
        gates=result["quality_gates"],
        acceptance=result["acceptance"],
        attempts=attempts,
        operation_id=record.operation.operation_id,
        load_id=core["load_id"],
        quality_replay=result,
    )


def _agree(acceptance: Mapping[str, Any]) -> bool:
    sides = [acceptance.get(side) or {} for side in ("source", "staged", "target")]
    counts = [[side.get(name) for name in ("row_count", "null_counts", "distinct_counts")] for side in sides]
    return None not in counts[-1] and all(one == counts[-1] for one in counts)


def _all(statements: Mapping[str, int], count: int) -> bool:
    return all(statements.get(kind, 0) == count for kind in _KINDS)


def _statements(control: ControlClient, record: AuthorityRecord) -> tuple[dict[str, int], dict[str, int]]:
    """What was sent before and since the last attempt's first write, out of ``system.query_log``."""
    last = record.history[-1].attempt
    since = min(entry.at for entry in record.history if entry.attempt == last)
    control.command(Effect(kind="query", what="flush the server's log"), "SYSTEM FLUSH LOGS query_log")
    effect = Effect(kind="query", what="read the server's log")
    found = control.query(effect, _STATEMENTS, {"since": since}, settings=pins.READ)
    counted = {bool(second): dict(zip(_KINDS, map(int, counts), strict=True)) for second, *counts in found}
    return counted.get(False, {}), counted.get(True, {})


def _live(control: ControlClient, database: str, table: str) -> str | None:
    effect = Effect(kind="catalog_read", what="the live table")
    sql = "SELECT toString(uuid) FROM system.tables WHERE database = {d:String} AND name = {t:String}"
    found: list[Any] = control.query(effect, sql, {"d": database, "t": table}, settings=pins.READ)
    return found[0][0] if found else None


def _one(control: ControlClient, sql: str) -> int:
    return int(control.query(Effect(kind="query", what="count the live table"), sql, settings=pins.READ)[0][0])
