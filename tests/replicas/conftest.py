"""A target table on two servers for every test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.scenarios.stage", "tests.replicas.stage", "tests.replicas.cases")

from tests.replicas.bench import PairBench  # noqa: E402
from tests.replicas.stage import PairStage  # noqa: E402 - its assertions are rewritten
from tests.sandbox_fixture import SandboxPair, ask  # noqa: E402


@pytest.fixture
def bench(sandbox_pair: SandboxPair, tmp_path: Path) -> Iterator[PairBench]:
    """An empty target with its authority, dropped after the test."""
    with target_of(sandbox_pair, tmp_path) as made:
        yield made


@contextmanager
def target_of(pair: SandboxPair, folder: Path, cluster: str = "main") -> Iterator[PairBench]:
    """The same on any servers."""
    name = f"t_{secrets.token_hex(6)}"
    for server in pair.servers:
        ask(server, f"CREATE DATABASE {name} ENGINE = Atomic")
    made = PairBench(sandbox=pair.first, database=name, folder=folder, pair=pair, cluster=cluster)
    made.provision()
    try:
        yield made
    finally:
        for server in reversed(pair.servers):
            ask(server, f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.fixture
def stage(bench: PairBench) -> PairStage:
    return PairStage(bench)
