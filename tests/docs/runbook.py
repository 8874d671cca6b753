"""The states of docs/recovery.md: each brought about on a real server, and what ``dpone status`` says of it.

A state is a function that takes a ``Room`` from nothing to that state. Attempts die at chosen effects; a scripted
reader stands in for the supervised one, because what a slot holds does not depend on who observed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import load_spec
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.claim import STALE_CLAIM_AFTER_MS
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest, Unobserved
from dpone_provider.runtime.sink import ClickHouseSink
from tests.loads import Bench, endpoint_of
from tests.scenarios.stage import Cue, Stage, Took

DAG = "nightly"
OPERATION = "monday"  # the run that every state is about
NEXT = "tuesday"
THIRD = "wednesday"
MANIFEST = """\
kind: dpone.batch.v1
defaults:
  source: {{type: file, format: csv, path: source.csv}}
  sink:
    type: clickhouse
    connection_ref: warehouse
    table: {{schema: {database}, name: orders}}
    strategy: {{mode: full_refresh, max_source_bytes: {limit}}}
    columns: {{id: UInt64, name: String}}
    options:
      durable_quality_replay: {durable}
      physical_design: {{storage: {{clickhouse: {{engine: MergeTree, order_by: [id]}}}}}}
quality:
  gates:
    - {{id: rows, type: row_count_reconciliation}}
    - {{id: some, type: min_rows, threshold: 1}}
  acceptance:
    enabled: true
    mode: required
    capture: {{source: true, staged: true, target: {target}}}
    checks: {{row_count: true}}
schemas:
  shop: {{tables: [orders]}}
