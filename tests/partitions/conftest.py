"""A fresh source and target for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox

pytest.register_assert_rewrite("tests.partitions.bench")

from tests.partitions.bench import Parts  # noqa: E402 - its assertions are rewritten


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Parts:
    """Forty rows in four partitions, and a target with nothing in it."""
    made = Parts(sandbox=sandbox, database=database, folder=tmp_path)
    made.create()
    made.fill(0, 40)
    return made
