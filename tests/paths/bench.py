"""A small real append: CSV file → live table, in every shape that a test needs, and what is true on the server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.provision import load_tables, provision
from dpone_provider.clickhouse.source_state import ClickHouseSourceStateStore
from dpone_provider.errors import DponeError
from dpone_provider.load.operation import source_key
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.traces import SourceState
from dpone_provider.wire import DirectWire
from tests.loads import OneEndpoint, endpoint_of
from tests.sandbox_fixture import ask

GATES = ({"id": "rows", "type": "row_count_reconciliation"}, {"id": "some", "type": "min_rows", "threshold": 1})


@attrs.frozen(kw_only=True)
class Appending:
    """One live table ``t`` (id UInt64, name String), its CSV source, and the tables of steps and marks."""

    sandbox: RunningSandbox
    database: str
    folder: Path

    def create(self, columns: str = "id UInt64, name String", engine: str = "MergeTree ORDER BY id") -> None:
        self.ask(f"CREATE TABLE {self.database}.t ({columns}) ENGINE = {engine}")

    def provision(self) -> None:
        """Steps and marks, as the platform owner makes them."""
        client = ControlClient(endpoint_of(self.sandbox), DirectWire())
        try:
            provision(client, self.database, load_tables(self.database))
        finally:
            client.close()

    def write(self, first: int, rows: int = 5) -> None:
        lines = ["id,name", *(f"{number},n{number}" for number in range(first, first + rows))]
        (self.folder / "source.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def spec(
        self,
        *,
        gates: Any = GATES,
        acceptance: Mapping[str, Any] | None = None,
        cursor: str | None = None,
        pre_sql: tuple[str, ...] = (),
        post_sql: tuple[str, ...] = (),
        mode: str = "append",
        **source: Any,
    ) -> LoadSpec:
        source = {"type": "file", "format": "csv", "path": "source.csv", **source}
        if cursor is not None:
            source["cursor"] = {"column": cursor}
        hooks = {name: list(texts) for name, texts in (("pre_sql", pre_sql), ("post_sql", post_sql)) if texts}
        return spec_from_values(
            name="add",
            source=source,
            sink={
                "type": "clickhouse",
                "connection_ref": "sink",
                "table": {"schema": self.database, "name": "t"},
                "strategy": {"mode": mode},
                **hooks,
            },
            quality={"gates": list(gates), **({"acceptance": dict(acceptance)} if acceptance else {})},
            base=str(self.folder),
        )

    def run(
        self,
        run_id: str = "r1",
        *,
        spec: LoadSpec | None = None,
        load_config: Mapping[str, Any] | None = None,
        endpoint: Any = None,
        **around: Any,
    ) -> LoadOutcome:
        connections = OneEndpoint(where=endpoint or endpoint_of(self.sandbox))
        identity, surroundings = self.identity(run_id), Surroundings(**around)
        return run_load(spec or self.spec(), identity, connections, surroundings, load_config=load_config)

    def refused(self, code: str, **options: Any) -> DponeError:
        """Run, and the error that must come of it."""
        try:
            self.run(**options)
        except DponeError as error:
            assert error.code == code, f"{error.code}: {error.message}"
            return error
        raise AssertionError("the load succeeded")

    def identity(self, run_id: str = "r1") -> RunIdentity:
        return RunIdentity(dag_id="dag", run_id=run_id, task_id="add")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return ask(self.sandbox, sql)

    def ids(self) -> list[int]:
        return [row[0] for row in self.ask(f"SELECT id FROM {self.database}.t ORDER BY id")]

    def steps(self) -> list[tuple[str, str]]:
        """Step and details as the table keeps them, in order."""
        return [
            (step, details)
            for step, details in self.ask(
                f"SELECT step, details FROM {self.database}.dpone_load_steps ORDER BY recorded_at, number"
            )
        ]

    def mark(self, spec: LoadSpec) -> SourceState | None:
        client = ControlClient(endpoint_of(self.sandbox), DirectWire())
        try:
            store = ClickHouseSourceStateStore(client, self.database, new_id=str)
            return store.read(source_key(spec, self.identity()))
        finally:
            client.close()


def acceptance(*, staged: bool = False, mode: str = "required", **checks: Any) -> dict[str, Any]:
    """``quality.acceptance`` of a direct load."""
    capture = {"source": True, "staged": staged, "target": True}
    return {"enabled": True, "mode": mode, "capture": capture, "checks": checks or {"row_count": True}}
