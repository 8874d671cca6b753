"""A small real load for tests: CSV file → sandbox table, with everything that a test looks at afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from dpone_provider.clickhouse.authority_store import ClickHouseReplayQualityStore
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.clickhouse.provision import apply
from dpone_provider.load.outcome import LoadOutcome, RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.replay.record import AuthorityRecord, parse_slot
from dpone_provider.runtime.compose import REPLICA, Surroundings, operation_of
from dpone_provider.runtime.run import run_load
from dpone_provider.runtime.sink import ClickHouseSink
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire
from tests.sandbox_fixture import ask


@attrs.frozen(kw_only=True)
class OneEndpoint:
    """Every connection id is the sandbox."""

    where: Endpoint

    def endpoint(self, ref: str) -> Endpoint:
        return self.where


def endpoint_of(sandbox: RunningSandbox, **changes: Any) -> Endpoint:
    """The sandbox's endpoint, with some fields changed (a proxy's port, say)."""
    return attrs.evolve(sandbox.endpoint, **changes)


@attrs.frozen(kw_only=True)
class Bench:
    """One target table, its CSV source and its authority, in a database of its own."""

    sandbox: RunningSandbox
    database: str
    folder: Path
    table: str = "t"

    def provision(self) -> None:
        """Create the authority, as the platform owner would."""
        client = ControlClient(endpoint_of(self.sandbox), DirectWire())
        try:
            apply({REPLICA: client}, self.database)
        finally:
            client.close()

    def write(self, first: int, rows: int = 5) -> None:
        """The source: ``rows`` lines with ids from ``first`` on."""
        lines = ["id,name", *(f"{number},n{number}" for number in range(first, first + rows))]
        (self.folder / "source.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def spec(self, *, durable: bool = True, target: bool = False, mode: str = "required", **quality: Any) -> LoadSpec:
        """The load as the operator's inline arguments would give it. ``target``: observe the live generation too."""
        return spec_from_values(
            name="refresh",
            source={"type": "file", "format": "csv", "path": "source.csv"},
            sink={
                "type": "clickhouse",
                "connection_ref": "sink",
                "table": {"schema": self.database, "name": self.table},
                "strategy": {"mode": "full_refresh", "max_source_bytes": 1_000_000},
                "columns": {"id": "UInt64", "name": "String"},
                "options": {
                    "durable_quality_replay": durable,
                    "physical_design": {"storage": {"clickhouse": {"engine": "MergeTree", "order_by": ["id"]}}},
                },
            },
            quality=quality
            or {
                "gates": [
                    {"id": "rows", "type": "row_count_reconciliation"},
                    {"id": "some", "type": "min_rows", "threshold": 1},
                ],
                "acceptance": {
                    "enabled": True,
                    "mode": mode,
                    "capture": {"source": True, "staged": True, "target": target},
                    "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": ["id"]},
                },
            },
            base=str(self.folder),
        )

    def run(
        self,
        run_id: str = "r1",
        *,
        spec: LoadSpec | None = None,
        endpoint: Endpoint | None = None,
        sink: ClickHouseSink | None = None,
        **around: Any,
    ) -> LoadOutcome:
        """Run the load once, as one attempt."""
        connections = OneEndpoint(where=endpoint or endpoint_of(self.sandbox))
        surroundings = Surroundings(**around)
        return run_load(spec or self.spec(), self.identity(run_id), connections, surroundings, sink=sink)

    def identity(self, run_id: str = "r1") -> RunIdentity:
        return RunIdentity(dag_id="dag", run_id=run_id, task_id="refresh")

    # -- what is true on the server, read on connections of our own ------------------------------------------

    def rows(self) -> list[tuple[Any, ...]]:
        """The live table's rows; [] when there is no table."""
        return (
            ask(self.sandbox, f"SELECT id, name FROM {self.database}.{self.table} ORDER BY id") if self.live() else []
        )

    def ids(self) -> list[int]:
        """The live ids."""
        return [row[0] for row in self.rows()]

    def live(self) -> str | None:
        """The live table's UUID."""
        found = ask(
            self.sandbox,
            f"SELECT toString(uuid) FROM system.tables WHERE database = '{self.database}' AND name = '{self.table}'",
        )
        return found[0][0] if found else None

    def private(self) -> list[str]:
        """Names of private tables."""
        found = ask(
            self.sandbox,
            f"SELECT name FROM system.tables WHERE database = '{self.database}' AND position(name, '__dpone_') > 0 "
            "ORDER BY name",
        )
        return [row[0] for row in found]

    def slot(self) -> tuple[AuthorityRecord | None, int]:
        """The authority row and its version."""
        client = ControlClient(endpoint_of(self.sandbox), DirectWire())
        try:
            store = ClickHouseReplayQualityStore({REPLICA: client}, self.database)
            key = operation_of(self.spec(), self.identity()).target.key
            found = parse_slot(store.read(key), key=key)
            return found.record, found.version
        finally:
            client.close()

    def record(self) -> AuthorityRecord:
        """The authority row, which must be there."""
        record, _ = self.slot()
        if record is None:
            raise LookupError("the slot is empty")
        return record
