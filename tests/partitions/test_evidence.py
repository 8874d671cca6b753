"""Evidence that cannot be written: it ends the load, and changes nothing that is committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.wire import DirectWire, Effect, StatementFailed
from tests.partitions.bench import SINK, Parts
from tests.paths.bench import Appending

T = TypeVar("T")
ACCEPTANCE = {"enabled": True, "mode": "required", "capture": {"source": True, "staged": False, "target": True}}


class Lost(DirectWire):
    """Fails one step of evidence, and all after it; its answer is lost, or it was never applied."""

    def __init__(self, at: int = -1) -> None:
        super().__init__()
        self._at = at

    def send(self, effect: Effect, call: Callable[[], T]) -> T:
        if effect.kind == "load_step" and 0 <= self._at <= self.counts["load_step"]:
            self.counts["load_step"] += 1
            raise StatementFailed(None)
        return super().send(effect, call)


@pytest.mark.contract("N5", "N7", "X7")
@pytest.mark.parametrize("mode", ["full_refresh", "partition_replace"])
def test_evidence_failure_after_commit_cannot_make_committed_failed(bench: Parts, mode: str) -> None:
    Appending(sandbox=bench.sandbox, database=bench.database, folder=bench.folder).provision()
    spec, recorder = bench.spec(mode, acceptance=ACCEPTANCE), Lost()
    bench.run("recorded", spec=spec, wire=recorder)
    seen = set()
    for at in range(recorder.counts["load_step"]):
        bench.ask(f"TRUNCATE TABLE {bench.database}.t")
        run_id = f"r{at}"
        with pytest.raises(DponeError) as caught:
            bench.run(run_id, spec=spec, wire=Lost(at))
        error = caught.value
        assert (error.code, error.retryable) == ("DPONE_LOAD_STEP_UNCERTAIN", True)
        live = bool(bench.ids())
        seen.add(live)
        states = _states(bench, run_id)
        assert set(states.values()) == ({"committed"} if live else {"loaded"}), f"step {at}"
        again = Lost()
        outcome = bench.run(run_id, spec=spec, wire=again)
        assert bench.ids() == list(range(40))
        assert outcome.replayed is live
        assert not live or not [kind for kind in SINK if again.counts[kind]], "the retry touched the sink"
    assert seen == {False, True}


def _states(bench: Parts, run_id: str) -> dict[str, str]:
    """The latest state of each partition of a run."""
    for folder in (bench.folder / ".dpone" / "transfers").iterdir():
        failure = folder / "failure.json"
        if failure.exists() and json.loads(failure.read_text())["run_id"] == run_id:
            lines = map(json.loads, (folder / "checkpoints.jsonl").read_text().splitlines())
            return {line["partition_id"]: line["state"] for line in lines}
    raise LookupError(run_id)
