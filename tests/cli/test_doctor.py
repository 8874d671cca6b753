"""``dpone doctor``: one answer for each question, a refusal with its remedy, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_provider.runtime import doctor
from tests.cli.conftest import Desk

Sql = Callable[..., list[tuple[Any, ...]]]


def states(desk: Desk) -> dict[str, str]:
    ran = desk.dpone("doctor", desk.manifest, "--connections", desk.connections, "--format", "json")
    document = ran.document
    assert document["passed"] is (ran.code == 0)
    return {finding["question"]: finding["state"] for finding in document["findings"]}


@pytest.mark.contract("O5")
def test_a_target_that_a_load_would_take_is_refused_by_nothing(desk: Desk, sql: Sql) -> None:
    before = sql(f"SELECT name FROM system.tables WHERE database = '{desk.database}'")
    assert set(states(desk).values()) == {"good"}
    assert sql(f"SELECT name FROM system.tables WHERE database = '{desk.database}'") == before


@pytest.mark.contract("O5", "M7")
def test_every_refusal_is_told_at_once_with_what_helps(desk: Desk, sql: Sql) -> None:
    sql(f"DROP TABLE {desk.database}.dpone_replay_authority SYNC")
    sql(f"CREATE TABLE {desk.database}.t (id UInt64) ENGINE = Memory")
    ran = desk.dpone("doctor", desk.manifest, "--connections", desk.connections, "--format", "json")
    refused = [finding for finding in ran.document["findings"] if finding["state"] == "refused"]
    codes = [finding["code"] for finding in refused]
    assert ran.code == 1
    assert codes[:2] == ["DPONE_TARGET_UNSUPPORTED", "DPONE_REPLAY_AUTHORITY_UNSUPPORTED"]
    assert all(finding["remedy"] for finding in refused)
    text = desk.dpone("doctor", desk.manifest, "--connections", desk.connections)
    assert text.code == 1
    assert "engine Memory" in text.out


@pytest.mark.contract("O5")
def test_a_server_that_does_not_answer_leaves_the_rest_unasked(desk: Desk) -> None:
    file = Path(desk.connections)
    text = json.loads(file.read_text())
    text["wh"]["port"] = 1
    file.write_text(json.dumps(text))
    found = states(desk)
    assert found["native port"] == "refused"
    assert found["HTTP port of the connection"] == "good"
    assert found["authority"] == "not asked"


def test_a_driver_that_sends_twice_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "1.9.3")
    assert states(desk)["drivers of this interpreter"] == "refused"
