"""Ctrl-C, SIGTERM and SIGHUP on a real process while it stages: nothing is left behind and the slot is given back."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.cli import progress
from dpone_provider.cli.progress import Show
from tests.cli.conftest import MANIFEST, Desk, Stop
from tests.sandbox_fixture import Sql

SLOW = (
    "{{type: clickhouse, connection_ref: wh, query: "
    '"SELECT id, toString(id) AS name FROM {database}.slow WHERE sleepEachRow(0.02) = 0"}}'
)
SLOW_TABLE = "CREATE TABLE {database}.slow (id UInt64) ENGINE = MergeTree ORDER BY id PARTITION BY intDiv(id, 50)"


@pytest.fixture
def slow(desk: Desk, sql: Sql) -> Desk:
    """A desk whose table is loaded, and whose source now gives fifty rows, one part, a second."""
    assert desk.load(run_id="before").code == 0
    sql(SLOW_TABLE.format(database=desk.database))
    sql(f"INSERT INTO {desk.database}.slow SELECT number FROM numbers(5000)")
    make_slow(desk, durable="true")
    return desk


def make_slow(desk: Desk, *, durable: str) -> None:
    text = MANIFEST.format(database=desk.database, durable=durable, path="x", min_rows=1)
    text = text.replace("{type: file, format: csv, path: x}", SLOW.format(database=desk.database))
    Path(desk.manifest).write_text(text, encoding="utf-8")


def private(sql: Sql, desk: Desk) -> list[str]:
    found = sql(f"SELECT name FROM system.tables WHERE database = '{desk.database}' AND position(name, '__dpone_') > 0")
    return [name for (name,) in found]


def until_staging(process: subprocess.Popen[str], desk: Desk, sql: Sql) -> None:
    """Wait until the private generation is there."""
    deadline = time.monotonic() + 20
    while not private(sql, desk):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"never staged: {process.communicate()}")
        time.sleep(0.02)
    time.sleep(0.3)


@pytest.mark.contract("O1", "O4")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
@pytest.mark.parametrize("durable", ["true", "false"])
def test_a_stop_while_staging_leaves_nothing_behind(
    slow: Desk, sql: Sql, stop: Stop, number: int, code: int, durable: str
) -> None:
    make_slow(slow, durable=durable)
    process = slow.start_load("--format", "json")
    until_staging(process, slow, sql)
    ran = stop(process, number)
    assert ran.code == code, ran
    document = json.loads(ran.out)
    assert document["error_code"] == "DPONE_CANCELLED"
    assert document["replay_details"]["target_commit"] == "not_started"
    assert ran.err.count("\n") == 1
    assert private(sql, slow) == []
    assert sql(f"SELECT id FROM {slow.database}.t ORDER BY id") == [(1,), (2,), (3,)]
    if durable == "true":
        slot = slow.status().document["slot"]
        assert (slot["phase"], slot["owner"]) == ("REJECTED", "released")


@pytest.mark.contract("O1")
def test_a_stopped_load_starts_again_with_the_same_identity(slow: Desk, sql: Sql, stop: Stop) -> None:
    process = slow.start_load()
    until_staging(process, slow, sql)
    ran = stop(process, signal.SIGINT)
    assert ran.code == 130
    assert "Interrupted." in ran.err
    slow.write_manifest()
    document = slow.load().document
    assert (document["passed"], document["attempts"]) == (True, 2)


STEPS = [
    ("claim", None),
    ("claimed", "not_started"),
    ("stage", "not_started"),
    ("create", "not_started"),
    ("rows", "not_started"),
    ("verify", "not_started"),
    ("seal", "not_started"),
    ("permit", "unknown"),
    ("publish", "unknown"),
    ("committed", "proven"),
    ("complete", "proven"),
    ("released", "proven"),
]


@pytest.mark.contract("O1", "O4", "G7")
@pytest.mark.parametrize(("step", "commit"), STEPS)
def test_a_stop_at_any_step_claims_no_more_than_is_known_and_a_retry_finishes(
    desk: Desk, sql: Sql, monkeypatch: pytest.MonkeyPatch, step: str, commit: str | None
) -> None:
    desk.load(run_id="before")
    desk.write_csv("7,x", "8,y")

    @contextmanager
    def stopping(form: str) -> Iterator[Show]:
        def show(at: str, facts: Mapping[str, Any], seconds: float) -> None:
            if at == step:
                raise KeyboardInterrupt

        yield show

    with monkeypatch.context() as patch:
        patch.setattr(progress, "shown", stopping)
        stopped = desk.load()
    assert (stopped.code, stopped.document["error_code"]) == (130, "DPONE_CANCELLED")
    assert stopped.document["replay_details"].get("target_commit") == commit
    live = [number for (number,) in sql(f"SELECT id FROM {desk.database}.t ORDER BY id")]
    assert live in ([1, 2, 3], [7, 8])
    if commit == "not_started":
        assert live == [1, 2, 3]
        assert private(sql, desk) == []
    if commit == "proven":
        assert live == [7, 8]
    finished = desk.load().document
    assert finished["passed"] is True
    assert finished["effects"]["source_reads"] == (0 if commit in ("unknown", "proven") else 1)
    assert private(sql, desk) == []
    assert sql(f"SELECT id FROM {desk.database}.t ORDER BY id") == [(7,), (8,)]
