"""A small real load by partitions: a ClickHouse query or CSV files → a live table, and what is true afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.errors import DponeError
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire
from tests.loads import OneEndpoint, endpoint_of
from tests.sandbox_fixture import ask

GATES = ({"id": "rows", "type": "row_count_reconciliation"}, {"id": "some", "type": "min_rows", "threshold": 1})
SINK = ("create_table", "insert", "append", "exchange", "publish_first", "replace_partition", "rename", "drop", "hook")
"""Every effect that does something to the sink."""
QUARTERS = {"range": {"column": "id", "size": 10}}


class Moving(DirectWire):
    """Counts of the source what comes after the planning; give its ``told`` to the load as ``notify``."""

    def told(self, step: str, facts: dict[str, Any]) -> None:
        if step == "stage":
            del self.counts["source_open"], self.counts["source_read"]


@attrs.frozen(kw_only=True)
class Parts:
    """A source table ``s`` (id Int64, name Nullable(String)), a target ``t`` by ``intDiv(id, 10)``."""

    sandbox: RunningSandbox
    database: str
    folder: Path

    def create(self, key: str = "intDiv(id, 10)") -> None:
        columns = "id Int64, name Nullable(String)"
        self.ask(f"CREATE TABLE {self.database}.s ({columns}) ENGINE = MergeTree ORDER BY id")
        self.ask(f"CREATE TABLE {self.database}.t ({columns}) ENGINE = MergeTree PARTITION BY {key} ORDER BY id")

    def fill(self, first: int, last: int, name: str = "n") -> None:
        """Rows of the source; every fifth has no name."""
        self.ask(
            f"INSERT INTO {self.database}.s SELECT number, if(number % 5 = 0, NULL, '{name}') "
            f"FROM numbers({first}, {last - first})"
        )

    def spec(
        self,
        mode: str = "full_refresh",
        *,
        partitions: Mapping[str, Any] | None = None,
        gates: Any = GATES,
        acceptance: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        columns: Mapping[str, str] | None = None,
        **sink: Any,
    ) -> LoadSpec:
        query = {
            "type": "clickhouse",
            "connection_ref": "source",
            "query": f"SELECT id, name FROM {self.database}.s",
        }
        return spec_from_values(
            name="parts",
            source={**(source or query), "partitions": dict(partitions or QUARTERS)},
            sink={
                "type": "clickhouse",
                "connection_ref": "sink",
                "table": {"schema": self.database, "name": "t"},
                "strategy": {"mode": mode},
                **({"columns": dict(columns)} if columns else {}),
                **sink,
            },
            quality={"gates": list(gates), **({"acceptance": dict(acceptance)} if acceptance else {})},
            base=str(self.folder),
        )

    def replacing(self) -> Callable[..., LoadSpec]:
        """Fill the target with a hundred old rows; what gives a load that replaces partitions of them."""
        self.ask(f"INSERT INTO {self.database}.t SELECT number, 'old' FROM numbers(0, 100)")
        return lambda **options: self.spec("partition_replace", **options)

    def run(
        self,
        run_id: str = "r1",
        *,
        spec: LoadSpec | None = None,
        load_config: Mapping[str, Any] | None = None,
        **around: Any,
    ) -> LoadOutcome:
        connections = OneEndpoint(where=endpoint_of(self.sandbox))
        identity = RunIdentity(dag_id="dag", run_id=run_id, task_id="parts")
        return run_load(spec or self.spec(), identity, connections, Surroundings(**around), load_config=load_config)

    def refused(self, code: str, **options: Any) -> DponeError:
        """Run, and the error that must come of it."""
        try:
            self.run(**options)
        except DponeError as error:
            assert error.code == code, f"{error.code}: {error.message}"
            return error
        raise AssertionError("the load succeeded")

    # -- what is true ----------------------------------------------------------------------------------------

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return ask(self.sandbox, sql)

    def ids(self) -> list[int]:
        return [row[0] for row in self.ask(f"SELECT id FROM {self.database}.t ORDER BY id")]

    def private(self) -> list[str]:
        found = self.ask(
            f"SELECT name FROM system.tables WHERE database = '{self.database}' AND name LIKE '%\\_\\_dpone\\_%'"
        )
        return [row[0] for row in found]

    @property
    def kept(self) -> Path:
        """The folder of the one operation."""
        (folder,) = (self.folder / ".dpone" / "transfers").iterdir()
        return folder

    def lines(self) -> list[dict[str, Any]]:
        """Every checkpoint that was written, in order."""
        return [json.loads(line) for line in (self.kept / "checkpoints.jsonl").read_text().splitlines()]

    def states(self) -> dict[str, str]:
        """The latest state of each partition."""
        return {line["partition_id"]: line["state"] for line in self.lines()}

    def report(self) -> dict[str, Any] | None:
        path = self.kept / "report.json"
        return dict(json.loads(path.read_text())) if path.exists() else None

    def failure(self) -> dict[str, Any]:
        return dict(json.loads((self.kept / "failure.json").read_text()))

    def artefacts(self) -> list[Path]:
        return sorted(self.kept.rglob("*.parquet"))
