"""``dpone run`` of a load by partitions: its document, its screen, and what a stop leaves behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from dpone_provider.cli.progress import PlainSteps, pace
from tests.cli.conftest import Desk, Stop
from tests.cli.test_interrupt import private, until_staging
from tests.sandbox_fixture import Sql

PARTITIONED = """\
kind: dpone.batch.v1
defaults:
  source:
    type: clickhouse
    connection_ref: wh
    query: "SELECT id, {name} AS name FROM {database}.s"
    partitions: {{range: {{column: id, size: 1000}}, workers: 2}}
  sink:
    type: clickhouse
    connection_ref: wh
    table: {{schema: {database}, name: p}}
    strategy: {{mode: {mode}}}
quality:
  gates:
    - {{id: some, type: min_rows, severity: error, threshold: {min_rows}}}
schemas:
  main: {{tables: [t]}}
"""


def write(desk: Desk, mode: str = "full_refresh", *, min_rows: int = 1, name: str = "name") -> None:
    text = PARTITIONED.format(database=desk.database, mode=mode, min_rows=min_rows, name=name)
    Path(desk.manifest).write_text(text, encoding="utf-8")


@pytest.fixture
def parts(desk: Desk, sql: Sql) -> Desk:
    """Four thousand rows in four partitions, and an empty target that is partitioned alike."""
    for name, rows in (("s", 50), ("p", 1000)):
        sql(
            f"CREATE TABLE {desk.database}.{name} (id Int64, name String) ENGINE = MergeTree "
            f"PARTITION BY intDiv(id, {rows}) ORDER BY id"
        )
    sql(f"INSERT INTO {desk.database}.s SELECT number, 'n' FROM numbers(4000)")
    write(desk)
    return desk


@pytest.mark.contract("N4", "O2")
def test_the_document_says_what_was_done_and_that_a_retry_did_nothing_again(parts: Desk) -> None:
    write(parts, "partition_replace")
    first, again = parts.load(), parts.load()
    assert (first.code, again.code) == (0, 0), again
    effects = [ran.document["effects"] for ran in (first, again)]
    assert [sent["replacements"] for sent in effects] == [4, 0]
    assert effects[1]["inserts"] == 0
    details = again.document["result"]["details"]
    assert (details["replayed"], details["governance_finalization"]) == (True, "native_resume_validation")
    assert again.document["strategy"] == "partition_replace"


@pytest.mark.contract("Q10", "X7")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_the_document_of_a_failure_keeps_counters_attempts_and_context(parts: Desk, mode: str) -> None:
    write(parts, mode, min_rows=4001)
    ran = parts.load()
    document = ran.document
    assert ran.code != 0
    assert document["attempts"] == 1
    assert (document["result"]["extracted_rows"], document["result"]["inserted_rows"]) == (4000, 0)
    context = document["failure_context"]
    assert (context["failure_boundary"], context["checkpoint_state"]) == ("pre_commit", "not_advanced")
    assert context["retry_classification"] == "retry_before_target_mutation"
    assert document["quality_gates"]["results"][0]["status"] == "failed"
    write(parts, mode)
    assert parts.load().document["attempts"] == 2


@pytest.mark.contract("N7", "Q10")
def test_a_failure_after_everything_is_committed_says_that_a_retry_only_validates(parts: Desk) -> None:
    assert parts.load().code == 0
    write(parts, min_rows=4001)
    document = parts.load().document
    assert document["failure_context"]["retry_classification"] == "retry_via_native_resume"
    assert document["failure_context"]["checkpoint_state"] == "committed"
    assert (document["effects"]["inserts"], document["effects"]["exchanges"]) == (0, 0)


@pytest.mark.contract("O3")
def test_the_screen_of_a_replacement_speaks_of_partitions(parts: Desk) -> None:
    write(parts, "partition_replace")
    first, again = parts.load(form="text"), parts.load(form="text")
    assert first.says("Are the partitions in the table?")
    assert first.says("4 partitions")
    assert again.says("nothing repeated")


@pytest.mark.contract("O1", "O4")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_a_stop_while_partitions_move_leaves_no_table_and_no_lock(parts: Desk, sql: Sql, stop: Stop, mode: str) -> None:
    write(parts, mode, name="if(sleepEachRow(0.02) = 0, s.name, '')")
    process = parts.start_load("--format", "json")
    until_staging(process, parts, sql)
    ran = stop(process, signal.SIGINT)
    assert ran.code == 130, ran
    document = json.loads(ran.out)
    assert (document["error_code"], document["replay_details"]["target_commit"]) == ("DPONE_CANCELLED", "not_started")
    assert private(sql, parts) == []
    write(parts, mode)
    assert parts.load().code == 0


@pytest.mark.contract("O5")
def test_status_says_where_the_checkpoints_are(parts: Desk) -> None:
    said = parts.status()
    assert said.code == 0
    assert "checkpoints of the run" in said.document["next_step"]


@pytest.mark.contract("O3")
def test_progress_counts_partitions_and_tells_the_time_left_once_one_is_there() -> None:
    facts = {"partitions": 1, "planned": 4, "rows": 20, "bytes": 5_000_000}
    now = pace(facts, 10.0)
    assert (now.line, now.done) == ("1 of 4 partitions · 20 rows · 5.0 MB · 2 rows/s · 0:30 left", 0.25)
    assert "left" not in pace({**facts, "partitions": 0}, 10.0).line


def test_plain_progress_says_once_that_partitions_are_replaced() -> None:
    lines: list[str] = []
    steps = PlainSteps(lines.append)
    for number in (1, 2, 3):
        steps("replace", {"partition": number, "planned": 3}, 0.0)
    assert lines == ["replacing partitions of the live table\n"]
