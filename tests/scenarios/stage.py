"""Attempts on a real server whose statements are held back, lost, killed or lied about, one cue at a time.

A cue meets one effect of one attempt. What it holds back is the statement itself: ``land()`` performs it later, on a
connection of its own, when its sender may long be dead. Attempts are nested rather than threaded: a cue's ``before``
and ``after`` run others while this attempt stands still, so every order is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import attrs

from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome
from dpone_provider.replay.identity import Operation
from dpone_provider.replay.ports import Expect
from dpone_provider.replay.record import AuthorityRecord
from dpone_provider.runtime.compose import REPLICA, operation_of
from dpone_provider.wire import DirectWire, Effect, EffectKind, StatementFailed
from tests.loads import Bench, endpoint_of
from tests.sandbox_fixture import ask

T = TypeVar("T")
SWITCHES = ("exchange", "publish_first")
NAMES = (*SWITCHES, "rename", "drop")

# go: send. hold_*: keep the statement back; the sender then gets no answer, dies, or is told OK. apply_*: send, then
# the answer is lost, or the sender dies. die: the sender dies before it sends.
Fate = Literal["go", "hold_lose", "hold_die", "hold_ok", "apply_lose", "apply_die", "die"]


class Died(BaseException):
    """The process is dead: nothing that it would do from here on happens."""


class Unmet(LookupError):
    """A scenario did not come to pass: a cue was never met. Never an answer about the product."""


def nothing() -> None:
    """No step."""


@attrs.define(eq=False)
class Cue:
    """The ``nth`` effect (from 1) of a kind whose ``what`` contains a text, and what becomes of it.

    ``optional``: it need not happen. ``land()`` performs what was held back.
    """

    kind: EffectKind
    what: str = ""
    nth: int = 1
    fate: Fate = "go"
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing
    optional: bool = False
    seen: int = 0
    held: Callable[[], object] | None = None
    look: Callable[[], None] = nothing

    @property
    def met(self) -> bool:
        return self.seen >= self.nth

    def land(self) -> int:
        """Perform the held statement now: 0 when the server took it, else its error number."""
        if self.held is None:
            raise Unmet(f"{self.kind} was not held back")
        call, self.held = self.held, None
        try:
            call()
        except StatementFailed as failed:
            return failed.code or -1
        finally:
            _hang_up(call)
        self.look()
        return 0


def _hang_up(call: Callable[[], object]) -> None:
    """Close the connection that a late statement opened."""
    for cell in getattr(call, "__closure__", None) or ():
        if isinstance(cell.cell_contents, ControlClient):
            cell.cell_contents.close()


class Script:
    """The wire of one attempt. ``sent``, ``applied``, ``refused``: its effects, in order; refused with the number."""

    def __init__(self, cues: tuple[Cue, ...], look: Callable[[], None]) -> None:
        self._cues = cues
        self._look = look
        self.dead = False
        self.sent: list[Effect] = []
        self.applied: list[Effect] = []
        self.refused: list[tuple[Effect, int | None]] = []

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        if self.dead:
            raise Died
        cue = self._meet(effect)
        self.sent.append(effect)
        if cue is None:
            return self._applied(effect, call)
        cue.look = self._look
        cue.before()
        match cue.fate:
            case "die":
                raise self._death()
            case "hold_lose" | "hold_die" | "hold_ok":
                cue.held = call
                if cue.fate == "hold_lose":
                    raise StatementFailed(None)
                if cue.fate == "hold_die":
                    raise self._death()
                return []  # type: ignore[return-value]
        answer = self._applied(effect, call)
        cue.after()
        if cue.fate == "apply_lose":
            raise StatementFailed(None)
        if cue.fate == "apply_die":
            raise self._death()
        return answer

    def counts(self) -> Counter[str]:
        """How many effects of each kind were sent."""
        return Counter(effect.kind for effect in self.sent)

    def switches(self) -> int:
        """Switches of the live name that the server carried out for this attempt."""
        return sum(effect.kind in SWITCHES for effect in self.applied)

    def _meet(self, effect: Effect) -> Cue | None:
        found = None
        for cue in self._cues:
            if cue.kind == effect.kind and cue.what in effect.what:
                cue.seen += 1
                if cue.seen == cue.nth:
                    found = cue
        return found

    def _applied(self, effect: Effect, call: Callable[[], T]) -> T:
        try:
            answer = call()
        except StatementFailed as failed:
            self.refused.append((effect, failed.code))
            raise
        self.applied.append(effect)
        if effect.kind in NAMES:
            self._look()
        return answer

    def _death(self) -> Died:
        self.dead = True
        return Died()


@attrs.frozen(kw_only=True)
class Took:
    """What became of an attempt. ``result``: "success", an error code without its prefix, or "died"."""

    result: str
    wire: Script
    outcome: LoadOutcome | None = None
    error: DponeError | None = None

    @property
    def leftovers(self) -> tuple[str, ...]:
        """What a successful attempt says that it could not or may not drop."""
        return self.outcome.leftovers if self.outcome is not None else ()

    def expect(self, *results: str) -> Took:
        """This attempt must have ended so."""
        assert self.result in results, f"ended as {self.result}"
        return self

    def read_no_source(self) -> Took:
        """It must have sent nothing that reads the source or fills a table."""
        counts = self.wire.counts()
        kinds = ("source_open", "source_read", "insert", "create_table")
        assert not {kind: counts[kind] for kind in kinds if counts[kind]}
        return self

    def published_nothing(self) -> Took:
        """It must have sent no statement that switches the live table."""
        counts = self.wire.counts()
        assert not {kind: counts[kind] for kind in SWITCHES if counts[kind]}
        return self


def published(bench: Bench) -> None:
    """Somebody has made the live table, ids 100 to 104; the source holds ids 200 to 206."""
    rows = "SELECT toUInt64(100 + number) AS id, concat('n', toString(100 + number)) AS name FROM numbers(5)"
    ask(bench.sandbox, f"CREATE TABLE {bench.database}.{bench.table} ENGINE = MergeTree ORDER BY id AS {rows}")
    bench.write(200, 7)


class Stage:
    """A bench whose live table is watched: no generation ever comes back, the table never vanishes."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.lived: list[str | None] = [bench.live()]

    def publish(self) -> None:
        """A live table with ids 100 to 104 is there; the source holds ids 200 to 206."""
        published(self.bench)
        self.look()

    def attempt(self, run_id: str = "later", *cues: Cue, **around: Any) -> Took:
        """Run one attempt to its end, whatever that is. Raises ``Unmet`` when a cue was not met."""
        script = Script(cues, self.look)
        took = self._run(run_id, script, around)
        for cue in cues:
            if not cue.met and not cue.optional:
                raise Unmet(
                    f"{cue.kind} {cue.what} number {cue.nth} of {run_id} never came: {took.result}"
                ) from took.error
        return took

    def _run(self, run_id: str, script: Script, around: dict[str, Any]) -> Took:
        try:
            outcome = self.bench.run(run_id, wire=script, **around)
        except Died:
            return Took(result="died", wire=script)
        except DponeError as error:
            return Took(result=error.code.removeprefix("DPONE_"), wire=script, error=error)
        return Took(result="success", wire=script, outcome=outcome)

    def look(self) -> None:
        """Note which generation is live; called after every statement that changes names."""
        live = self.bench.live()
        if live == self.lived[-1]:
            return
        assert live is not None, "the live table vanished"
        assert live not in self.lived, "an old generation came back"
        self.lived.append(live)

    def forget(self) -> None:
        """A person has put an older generation back: watch from here on."""
        self.lived = [self.bench.live()]

    @property
    def switches(self) -> int:
        """How often the live table changed so far; the very first table counts."""
        return len(self.lived) - 1

    def operation(self, run_id: str = "later") -> Operation:
        return operation_of(self.bench.spec(), self.bench.identity(run_id))

    def candidate(self, epoch: int, run_id: str = "later") -> str:
        """The private name of an epoch."""
        return self.operation(run_id).candidate(epoch)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """What somebody else does on the server; ``{db}`` is the database."""
        return ask(self.bench.sandbox, statement.format(db=self.bench.database))

    def uuid(self, name: str) -> str | None:
        """The UUID that a name of the database holds."""
        found = self.sql(f"SELECT toString(uuid) FROM system.tables WHERE database = '{{db}}' AND name = '{name}'")
        return found[0][0] if found else None

    @contextmanager
    def store(self) -> Iterator[ClickHouseReplayQualityStore]:
        """The authority's store on a connection of its own."""
        client = ControlClient(endpoint_of(self.bench.sandbox), DirectWire())
        try:
            yield ClickHouseReplayQualityStore({REPLICA: client}, self.bench.database)
        finally:
            client.close()

    def rewrite(self, record: AuthorityRecord) -> None:
        """Put a record into the slot as nobody would; its columns and its digest agree."""
        found, version = self.bench.slot()
        if found is None:
            raise LookupError("the slot is empty")
        operation_id = found.operation.operation_id
        with self.store() as store:
            expect = Expect(version=version, operation_id=operation_id, owner=found.owner, phase=found.phase)
            store.update(record.row(), expect)
        assert self.bench.record() == record

    def settled(self, ids: range = range(200, 207), *, private: tuple[str, ...] = ()) -> None:
        """The end of every story: exact rows, a complete and released record of what is live, nothing left over."""
        assert self.bench.ids() == list(ids)
        record = self.bench.record()
        assert (record.phase, record.owner) == ("COMPLETE", "")
        assert record.generation == self.bench.live()
        assert tuple(self.bench.private()) == private
