"""Every effect of a load in partitions, on the wire and on the disk, broken in every way; then it is run again.

No success that is not one, no partition counted twice, and a retry comes to the same end.
"""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.native.files import LocalFiles
from dpone_provider.native.journal import CHECKPOINTS
from dpone_provider.native.report import REPORT
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.sources.sql.endpoint import SqliteEndpoint
from dpone_provider.wire import Effect, StatementFailed
from tests.crash.wire import Died
from tests.loads import OneEndpoint, endpoint_of
from tests.sandbox_fixture import ask

T = TypeVar("T")
Mode = Literal["dies_before", "dies_after", "fails_before", "fails_after", "torn"]
MODES: tuple[Mode, ...] = ("dies_before", "dies_after", "fails_before", "fails_after", "torn")
Strategy = Literal["full_refresh", "partition_replace"]
OLD = {1: [10, 11], 2: [20], 9: [90]}
SOURCE = {1: [110, 111, 112], 2: [120]}
NEW: dict[Strategy, dict[int, list[int]]] = {"full_refresh": SOURCE, "partition_replace": {**SOURCE, 9: OLD[9]}}
OPENS = ("disk open_append", "disk create", "disk lock")
MUTATIONS = {"insert", "append", "exchange", "publish_first", "create_table", "replace_partition"}


