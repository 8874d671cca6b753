"""A fresh stage for every scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench

pytest.register_assert_rewrite("tests.scenarios.stage")

from tests.scenarios.stage import Stage  # noqa: E402 - its assertions are rewritten


@pytest.fixture
def stage(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Stage:
    """An empty target with its authority."""
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    return Stage(bench)
