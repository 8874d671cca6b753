"""The live target of two replicas, observed as part of a load (R7, R9)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.config import SandboxUser, SettingValue
from tests.replicas.bench import PairBench, dialled
from tests.replicas.conftest import target_of
from tests.sandbox_fixture import SandboxPair, servers_on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PASSWORD = secrets.token_urlsafe(24)
POISONS: dict[str, Mapping[str, SettingValue]] = {
    "filter": {"additional_result_filter": "1 = 0"},
    "offset": {"offset": 1},
    "few_rows": {"max_rows_to_read": 3, "read_overflow_mode": "break", "max_block_size": 2},
    "no_row_for_empty": {"empty_result_for_aggregation_by_empty_set": 1},
    "parallel": {"allow_experimental_parallel_reading_from_replicas": 1, "max_parallel_replicas": 3},
}
REFUSED = {"filter", "offset"}
"""Under these not even an insert is possible."""
USERS = tuple(SandboxUser(name=name, password=PASSWORD, settings=settings) for name, settings in POISONS.items())


@pytest.fixture(scope="module")
def poisoned(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxPair]:
    """Two servers with users whose profiles try to change what is counted."""
    with servers_on(zookeeper_address, tmp_path_factory.mktemp("poisoned"), users=USERS) as pair:
        yield pair


@pytest.fixture
def bench(poisoned: SandboxPair, tmp_path: Path) -> Iterator[PairBench]:
    with target_of(poisoned, tmp_path) as made:
        yield made


@pytest.mark.contract("R7", "R9")
@pytest.mark.parametrize("user", sorted(POISONS.keys() - REFUSED))
def test_a_poisoned_profile_changes_no_count_of_any_side(bench: PairBench, user: str) -> None:
    bench.write(100, 7)
    endpoint = dialled(bench.pair, user=user, password=PASSWORD)
    outcome = bench.run("r1", spec=bench.spec(target=True), endpoint=endpoint)
    for side in ("source", "staged", "target"):
        seen = outcome.acceptance[side]
        assert (seen["row_count"], seen["null_counts"], seen["distinct_counts"]) == (7, {"id": 0}, {"id": 7}), side
    assert bench.each() == [list(range(100, 107))] * 2


@pytest.mark.contract("R7")
@pytest.mark.parametrize("user", sorted(REFUSED))
def test_a_profile_that_hides_rows_from_every_query_publishes_nothing(bench: PairBench, user: str) -> None:
    bench.write(100, 7)
    with pytest.raises(DponeError) as caught:
        bench.run("r1", spec=bench.spec(target=True), endpoint=dialled(bench.pair, user=user, password=PASSWORD))
    assert (caught.value.code, caught.value.target_commit) == ("DPONE_STAGING_FAILED", "not_started")
    assert (bench.lives(), bench.leftovers()) == ((None, None), [])


@pytest.mark.contract("R9")
def test_an_empty_load_is_observed_as_real_zeros(bench: PairBench) -> None:
    bench.write(100, 0)
    spec = bench.spec(
        gates=[],
        acceptance={
            "enabled": True,
            "mode": "required",
            "capture": {"source": True, "staged": True, "target": True},
            "checks": {"row_count": True, "null_counts": ["id"], "distinct_counts": ["id"]},
        },
    )
    outcome = bench.run("r1", spec=spec)
    seen = outcome.acceptance["target"]
    assert (seen["row_count"], seen["null_counts"], seen["distinct_counts"]) == (0, {"id": 0}, {"id": 0})
    assert bench.each() == [[], []]