"""


@attrs.define
class OneAct:
    """A reader that answers once, or raises."""

    act: Callable[[TargetRequest], TargetCounts] | BaseException

    def ready(self) -> None:
        return None

    def reserve(self, request: TargetRequest) -> None:
        return None

    def collect(self, request: TargetRequest, *, deadline: float) -> TargetCounts:
        if isinstance(self.act, BaseException):
            raise self.act
        return self.act(request)


@attrs.frozen(kw_only=True)
class Orders(Bench):
    """The bench of the manifest above: what the command line names, the bench runs."""

    table: str = "orders"

    @property
    def manifest(self) -> Path:
        return self.folder / "orders.dpone.yaml"

    def write_manifest(self, *, target: bool = False, durable: bool = True, limit: int = 1_000_000) -> None:
        words = {"target": str(target).lower(), "durable": str(durable).lower(), "limit": limit}
        self.manifest.write_text(MANIFEST.format(database=self.database, **words), encoding="utf-8")

    def spec(self, **options: Any) -> LoadSpec:
        if options:
            raise TypeError("the manifest says it")
        return load_spec(str(self.manifest))

    def identity(self, run_id: str = OPERATION) -> RunIdentity:
        return RunIdentity(dag_id=DAG, run_id=run_id, task_id=self.spec().process)


@attrs.frozen(kw_only=True)
class Room:
    """An empty target with its authority, and what can be done to it."""

    stage: Stage
    bench: Orders

    def load(self, *cues: Cue, run_id: str = OPERATION, act: BaseException | None = None) -> Took:
        """One attempt of the manifest's load. ``act``: how its observation fails, if it makes one."""
        spec = self.bench.spec()
        if not spec.sink.durable_quality_replay:
            return self.stage.attempt(run_id, *cues)
        reader = OneAct(act or self._counts)
        sink = ClickHouseSink(endpoint_of(self.bench.sandbox), True, target_acceptance_reader=reader)
        return self.stage.attempt(run_id, *cues, sink=sink)

    def observed_load(self, *cues: Cue, act: BaseException | None = None) -> Took:
        """The same with a target obligation."""
        self.bench.write_manifest(target=True)
        return self.load(*cues, act=act)

    def _counts(self, request: TargetRequest) -> TargetCounts:
        return TargetCounts(
            replica=request.replicas[0],
            attempt_id=request.attempt_id,
            row_count=len(self.bench.ids()),
            null_counts={},
            distinct_counts={},
        )

    def replace_live(self) -> None:
        """Somebody else puts a table of their own under the live name."""
        self.stage.sql("CREATE TABLE {db}.theirs ENGINE = MergeTree ORDER BY id AS SELECT toUInt64(1) AS id")
        self.stage.sql("EXCHANGE TABLES {db}.orders AND {db}.theirs")

    def age(self, seconds: int = STALE_CLAIM_AFTER_MS // 1000 + 100) -> None:
        """The slot was last written that long ago."""
        record = self.bench.record()
        self.stage.rewrite(attrs.evolve(record, refreshed_at=record.refreshed_at - seconds * 1000))

    def drop_generation(self) -> None:
        """Somebody drops the staged generation."""
        self.stage.sql(f"DROP TABLE {{db}}.{self.bench.private()[0]}")


# -- cues ----------------------------------------------------------------------------------------------------------


def dies_before(kind: str, what: str = "") -> Cue:
    return Cue(kind, what, fate="die")  # type: ignore[arg-type]


def dies_after(kind: str, what: str = "") -> Cue:
    return Cue(kind, what, fate="apply_die")  # type: ignore[arg-type]


# -- states --------------------------------------------------------------------------------------------------------


def selector_off(room: Room) -> None:
    room.bench.write_manifest(durable=False)


def no_authority(room: Room) -> None:
    room.stage.sql("DROP TABLE {db}.dpone_replay_authority SYNC")


def empty(room: Room) -> None:
    """Nothing has happened."""


def replaced(room: Room) -> None:
    room.load().expect("success")
    no_authority(room)
    room.bench.provision()


def claimed(room: Room) -> None:
    room.load(dies_after("insert")).expect("died")


def claimed_stale(room: Room) -> None:
    claimed(room)
    room.age()


def rejected(room: Room) -> None:
    room.bench.write(0, 0)
    room.load().expect("QUALITY_GATES_FAILED")
    room.bench.write(200, 7)


def prepared(room: Room) -> None:
    room.load(dies_before("authority_cas", "move the slot to DISPATCHING")).expect("died")


def prepared_lost(room: Room) -> None:
    prepared(room)
    room.drop_generation()


def dispatching_old(room: Room) -> None:
    room.load(dies_before("exchange")).expect("died")


def dispatching_new(room: Room) -> None:
    room.load(dies_after("exchange")).expect("died")


def diverged(room: Room) -> None:
    dispatching_old(room)
    room.replace_live()


def dispatching_lost(room: Room) -> None:
    dispatching_old(room)
    room.drop_generation()


def committed(room: Room) -> None:
    room.load(dies_before("authority_cas", "move the slot to COMPLETE")).expect("died")


def pending_released(room: Room) -> None:
    room.observed_load(act=Unobserved("unavailable", "deadline", quiescent=True)).expect(_INCOMPLETE)


def pending_held(room: Room) -> None:
    room.observed_load(act=Unobserved("unavailable", "deadline", quiescent=False)).expect(_INCOMPLETE)


def pending_left(room: Room) -> None:
    pending_held(room)
    room.age(200)


def committed_other(room: Room) -> None:
    committed(room)
    room.replace_live()


def committed_unproven(room: Room) -> None:
    committed(room)
    room.stage.rewrite(attrs.evolve(room.bench.record(), capsule=None))


def complete(room: Room) -> None:
    room.observed_load().expect("success")


def complete_held(room: Room) -> None:
    room.load(dies_after("authority_cas", "move the slot to COMPLETE")).expect("died")


def complete_stale(room: Room) -> None:
    complete_held(room)
    room.age()


def complete_other(room: Room) -> None:
    room.load().expect("success")
    room.replace_live()


def failed(room: Room) -> None:
    room.observed_load(act=Unobserved("drift", "schema", quiescent=True)).expect("REPLAY_QUALITY_EVIDENCE_MISMATCH")


def window_ended(room: Room) -> None:
    room.load().expect("success")
    room.load(run_id=NEXT).expect("success")


def another_stages(room: Room) -> None:
    room.load(dies_after("insert"), run_id=NEXT).expect("died")


def another_blocks(room: Room) -> None:
    room.load(dies_after("exchange"), run_id=NEXT).expect("died")


def another_is_complete(room: Room) -> None:
    room.load(run_id=NEXT).expect("success")


def changed(room: Room) -> None:
    committed(room)
    room.bench.write_manifest(limit=2_000_000)


def invalid(room: Room) -> None:
    room.load().expect("success")
    room.stage.sql("ALTER TABLE {db}.dpone_replay_authority UPDATE record = concat(record, ' ') WHERE 1")


def leftovers(room: Room) -> None:
    claimed_stale(room)
    room.load(dies_after("authority_cas", "CLAIMED"), run_id=NEXT).expect("died")
    room.load(run_id=NEXT).expect("success")


_INCOMPLETE = "REPLAY_QUALITY_EVIDENCE_INCOMPLETE"
KEEPER_LOST = "Keeper has lost its data"  # needs a server of its own

STATES: dict[str, Callable[[Room], None]] = {
    "Selector off": selector_off,
    "No authority": no_authority,
    "Empty slot": empty,
    "Authority replaced": replaced,
    "CLAIMED, fresh": claimed,
    "CLAIMED, stale": claimed_stale,
    "REJECTED": rejected,
    "PREPARED": prepared,
    "PREPARED, generation lost": prepared_lost,
    "DISPATCHING, old table live": dispatching_old,
    "DISPATCHING, new table live": dispatching_new,
    "DISPATCHING, diverged": diverged,
    "DISPATCHING, generation lost": dispatching_lost,
    "COMMITTED, proof open": committed,
    "TARGET_PENDING, guard released": pending_released,
    "TARGET_PENDING, guard held": pending_held,
    "TARGET_PENDING, guard left behind": pending_left,
    "COMMITTED, another table live": committed_other,
    "COMMITTED, without a proof": committed_unproven,
    "COMPLETE": complete,
    "COMPLETE, guard held": complete_held,
    "COMPLETE, guard stale": complete_stale,
    "COMPLETE, another table live": complete_other,
    "FAILED": failed,
    "Window ended": window_ended,
    "Another operation stages": another_stages,
    "Another operation blocks": another_blocks,
    "Another operation is complete": another_is_complete,
    "Configuration changed": changed,
    "Authority row malformed": invalid,
    "Leftovers": leftovers,
}
"""The heading of each state in docs/recovery.md, and how to get there."""


def ends_as(took: Took) -> str:
    """How an attempt ended, in the words of the document's table."""
    if took.result != "success":
        return took.result.removeprefix("REPLAY_").removeprefix("QUALITY_EVIDENCE_")
    counts = took.wire.counts()
    if counts["source_open"]:
        return "loads"
    return "publishes" if took.wire.switches() else "completes"


# -- what the document shows ---------------------------------------------------------------------------------------

_WIDTH = 110
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shown(room: Room, output: str, *, whole: bool) -> str:
    """Output as the document has it: ids, ages and the database's name are always the same, long lines are wrapped.

    ``whole``: with attempts and details; else the facts, and the private tables when there are some.
    """
    sections = output.rstrip("\n").split("\n\n")
    if not whole:
        sections = [sections[0], *(part for part in sections[1:] if part.startswith("Private tables"))]
    text = _same_ids(room, "\n\n".join(sections))
    text = re.sub(r"last written ([\d,]+) s ago", lambda found: f"last written {_age(found[1])} s ago", text)
    text = re.sub(r"\b(?:8\d\d|900) s at the earliest", "888 s at the earliest", text)
    text = re.sub(r"ends within \d+ s", "ends within 53 s", text)
    return "\n".join(line for long in text.split("\n") for line in _wrapped(long)) + "\n"


def _age(seconds: str) -> str:
    number = int(seconds.replace(",", ""))
    return "12" if number < 60 else f"{number // 100 * 100:,}"


def _same_ids(room: Room, text: str) -> str:
    text = text.replace(room.bench.database, "shop")
    for run_id, short in ((OPERATION, "0a1b2c3d4e5f"), (NEXT, "f5e4d3c2b1a0")):
        operation_id = room.stage.operation(run_id).operation_id
        text = text.replace(operation_id, f"{short}…").replace(operation_id[:12], short)
    for number, uuid in enumerate(dict.fromkeys(_UUID.findall(text)), start=1):
        text = text.replace(uuid, f"{str(number) * 8}-…")
    return re.sub(r"\b[0-9a-f]{64}\b", "c0ffee00…", text)


def _wrapped(line: str) -> list[str]:
    label = re.match(r"  \S.*?  +(?=\S)", line)
    indent = " " * (label.end() if label else 2)
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
