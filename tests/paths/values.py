"""A live table, its server and its source's mark as values: the direct path alone, and everything it does in one list.

The coordinator, its admission and its reading of a real CSV file are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.clickhouse import append
from dpone_provider.clickhouse.catalog import ColumnState, TableState
from dpone_provider.clickhouse.staging import StagedMetrics
from dpone_provider.errors import DponeError
from dpone_provider.load import admission
from dpone_provider.load.direct import DirectRoom, LegacyLoadGovernanceCoordinator
from dpone_provider.load.execution import LoadExecution
from dpone_provider.load.payload import Loaded
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.quality.metric_request import MetricRequest
from dpone_provider.quality.policy import QualityPolicy
from dpone_provider.traces import LoadStep, SourceState
from dpone_provider.wire import DirectWire, Effect

LOAD = "1" * 32
TABLE = TableState(
    engine="MergeTree",
    engine_full="MergeTree ORDER BY id",
    uuid="00000000-0000-4000-8000-000000000001",
    comment="",
    columns=(
        ColumnState(name="id", type="UInt64"),
        ColumnState(name="name", type="String"),
    ),
    has_ttl=False,
    dependents=(),
)
ROWS = ({"id": "rows", "type": "row_count_reconciliation"},)
CONTROL: Any = "the control connection"
SINK: Any = "the endpoint of the sink"
Act = Callable[[], Any]


@attrs.define
class Direct:
    """One direct load. ``on``: what else happens right before something does; an exception ends it there.

    ``written``: what the server says; None = the number of rows that came. ``mark``: of the source, None = none yet.
    """

    folder: Path
    happened: list[str] = attrs.field(factory=list)
    on: dict[str, Act] = attrs.field(factory=dict)
    told: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    sent: dict[str, Any] = attrs.field(factory=dict)
    tables: list[TableState | None] = attrs.field(factory=lambda: [TABLE])
    policies: int = 0
    rows: list[int] = attrs.field(factory=lambda: [3, 4, 5])
    written: Callable[[int], int | None] = attrs.field(default=lambda rows: rows)
    live_rows: int = 8
    mark: SourceState | None = None
    policy: QualityPolicy = attrs.field(factory=QualityPolicy)
    wire: DirectWire = attrs.field(factory=DirectWire)

    def does(self, what: str) -> None:
        """It happens, and with it what a test wants to happen first."""
        self.happened.append(what)
        if what in self.on:
            self.on[what]()

    # -- the outside -----------------------------------------------------------------------------------------------

    def put_in_place(self, patched: pytest.MonkeyPatch) -> None:
        """Instead of the server: three functions of its adapters."""
        patched.setattr(admission, "table_state", self.table_state)
        patched.setattr(admission, "row_policies", self.row_policies)
        patched.setattr(append, "insert_stream", self.insert_stream)

    def table_state(self, client: Any, database: str, table: str) -> TableState | None:
        assert (client, database, table) == (CONTROL, "d", "t")
        self.does("look at the table")
        return self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]

    def row_policies(self, client: Any, database: str, table: str) -> int:
        assert (client, database, table) == (CONTROL, "d", "t")
        self.does("look for row policies")
        return self.policies

    def insert_stream(
        self, endpoint: Any, *, batches: Iterable[Any], started: Act, effect: Effect, **options: Any
    ) -> int | None:
        self.does(effect.what)
        started()
        rows = [row for batch in batches for row in batch.to_pylist()]
        self.sent = {"endpoint": endpoint, "rows": [row["id"] for row in rows], "names": [row["name"] for row in rows]}
        self.sent |= options
        self.does("acknowledge")
        return self.written(len(self.sent["rows"]))

    def observe(self, request: MetricRequest) -> StagedMetrics:
        self.does("count in the live table")
        assert (request.side, request.dataset) == ("target", "d.t")
        return StagedMetrics(row_count=self.live_rows)

    def admit(self) -> None:
        """Of the store of marks."""
        self.does("admit the marks")

    def read(self, key: str) -> SourceState | None:
        """Of the store of marks."""
        self.does(f"read the mark of {key}")
        return self.mark

    def advance(self, key: str, expected: SourceState | None, value: str, load_id: str) -> SourceState:
        """Of the store of marks: the processor's."""
        raise AssertionError("a coordinator moves no mark")

    def record(self, step: LoadStep) -> None:
        """Of the log of steps."""
        self.does(f"note {step.step}")

    def notify(self, step: str, facts: Mapping[str, Any]) -> None:
        self.told[step] = facts
        self.does(f"tell {step}")

    def check_cancelled(self) -> None:
        self.does("look for a cancellation")

    def policy_now(self) -> QualityPolicy:
        self.does("compare the policy")
        return self.policy

    # -- the load ------------------------------------------------------------------------------------------------

    def spec(self, *, gates: Any = ROWS, cursor: str = "", acceptance: Any = None, **sink: Any) -> LoadSpec:
        lines = ["id,name", *(f"{row},n{row}" for row in self.rows)]
        (self.folder / "source.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        source: dict[str, Any] = {"type": "file", "format": "csv", "path": "source.csv"}
        if cursor:
            source["cursor"] = {"column": cursor}
        place = {"type": "clickhouse", "connection_ref": "sink", "table": {"schema": "d", "name": "t"}}
        return spec_from_values(
            name="add",
            source=source,
            sink={**place, "strategy": {"mode": "append"}, **sink},
            quality={"gates": list(gates), **({"acceptance": acceptance} if acceptance else {})},
            base=str(self.folder),
        )

    def room(self, spec: LoadSpec) -> DirectRoom:
        cursor: dict[str, Any] = {"states": self, "state_key": "k"} if spec.source.cursor is not None else {}
        return DirectRoom(
            spec=spec,
            control=CONTROL,
            sink=SINK,
            source=None,
            wire=self.wire,
            notify=self.notify,
            check_cancelled=self.check_cancelled,
            observe=self.observe,
            **cursor,
        )

    def admitted(self, spec: LoadSpec) -> tuple[LegacyLoadGovernanceCoordinator, LoadExecution]:
        """Everything up to the load itself."""
        self.policy = spec.quality
        execution = LoadExecution(run_id="r", load_id=LOAD, policy_now=self.policy_now)
        execution.log = self
        made = LegacyLoadGovernanceCoordinator(self.room(spec))
        made.admit(execution)
        return made, execution

    def load(self, spec: LoadSpec | None = None) -> tuple[Loaded, LoadExecution]:
        made, execution = self.admitted(spec or self.spec())
        return made.load(execution), execution

    def fails(self, spec: LoadSpec | None = None) -> tuple[DponeError, LoadExecution]:
        """The error that the load must end with, as the coordinator raises it."""
        made, execution = self.admitted(spec or self.spec())
        with pytest.raises(DponeError) as raised:
            made.load(execution)
        return raised.value, execution


def raises(error: BaseException) -> Act:
    def act() -> None:
        raise error

    return act
