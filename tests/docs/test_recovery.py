"""The recovery runbook shows what a real server shows, and its table what a retry and another run really do (D1, O5).

``DPONE_WRITE_DOCS=1`` writes the blocks of docs/recovery.md from the run instead of comparing them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone_provider.cli.main import main
from dpone_provider.errors import CATALOGUE
from dpone_provider.replay.record import PHASES
from dpone_provider.replay.target_reader import BUDGET_SECONDS
from dpone_provider.sandbox.config import SandboxConfig
from dpone_provider.sandbox.process import RunningSandbox, SandboxServer
from tests.docs.markdown import DOCS, blocks
from tests.docs.runbook import DAG, KEEPER_LOST, NEXT, OPERATION, STATES, THIRD, Orders, Room, ends_as, shown
from tests.sandbox_fixture import ask
from tests.scenarios.stage import Stage

PAGE = DOCS / "recovery.md"
WRITE = os.environ.get("DPONE_WRITE_DOCS") == "1"
WHOLE = ("COMPLETE",)
_SECTION = r"^### {}\n(?:(?!^#).)*?^```text\n(?P<text>.*?)^```$"
_ROW = re.compile(
    r"^\| \[(?P<state>[^]]+)\]\(#[^)]*\) \|[^|]*\| (?P<retry>[^|]*) \| (?P<other>[^|]*) \|$", re.MULTILINE
)


def open_room(sandbox: RunningSandbox, database: str, folder: Path) -> Room:
    """A target with a live table, ids 100 to 104, and a source with ids 200 to 206."""
    bench = Orders(sandbox=sandbox, database=database, folder=folder)
    bench.provision()
    bench.write_manifest()
    stage = Stage(bench)
    stage.publish()
    return Room(stage=stage, bench=bench)


@pytest.fixture
def room(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Room:
    return open_room(sandbox, database, tmp_path)


Told = Callable[[Room], str]


@pytest.fixture
def status(capsys: pytest.CaptureFixture[str]) -> Told:
    """What ``dpone status`` of a room's operation prints, as text."""

    def told(room: Room) -> str:
        server, folder = room.bench.sandbox, room.bench.folder
        connection = {
            "conn_type": "dpone_clickhouse",
            "host": server.host,
            "port": server.tcp_port,
            "login": server.user,
            "password": server.password,
            "extra": {"http_port": server.http_port},
        }
        connections = folder / "connections.json"
        connections.write_text(json.dumps({"warehouse": connection}), encoding="utf-8")
        capsys.readouterr()
        manifest, where = str(room.bench.manifest), str(connections)
        main(["status", manifest, "--dag-id", DAG, "--run-id", OPERATION, "--connections", where])
        out, err = capsys.readouterr()
        return out + err

    return told


def compare(state: str, told: str) -> None:
    """The first block of the state's section is what was told; or write it there."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(_SECTION.format(re.escape(state)), page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/recovery.md does not show {state}"
    if WRITE:
        start, end = found.span("text")
        PAGE.write_text(page[:start] + told + page[end:], encoding="utf-8")
        return
    assert found["text"] == told


def promised(state: str, who: str) -> str:
    """How the table says that a retry, or another run, ends."""
    rows = {row["state"]: row for row in _ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert set(rows) == {*STATES, KEEPER_LOST}
    return rows[state][who].split(",")[0].split(":")[0].split(" ")[0].strip("`")


def refused(word: str) -> bool:
    return word.isupper()


@pytest.mark.contract("D1", "O5", "A6", "G2", "G3")
@pytest.mark.parametrize("state", STATES)
def test_status_a_retry_and_a_refused_run_are_as_the_runbook_says(state: str, room: Room, status: Told) -> None:
    STATES[state](room)
    other = promised(state, "other")
    if refused(other):
        assert ends_as(room.load(run_id=THIRD)) == other
    compare(state, shown(room, status(room), whole=state in WHOLE))
    assert ends_as(room.load()) == promised(state, "retry")


@pytest.mark.contract("D1", "A6")
@pytest.mark.parametrize("state", [state for state in STATES if not refused(promised(state, "other"))])
def test_another_run_takes_the_slot_where_the_runbook_says(state: str, room: Room) -> None:
    STATES[state](room)
    assert ends_as(room.load(run_id=THIRD)) == promised(state, "other")
    assert room.bench.ids() == list(range(200, 207))


@pytest.mark.contract("D1", "O5", "A7")
def test_a_keeper_that_lost_its_data_is_told(tmp_path: Path, status: Told) -> None:
    """The sandbox's Keeper lives in memory: after a restart the table is listed and its data is gone."""
    server, config = SandboxServer(), SandboxConfig(folder=tmp_path / "sandbox", bound_to_starter=True)
    running = server.start(config)
    try:
        ask(running, "CREATE DATABASE shop ENGINE = Atomic")
        open_room(running, "shop", tmp_path).load().expect("success")
        server.stop(config.folder)
        running = server.start(config)
        bench = Orders(sandbox=running, database="shop", folder=tmp_path)
        room = Room(stage=Stage(bench), bench=bench)
        compare(KEEPER_LOST, shown(room, status(room), whole=False))
        for run_id, who in ((OPERATION, "retry"), (NEXT, "other")):
            assert ends_as(room.load(run_id=run_id)) == promised(KEEPER_LOST, who)
    finally:
        server.stop(config.folder)


@pytest.mark.contract("D1")
def test_a_dropped_generation_comes_back_as_the_runbook_says(room: Room) -> None:
    STATES["DISPATCHING, generation lost"](room)
    look, undrop = [block.text for block in blocks(PAGE) if block.language == "sql"]
    ((_, table, uuid, _),) = room.stage.sql(look.replace("'shop'", "'{db}'"))
    documented = re.fullmatch(r"UNDROP TABLE shop\.(\S+) UUID '([0-9a-f-]{36})'\s*", undrop)
    assert documented
    room.stage.sql(undrop.replace("shop.", "{db}.").replace(documented[1], table).replace(documented[2], str(uuid)))
    assert ends_as(room.load()) == "publishes"
    room.stage.settled()


@pytest.mark.contract("D1", "O5")
def test_every_code_of_a_replay_says_whether_a_retry_helps() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## By error code")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(DPONE_[A-Z_]+)` \|[^|]*\| (yes|no) \|", section, re.MULTILINE))
    known = {
        code: "yes" if info.retryable else "no"
        for code, info in CATALOGUE.items()
        if re.search("_REPLAY_|_RECEIPT_", code) and info.boundary != "authoring"
    }
    assert told == known


@pytest.mark.contract("D1")
def test_every_phase_and_every_reason_of_the_reader_is_in_the_runbook() -> None:
    from dpone_provider.reader.messages import DRIFT_REASONS, INVALID_REASONS, UNAVAILABLE_REASONS

    text = PAGE.read_text(encoding="utf-8")
    for phase in PHASES:
        assert re.search(rf"^### {phase}\b", text, re.MULTILINE), f"there is no section on {phase}"
    section = text.partition("## When the live table cannot be observed")[2].partition("\n## ")[0]
    for reason in (*UNAVAILABLE_REASONS, *DRIFT_REASONS, *INVALID_REASONS):
        assert f"`{reason}`" in section, f"recovery.md does not explain {reason}"
    assert f"**{BUDGET_SECONDS:.0f} seconds**" in section
