"""provision, doctor and status of a cluster."""

from __future__ import annotations

import pytest

from tests.replicas.bench import PairBench, dialled, servers
from tests.replicas.shell import Shell
from tests.replicas.stage import PairStage
from tests.sandbox_fixture import FIRST, SECOND, ask
from tests.scenarios.stage import Cue


@pytest.fixture
def shell(bench: PairBench, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(bench, capsys)


@pytest.mark.contract("A7", "O5")
def test_provision_makes_the_authority_on_every_replica_and_keeps_the_attestation(
    shell: Shell, bench: PairBench
) -> None:
    ask(bench.pair.second, f"DROP TABLE {bench.database}.dpone_replay_authority SYNC")
    code, document = shell.dpone("provision", "--apply", "--attestation", "One Keeper: the platform's.")
    assert code == 0
    made = document["authorities"][0]["replicas"]
    assert made == {
        FIRST: {"dpone_replay_authority": "already provisioned"},
        SECOND: {"dpone_replay_authority": "created"},
    }
    comments = [
        ask(one, f"SELECT comment FROM system.tables WHERE database = '{bench.database}'")[0][0]
        for one in servers(bench.pair)
    ]
    assert comments == ["", "One Keeper: the platform's."]
    bench.write(100)
    bench.run("r1")


@pytest.mark.contract("O5")
def test_doctor_asks_every_replica(shell: Shell, bench: PairBench) -> None:
    code, document = shell.dpone("doctor")
    assert code == 0, document
    questions = {finding["question"] for finding in document["findings"]}
    assert {"cluster", f"native port of {FIRST}", f"native port of {SECOND}", f"Keeper through {SECOND}"} <= questions
    ask(bench.pair.second, f"CREATE TABLE {bench.database}.t (id UInt64) ENGINE = MergeTree ORDER BY id")
    code, document = shell.dpone("doctor")
    assert code == 1
    refused = {finding["question"]: finding["found"] for finding in document["findings"] if finding["code"]}
    assert "not plain ReplicatedMergeTree" in refused["database and live table"]


@pytest.mark.contract("O5", "P4")
def test_status_tells_a_partial_publication_and_a_silent_replica(stage: PairStage, shell: Shell) -> None:
    stage.publish()
    stage.attempt("later", Cue("exchange", nth=2, fate="die")).expect("died")
    _, document = shell.dpone("status")
    generation = document["generation"]
    assert generation["live_is"] == "some"
    assert generation["replicas"][FIRST]["live"] == generation["sealed"]
    assert generation["replicas"][SECOND]["live"] == generation["predecessor"][SECOND]
    assert "Some replicas have the new table" in document["next_step"]
    first, _ = dialled(stage.bench.pair).replica_addresses
    shell.connect({FIRST: f"{first[1]}:{first[2]}", SECOND: "127.0.0.1:1"}, stage.bench)
    _, document = shell.dpone("status")
    assert document["generation"]["live_is"] == "unknown"
    assert document["generation"]["replicas"][SECOND] == {"answers": False, "live": None}
    assert SECOND in document["next_step"]
