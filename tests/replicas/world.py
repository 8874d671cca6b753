"""Some replicas and their Keeper as values, for the state machine: no server, and every effect can come late.

An attempt is the real ``QualityReplaySession`` in a greenlet. Before each effect it stands still; whoever gives it its
turn says what becomes of the effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import attrs
from greenlet import getcurrent, greenlet

from dpone_provider.errors import DponeError
from dpone_provider.quality.gates import Probe
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.quality.receipt import QualityGateExecution
from dpone_provider.replay.claim import Claimant
from dpone_provider.replay.ports import (
    CatalogFacts,
    Expect,
    NamedTable,
    Ports,
    Slot,
    StagedProof,
    StagingOrder,
    StoredRow,
)
from dpone_provider.replay.session import Finished, QualityReplaySession
from dpone_provider.wire import StatementFailed
from tests.crash.wire import Died
from tests.replay.records import DIGEST, operation

REPLICAS = ("ch-1", "ch-2", "ch-3")
LIVE = "flights"
# go: applied and told. lost: applied, no answer. late: no answer, and it may be applied at any later moment. die_*: the
# attempt dies; its statement was applied, may come late, or was never sent.
Fate = Literal["go", "lost", "late", "die_after", "die_late", "die_before"]
FATES: tuple[Fate, ...] = ("go", "lost", "late", "die_after", "die_late", "die_before")
POLICY = QualityPolicy()


@attrs.define(eq=False)
class Attempt:
    """One attempt. ``result``: "" while it runs, "success", an error's code, or "died".

    ``at_names``: its next effect changes names of tables.
    """

    run_id: str
    world: World
    result: str = ""
    fate: Fate = "go"
    dead: bool = False
    at_names: bool = False
    finished: Finished | None = None
    body: greenlet = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.body = greenlet(self._run)
        self.body.switch()

    def _run(self) -> None:
        try:
            self.finished = self.world.session(self).run(Staging(self))
            self.result = "success"
        except Died:
            self.result = "died"
        except DponeError as error:
            self.result = error.code

    def step(self, fate: Fate) -> None:
        """Let it do its next effect."""
        self.fate = fate
        self.body.switch()

    def send(self, apply: Callable[[], Any], *, reads: bool = False, names: bool = False) -> Any:
        """One effect, once its turn comes."""
        self.at_names = names
        if self.dead:
            raise Died
        parent = getcurrent().parent
        if parent is None:
            raise LookupError("an effect outside of an attempt")
        parent.switch()
        fate = self.fate
        self.dead = fate.startswith("die")
        if fate in ("late", "die_late") and not reads:
            self.world.pending.append(apply)
        answer = apply() if fate in ("go", "lost", "die_after") else None
        if self.dead:
            raise Died
        if fate != "go":
            raise StatementFailed(None)
        return answer


@attrs.define(eq=False)
class World:
    """``tables``: name → (UUID, COMMENT), by replica. ``lived``: every UUID that was live, in order."""

    replicas: tuple[str, ...] = REPLICAS
    rows: dict[str, tuple[StoredRow, int]] = attrs.field(factory=dict)
    tables: dict[str, dict[str, tuple[str, str]]] = attrs.field(init=False)
    lived: dict[str, list[str]] = attrs.field(init=False)
    owners: dict[str, str] = attrs.field(factory=dict)
    pending: list[Callable[[], Any]] = attrs.field(factory=list)
    now: float = 1_000.0
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        self.tables = {name: {} for name in self.replicas}
        self.lived = {name: [] for name in self.replicas}

    def new_id(self) -> str:
        return f"{next(self.numbers):032x}"

    def new_uuid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self.numbers):012x}"

    def session(
        self, attempt: Attempt, notify: Callable[[str, dict[str, Any]], None] = lambda step, facts: None
    ) -> QualityReplaySession:
        """A session of its own memory, whose every effect waits for its turn."""
        ports = Ports(
            store=Store(attempt),
            catalog=Catalog(attempt),
            publisher=Publisher(attempt),
            new_id=self.new_id,
            new_uuid=self.new_uuid,
            clock=lambda: self.now,
            notify=notify,
            check_cancelled=lambda: None,
        )
        made = operation(attempt.run_id)
        me = Claimant(operation=made, admission_digest=DIGEST, owner=self.new_id(), replicas=self.replicas)
        return QualityReplaySession(ports, me, POLICY)

    def land(self, number: int) -> None:
        """A late statement is carried out now."""
        try:
            self.pending.pop(number)()
        except StatementFailed:
            return

    def look(self) -> None:
        """What must hold whenever names have changed."""
        for replica, tables in self.tables.items():
            live, lived = tables.get(LIVE), self.lived[replica]
            assert live is not None or not lived, f"the live table of {replica} vanished"
            if live is None or lived[-1:] == [live[0]]:
                continue
            assert live[0] not in lived, f"an old generation came back on {replica}"
            lived.append(live[0])
            owners = [self.owners[uuid] for uuid in lived if uuid in self.owners]
            assert len(set(owners)) == len(owners), f"{owners} were published twice on {replica}"


@attrs.frozen
class Store:
    """The KeeperMap table, strict."""

    attempt: Attempt

    def admit(self) -> None:
        return None

    def read(self, target_key: str, *, replica: str | None = None) -> Slot:
        world = self.attempt.world

        def apply() -> Slot:
            found = world.rows.get(target_key)
            return Slot(rows=(found,) if found is not None else (), now_ms=round(world.now * 1000))

        slot: Slot = self.attempt.send(apply, reads=True)
        return slot

    def create(self, row: StoredRow) -> None:
        def apply() -> None:
            if row.target_key in self.attempt.world.rows:
                raise StatementFailed(999)
            self.attempt.world.rows[row.target_key] = (row, 0)

        self.attempt.send(apply)

    def update(self, row: StoredRow, expect: Expect) -> None:
        def apply() -> None:
            held = self.attempt.world.rows.get(row.target_key)
            if held is None:
                return
            stands = Expect(
                version=held[1], operation_id=held[0].operation_id, owner=held[0].owner, phase=held[0].phase
            )
            if stands == expect:
                self.attempt.world.rows[row.target_key] = (row, held[1] + 1)

        self.attempt.send(apply)


@attrs.frozen
class Catalog:
    """``system.tables``."""

    attempt: Attempt

    def facts(self, replica: str, private_prefix: str) -> CatalogFacts:
        def apply() -> CatalogFacts:
            named = {
                name: NamedTable(name=name, uuid=uuid, comment=comment)
                for name, (uuid, comment) in self.attempt.world.tables[replica].items()
            }
            private = tuple(named[name] for name in sorted(named) if name.startswith(private_prefix))
            return CatalogFacts(live=named.get(LIVE), private=private)

        facts: CatalogFacts = self.attempt.send(apply, reads=True)
        return facts


@attrs.frozen
class Publisher:
    """Names of tables, as Atomic databases have them."""

    attempt: Attempt

    def exchange(self, replica: str, candidate: str) -> None:
        def apply(tables: dict[str, tuple[str, str]]) -> None:
            if LIVE not in tables or candidate not in tables:
                raise StatementFailed(60)
            tables[LIVE], tables[candidate] = tables[candidate], tables[LIVE]

        self._names(replica, apply)

    def publish_first(self, replica: str, candidate: str) -> None:
        self.rename(replica, candidate, LIVE)

    def rename(self, replica: str, old: str, new: str) -> None:
        def apply(tables: dict[str, tuple[str, str]]) -> None:
            if old not in tables or new in tables:
                raise StatementFailed(60 if old not in tables else 57)
            tables[new] = tables.pop(old)

        self._names(replica, apply)

    def drop(self, replica: str, name: str) -> None:
        def apply(tables: dict[str, tuple[str, str]]) -> None:
            if tables.pop(name, None) is None:
                raise StatementFailed(60)

        self._names(replica, apply)

    def _names(self, replica: str, apply: Callable[[dict[str, tuple[str, str]]], None]) -> None:
        world = self.attempt.world

        def change() -> None:
            apply(world.tables[replica])
            world.look()

        self.attempt.send(change, names=True)


@attrs.frozen
class Staging:
    """Makes a generation on every replica."""

    attempt: Attempt

    def admit(self) -> None:
        return None

    def stage(self, order: StagingOrder) -> StagedProof:
        world, run_id = self.attempt.world, self.attempt.run_id
        world.owners[order.uuid] = run_id
        for replica in world.replicas:

            def create(tables: dict[str, tuple[str, str]] = world.tables[replica]) -> None:
                if order.name in tables or any(uuid == order.uuid for uuid, _ in tables.values()):
                    raise StatementFailed(57)
                tables[order.name] = (order.uuid, order.mark)

            try:
                self.attempt.send(create)
            except StatementFailed as failed:
                raise DponeError("DPONE_STAGING_FAILED") from failed
            order.keep_alive()
        return _proof(run_id, order)


def _proof(run_id: str, order: StagingOrder) -> StagedProof:
    execution = QualityGateExecution(policy=POLICY, run_id=run_id, load_id=order.load_id)
    receipt = execution.evaluate(source=Probe(row_count=3), target=Probe(row_count=3), boundary="pre_commit")
    probe: Mapping[str, Any] = {"row_count": 3, "typed_hash": None}
    digests = ("source_schema_digest", "payload_schema_digest", "target_schema_digest", "effective_plan_digest")
    identity = {"contract_version": "dpone.quality.replay.identity.v1", "admission_digest": DIGEST}
    desired = {"uuid": order.uuid, "engine_full": "MergeTree", "schema_digest": "6" * 64}
    return StagedProof(
        rows=3,
        source_probe=probe,
        target_probe=probe,
        report=receipt.report.payload(),
        acceptance={},
        effective_plan={**identity, "effective_config_digest": DIGEST, **dict.fromkeys(digests, DIGEST)},
        desired={**desired, "keeper_name": "", "keeper_path": ""},
        receipt=receipt,
    )
