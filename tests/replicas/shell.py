"""The command line of a cluster, as a person has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpone_provider.cli.main import main
from tests.replicas.bench import PairBench, dialled


class Shell:
    """A folder with a manifest of a cluster and its connection."""

    def __init__(self, bench: PairBench, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capture = bench.folder, capture
        self.table = {"schema": bench.database, "name": bench.table}
        self.connect({name: f"{host}:{port}" for name, host, port in dialled(bench.pair).replica_addresses}, bench)

    def connect(self, addresses: dict[str, str], bench: PairBench) -> None:
        where = dialled(bench.pair)
        extra = {"http_port": where.http_port, "replica_addresses": addresses}
        fields = {"host": where.host, "port": where.native_port, "login": where.user, "password": where.password}
        connection = {"conn_type": "dpone_clickhouse", **fields, "extra": extra}
        (self.folder / "connections.json").write_text(json.dumps({"sink": connection}))
        sink: dict[str, Any] = {"type": "clickhouse", "connection_ref": "sink", "table": self.table, "cluster": "main"}
        sink |= {"strategy": {"max_source_bytes": 1_000_000}, "options": {"durable_quality_replay": True}}
        source = {"type": "file", "format": "csv", "path": "source.csv"}
        manifest = {"kind": "dpone.batch.v1", "defaults": {"source": source, "sink": sink}}
        (self.folder / "m.yaml").write_text(json.dumps({**manifest, "schemas": {"s": {"tables": ["t"]}}}))

    def dpone(self, command: str, *more: str) -> tuple[int, dict[str, Any]]:
        where = ("--connections", str(self.folder / "connections.json"), "--format", "json")
        code = main([command, str(self.folder / "m.yaml"), *where, *more])
        document: dict[str, Any] = json.loads(self.capture.readouterr().out)
        return code, document
