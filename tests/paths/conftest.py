"""A fresh live table for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox

pytest.register_assert_rewrite("tests.paths.bench")

from tests.paths.bench import Appending  # noqa: E402 - its assertions are rewritten


@pytest.fixture
def bench(sandbox: RunningSandbox, database: str, tmp_path: Path) -> Appending:
    """A live table with nothing in it, a source of five rows, the tables of steps and marks."""
    made = Appending(sandbox=sandbox, database=database, folder=tmp_path)
    made.create()
    made.provision()
    made.write(1)
    return made
