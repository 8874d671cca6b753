"""The policy that changes while a load runs: whenever that is, it is no success, and before the mutation no mutation.

(Q6). The configuration loses its gates right after one effect; every effect of a recorded load is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from dpone_provider.errors import DponeError
from dpone_provider.manifest.load_config import LoadConfigBuilder
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.sandbox.process import RunningSandbox
from dpone_provider.wire import Wire
from tests.loads import Bench
from tests.paths.bench import Appending, acceptance
from tests.paths.wires import Beside, On

SWITCHES = {"exchange", "publish_first"}


def configured(spec: LoadSpec) -> dict[str, Any]:
    """The mapping of a load, which its owner may change."""
    return LoadConfigBuilder(spec).build()


def loses_its_gates(config: dict[str, Any]) -> Callable[[], None]:
    def drift() -> None:
        config["quality"]["gates"] = []

    return drift


@attrs.frozen
class Staged:
    """A staged load of a bench with a table that is live already."""

    bench: Bench
    spec: LoadSpec

    def run(self, run_id: str, config: dict[str, Any], wire: Wire) -> None:
        from dpone_provider.runtime.compose import Surroundings
        from dpone_provider.runtime.run import run_load
        from tests.loads import OneEndpoint, endpoint_of

        where = OneEndpoint(where=endpoint_of(self.bench.sandbox))
        run_load(self.spec, self.bench.identity(run_id), where, Surroundings(wire=wire), load_config=config)


@pytest.fixture(params=[True, False], ids=["durable", "plain"])
def staged(request: pytest.FixtureRequest, sandbox: RunningSandbox, database: str, tmp_path: Path) -> Staged:
    made = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    made.provision()
    made.write(1)
    made.run("earlier", spec=made.spec(durable=request.param))
    made.write(11)
    return Staged(made, made.spec(durable=request.param, target=not request.param))


@pytest.mark.contract("Q6")
@pytest.mark.parametrize(
    "staged", [pytest.param(True, marks=pytest.mark.slow), False], ids=["durable", "plain"], indirect=True
)
def test_drift_after_any_effect_of_a_staged_load_is_no_success_and_before_the_switch_no_switch(staged: Staged) -> None:
    recorded = Beside(at=-1)
    config = configured(staged.spec)
    staged.run("recorded", config, recorded)
    for at in range(len(recorded.effects)):
        config = configured(staged.spec)
        wire = Beside(at=at, after=loses_its_gates(config))
        live = staged.bench.live()
        with pytest.raises(DponeError) as raised:
            staged.run(f"drift{at}", config, wire)
        assert raised.value.code == "DPONE_QUALITY_POLICY_DRIFT", f"after effect {at}, {wire.effects[at]}"
        switched = SWITCHES.intersection(wire.kinds)
        assert bool(switched) is (staged.bench.live() != live)
        if switched:
            assert (raised.value.boundary, raised.value.target_commit) == ("post_commit", "proven")
        else:
            assert (raised.value.boundary, raised.value.target_commit) == ("pre_commit", "not_started")
        late = SWITCHES.intersection(wire.changed_since(at))
        assert not late or wire.effects[at].what == "move the slot to DISPATCHING", f"after {wire.effects[at]}"
        staged.run(f"drift{at}", configured(staged.spec), Beside(at=-1))  # leave the slot to the next case


@pytest.mark.contract("Q6")
def test_drift_before_the_staging_reads_no_source_and_makes_no_table(staged: Staged) -> None:
    config = configured(staged.spec)
    wire = On("catalog_read", loses_its_gates(config), after=True)
    with pytest.raises(DponeError):
        staged.run("drift", config, wire)
    assert not {"source_open", "create_table", "insert", *SWITCHES}.intersection(wire.kinds)


@pytest.mark.contract("Q6", "P7")
@pytest.mark.parametrize("staged", [True], ids=["durable"], indirect=True)
def test_what_drift_stopped_after_the_commit_is_finished_without_the_source(staged: Staged) -> None:
    config = configured(staged.spec)
    with pytest.raises(DponeError) as raised:
        staged.run("r", config, On("exchange", loses_its_gates(config), after=True))
    assert raised.value.target_commit == "proven"
    again = On("source_open", lambda: None)
    staged.run("r", configured(staged.spec), again)
    assert not {"source_open", "insert", "create_table", *SWITCHES}.intersection(again.kinds)


@pytest.mark.contract("Q6", "X7")
def test_drift_after_any_effect_of_an_append_is_no_success_until_the_mark_is_moved(bench: Appending) -> None:
    spec = bench.spec(acceptance=acceptance(), cursor="id", post_sql=("SELECT 1",))
    recorded = Beside(at=-1)
    bench.run(spec=spec, wire=recorded)
    mark, moved = bench.mark(spec), recorded.kinds.index("source_state")
    assert mark is not None
    for at in range(moved):
        bench.write(100 * (at + 1))
        before, config = bench.ids(), configured(spec)
        wire = Beside(at=at, after=loses_its_gates(config))
        error = bench.refused("DPONE_QUALITY_POLICY_DRIFT", spec=spec, load_config=config, wire=wire)
        added = bench.ids() != before
        assert added is ("append" in wire.kinds)
        assert added is (at >= recorded.kinds.index("append")), f"after effect {at}, {wire.effects[at]}"
        assert error.boundary == ("post_commit" if added else "pre_commit")
        assert error.target_commit == ("proven" if added else "not_started")
        assert bench.mark(spec) == mark, "the mark moved without its receipt"
        classified = error.context["failure_context"]["retry_classification"]
        assert classified == ("retry_may_repeat_target_mutation" if added else "retry_before_target_mutation")


@pytest.mark.contract("Q6", "X1")
@pytest.mark.parametrize("quality", [{}, {"gates": "none"}, {"gates": [], "more": 1}, None, []])
def test_a_configuration_that_becomes_malformed_is_another_policy(bench: Appending, quality: Any) -> None:
    config = configured(bench.spec())

    def spoil() -> None:
        config["quality"] = quality

    wire = On("source_open", spoil)
    bench.refused("DPONE_QUALITY_POLICY_DRIFT", spec=bench.spec(), load_config=config, wire=wire)
    assert "append" not in wire.kinds


@pytest.mark.contract("Q6")
def test_a_configuration_of_another_policy_than_the_spec_is_refused_before_anything(bench: Appending) -> None:
    wire = On("append", lambda: None)
    config = configured(bench.spec(gates=[]))
    bench.refused("DPONE_QUALITY_POLICY_DRIFT", spec=bench.spec(), load_config=config, wire=wire)
    assert wire.effects == []