class Process:
    """One attempt: its effects on wire and disk in one row. At number ``at`` it dies, or that effect fails.

    ``torn``: of a write to the disk half arrives, then it dies; another effect fails as if the disk were full.
    """

    def __init__(self, at: int = -1, mode: Mode = "dies_before") -> None:
        self.at, self.mode = at, mode
        self.effects: list[str] = []
        self.applied: list[str] = []
        self.dead = False
        self.fds: set[int] = set()
        self.disk = LocalFiles()
        self._mutex = threading.Lock()

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        """As a wire."""
        in_words = effect.kind in ("source_open", "source_read")
        failure = DponeError("DPONE_SOURCE_FAILED") if in_words else StatementFailed(None)
        return self._effect(effect.kind, call, failure)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """As files."""
        method = getattr(self.disk, name)

        def effect(*args: Any) -> Any:
            if name == "write" and self.mode == "torn" and len(self.effects) == self.at:
                method(args[0], args[1][: len(args[1]) // 2])
            code = errno.ENOSPC if self.mode == "torn" else errno.EIO
            result = self._effect(f"disk {name}", lambda: method(*args), OSError(code, "refused"))
            if f"disk {name}" in OPENS:
                self.fds.add(result)
            elif name == "close":
                self.fds.discard(args[0])
            return result

        return effect

    def _effect(self, name: str, call: Callable[[], T], failure: Exception) -> T:
        with self._mutex:
            if self.dead:
                raise Died
            number = len(self.effects)
            self.effects.append(name)
        if number != self.at:
            return self._applied(name, call)
        if self.mode.endswith("_after") or name == "disk close":
            opened = self._applied(name, call)
            if name in OPENS:  # an opening that fails leaves nothing open
                self.disk.close(opened)  # type: ignore[arg-type]
        if self.mode.startswith("dies") or (self.mode == "torn" and name == "disk write"):
            self.dead = True
            for fd in self.fds:  # the kernel closes what a dead process had open, and gives its lock back
                with suppress(OSError):
                    self.disk.close(fd)
            raise Died
        raise failure

    def _applied(self, name: str, call: Callable[[], T]) -> T:
        result = call()
        self.applied.append(name)
        return result


@attrs.frozen(kw_only=True)
class Both(OneEndpoint):
    """The sandbox, and a file as the source."""

    source: SqliteEndpoint

    def sql_endpoint(self, ref: str) -> SqliteEndpoint:
        return self.source


def _rows(parts: dict[int, list[int]]) -> list[tuple[int, int]]:
    return [(part, number) for part, numbers in parts.items() for number in numbers]


@attrs.frozen(kw_only=True)
class Case:
    """A live table of old rows, partitioned; the new rows wait in the source."""

    sandbox: RunningSandbox
    database: str
    folder: Path
    strategy: Strategy
    workers: int = 1

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return ask(self.sandbox, sql)

    def create(self) -> None:
        self.ask(
            f"CREATE TABLE {self.database}.t (part Int64, id Int64) ENGINE = MergeTree PARTITION BY part ORDER BY id"
        )
        with closing(sqlite3.connect(self.folder / "s.db")) as source:
            source.execute("CREATE TABLE s (part INTEGER NOT NULL, id INTEGER NOT NULL)")
            source.executemany("INSERT INTO s VALUES (?, ?)", _rows(SOURCE))
            source.commit()

    def prepare(self) -> None:
        """As if nothing had ever been loaded."""
        for name in self.private():
            self.ask(f"DROP TABLE {self.database}.{name} SYNC")
        self.ask(f"TRUNCATE TABLE {self.database}.t")
        self.ask(f"INSERT INTO {self.database}.t VALUES {', '.join(map(str, _rows(OLD)))}")

    def spec(self, operation: str) -> LoadSpec:
        return spec_from_values(
            name="load",
            source={
                "type": "sql",
                "connection_ref": "source",
                "query": "SELECT part, id FROM s",
                "partitions": {
                    "range": {"column": "part", "size": 1},
                    "workers": self.workers,
                    "folder": str(self.folder / operation),
                },
            },
            sink={
                "type": "clickhouse",
                "connection_ref": "sink",
                "table": {"schema": self.database, "name": "t"},
                "strategy": {"mode": self.strategy},
            },
            quality={
                "gates": [
                    {"id": "rows", "type": "row_count_reconciliation"},
                    {"id": "some", "type": "min_rows", "threshold": 4},
                ],
                "acceptance": {
                    "enabled": True,
                    "mode": "required",
                    "capture": {"source": True, "staged": False, "target": True},
                    "checks": {"row_count": True, "null_counts": ["id"]},
                },
            },
            base=str(self.folder),
        )

    def run(self, operation: str, process: Process) -> LoadOutcome:
        around = Surroundings(wire=process, files=process)  # type: ignore[arg-type]
        identity = RunIdentity(dag_id="dag", run_id=operation, task_id="load")
        source = SqliteEndpoint(ref="source", path=str(self.folder / "s.db"))
        return run_load(self.spec(operation), identity, Both(where=endpoint_of(self.sandbox), source=source), around)

    # -- what is true ---------------------------------------------------------------------------------------

    def live(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for part, number in self.ask(f"SELECT part, id FROM {self.database}.t ORDER BY part, id"):
            found.setdefault(part, []).append(number)
        return found

    def private(self) -> set[str]:
        found = self.ask(
            f"SELECT name FROM system.tables WHERE database = '{self.database}' AND position(name, '__dpone_') > 0"
        )
        return {name for (name,) in found}

    def committed(self, operation: str) -> int:
        """Partitions whose latest checkpoint is committed."""
        state: dict[str, str] = {}
        for file in (self.folder / operation).rglob(CHECKPOINTS):
            for line in file.read_text().split("\n")[:-1]:
                with suppress(ValueError):
                    found = json.loads(line)
                    if state.get(found["partition_id"]) != "committed":
                        state[found["partition_id"]] = found["state"]
        return list(state.values()).count("committed")

    def report(self, operation: str) -> dict[str, Any] | None:
        (found,) = [*(self.folder / operation).rglob(REPORT)] or [None]
        return None if found is None else json.loads(found.read_text())

    def whole(self, where: str) -> bool:
        """Readers see old or new, never a part of either; is it all new?"""
        live, new = self.live(), NEW[self.strategy]
        if self.strategy == "full_refresh":
            assert live in (OLD, new), where
        else:
            assert all(live.get(part) in (OLD.get(part), new.get(part)) for part in {*OLD, *new}), where
        return live == new

    def arrived(self) -> int:
        """Partitions whose rows are the new ones."""
        live = self.live()
        return sum(live.get(part) == rows for part, rows in SOURCE.items())


def attempt(case: Case, operation: str, process: Process) -> DponeError | LoadOutcome | None:
    """One attempt, with what must hold after it; None for a death."""
    before, where = case.committed(operation), f"{process.at} {process.mode}"
    result: DponeError | LoadOutcome | None = None
    try:
        result = case.run(operation, process)
    except Died:
        assert process.dead, where
    except DponeError as error:
        result = error
    where = f"{where}: {result if isinstance(result, DponeError) else type(result).__name__}"
    new, committed, report = case.whole(where), case.committed(operation), case.report(operation)
    assert committed >= before, f"a committed partition became another: {where}"
    assert case.arrived() >= committed, f"committed, and not live: {where}"
    if before == 2:
        assert not MUTATIONS & set(process.effects), f"the sink was touched: {where}"
    if report is not None:
        assert (report["passed"], report["rows"], report["scope"]["planned_count"]) == (True, 4, 2), where
        assert new, f"a report of what is not there: {where}"
        assert committed == 2, f"a report before its checkpoints: {where}"
    if isinstance(result, LoadOutcome):
        assert report is not None, f"a success without its report: {where}"
        assert result.target_commit == "proven", where
    if isinstance(result, DponeError):
        assert result.target_commit != "proven" or new, where
        assert result.target_commit != "not_started" or not new or before == 2, where
        assert result.retryable, f"a retry could not finish: {where}"
    return result


def study(case: Case, at: int, mode: Mode) -> None:
    """One break, then honest retries."""
    case.prepare()
    operation = f"{at}-{mode}-{case.workers}"
    process = Process(at, mode)
    broke = attempt(case, operation, process)
    told = f"success, left {broke.leftovers}" if isinstance(broke, LoadOutcome) else broke
    where = f"{mode}: {told}"
    result = attempt(case, operation, Process())
    assert isinstance(result, LoadOutcome), f"{where}: {result}"
    assert case.whole(where), where
    # What nobody could drop is told of; after a death, the resume does not touch the sink even for that.
    left = case.private()
    assert not left or result.replayed, f"left over: {where}"
    # A table whose renaming got no answer is told of under its old name.
    assert not isinstance(broke, LoadOutcome) or len(left) <= len(broke.leftovers), f"not told of: {where}"


def recorded(case: Case) -> list[str]:
    """The effects of a load that nothing happens to."""
    case.create()
    case.prepare()
    recorder = Process()
    assert isinstance(attempt(case, "recorded", recorder), LoadOutcome)
    return recorder.effects


def violations(case: Case, effects: list[str], points: Iterable[int], mode: Mode) -> str:
    found = []
    for at in points:
        try:
            study(case, at, mode)
        except AssertionError as violation:
            found.append(f"{at} {effects[at]}: {str(violation)[:1_000]}")
    return "\n".join(found)


@pytest.mark.contract("N1", "N2", "N4", "N5", "N6", "N7", "X7")
@pytest.mark.parametrize("strategy", ["full_refresh", "partition_replace"])
def test_a_death_at_what_changes_the_target_is_finished_by_a_retry(
    sandbox: RunningSandbox, database: str, tmp_path: Path, strategy: Strategy
) -> None:
    case = Case(sandbox=sandbox, database=database, folder=tmp_path, strategy=strategy)
    effects = recorded(case)
    inserts = [at for at, name in enumerate(effects) if name == "insert"]
    commits = [at for at, name in enumerate(effects) if name in ("exchange", "replace_partition")]
    around = [at + step for at in commits for step in (-1, 0, 2)]
    report = max(at for at, name in enumerate(effects) if name == "disk rename")
    assert violations(case, effects, [*inserts, *around, report], "dies_after") == ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.contract("N1", "N2", "N4", "N5", "N6", "N7", "X7")
@pytest.mark.parametrize("strategy", ["full_refresh", "partition_replace"])
@pytest.mark.parametrize("mode", MODES)
def test_a_break_at_any_effect_of_a_load_in_partitions_is_finished_by_a_retry(
    sandbox: RunningSandbox, database: str, tmp_path: Path, strategy: Strategy, mode: Mode
) -> None:
    case = Case(sandbox=sandbox, database=database, folder=tmp_path, strategy=strategy)
    effects = recorded(case)
    assert {"source_read", "insert", "disk lock", "disk fsync", "disk rename", "disk fsync_dir"} <= set(effects)
    assert violations(case, effects, range(len(effects)), mode) == ""


@pytest.mark.slow
@pytest.mark.contract("N1", "N2", "N5")
@pytest.mark.parametrize("strategy", ["full_refresh", "partition_replace"])
def test_a_break_while_two_workers_move_is_finished_by_a_retry(
    sandbox: RunningSandbox, database: str, tmp_path: Path, strategy: Strategy
) -> None:
    """Which effect of which worker a number meets is chance: the order is another one every time."""
    case = Case(sandbox=sandbox, database=database, folder=tmp_path, strategy=strategy, workers=2)
    effects = recorded(case)
    points = range(effects.index("create_table") + 1, len(effects) - 30, 4)
    for mode in ("dies_after", "fails_after"):
        assert violations(case, effects, points, mode) == ""
