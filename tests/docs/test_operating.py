"""What the operating guide and the architecture tell is what the real server and a real load show (D1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.provision import load_tables, provision
from dpone_provider.load.outcome import RunIdentity
from dpone_provider.manifest.read import spec_from_values
from dpone_provider.runtime.compose import Surroundings
from dpone_provider.runtime.run import run_load
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import DirectWire, Effect
from tests.docs.markdown import DOCS, blocks
from tests.loads import Bench, OneEndpoint, endpoint_of
from tests.sandbox_fixture import Sql

T = TypeVar("T")


@attrs.define
class Recorder(DirectWire):
    """Keeps the kinds of all effects, in order; batches of the source are part of the insert."""

    kinds: list[str] = attrs.field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        if effect.kind != "source_read":
            self.kinds.append(effect.kind)
        return super().send(effect, call)


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Bench:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1)
    return made


def load(bench: Bench, run_id: str) -> list[str]:
    """One load in a process of its own accord; the effects that it had."""
    sink = {
        "type": "clickhouse",
        "connection_ref": "ch",
        "table": {"schema": bench.database, "name": bench.table},
        "strategy": {"max_source_bytes": 1_000_000},
        "options": {"durable_quality_replay": True},
    }
    source = {"type": "file", "format": "csv", "path": "source.csv"}
    spec = spec_from_values(source=source, sink=sink, name="refresh", base=str(bench.folder))
    wire = Recorder()
    identity = RunIdentity(run_id=run_id, dag_id="d", task_id="refresh")
    run_load(spec, identity, OneEndpoint(where=endpoint_of(bench.sandbox)), Surroundings(wire=wire))
    return wire.kinds


@pytest.mark.contract("D1")
def test_a_load_has_the_effects_that_the_architecture_lists(bench: Bench) -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## One load, in order of effects")[2].partition("\n## ")[0]
    listed = [
        kind
        for row in re.findall(r"^\| \d+ \|([^|]*)\|", section, re.MULTILINE)
        for kind in re.findall(r"`([a-z_]+)`", row)
    ]
    load(bench, "earlier")
    assert load(bench, "later") == listed


@pytest.mark.contract("D1")
def test_sql_in_the_operating_guide_runs(bench: Bench, sql: Sql) -> None:
    statements = [block.text for block in blocks(DOCS / "operating.md") if block.language == "sql"]
    assert len(statements) == 7
    control = ControlClient(endpoint_of(bench.sandbox), DirectWire())
    provision(control, bench.database, load_tables(bench.database))
    control.close()
    load(bench, "earlier")
    load(bench, "later")
    sql("SYSTEM FLUSH LOGS")
    answers = []
    for statement in statements:
        mine = statement.replace("shop.dpone", f"{bench.database}.dpone").replace("'shop'", f"'{bench.database}'")
        mine = mine.replace("'orders'", f"'{bench.table}'")
        answers.append(sql(mine.replace("%orders%", f"%{bench.database}%")))
    *_, tables, log = answers
    assert [row[0] for row in tables] == [bench.table]
    assert any("EXCHANGE TABLES" in row[-1] for row in log)


@pytest.mark.contract("D3")
@pytest.mark.parametrize(
    "what", ["data replication between replicas", "Kubernetes", "`SELECT` once its child was killed"]
)
def test_what_no_test_has_seen_live_is_labelled(what: str) -> None:
    """Never passed: the one test of a real cluster skips, and says UNVERIFIED."""
    text = (DOCS / "operating.md").read_text(encoding="utf-8")
    listed = text.partition("## What is UNVERIFIED")[2].split("\n- ")[1:]
    assert any(item.startswith("UNVERIFIED: ") and what in " ".join(item.split()) for item in listed)
