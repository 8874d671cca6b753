"""What starting the command costs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

ROOT = Path(__file__).parents[2]


@pytest.mark.contract("O5")
def test_check_takes_less_than_three_tenths_of_a_second(paper: Desk) -> None:
    command = [sys.executable, "-m", "dpone_provider.cli.main", "check", paper.manifest]
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.3, seconds  # CPU seconds: other tests share the machine
