"""What a check costs, from process start."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = Path(__file__).parent / "data" / "good" / "file_full.yaml"
CHECK = f"from dpone_provider.manifest.read import check_file; assert check_file({str(GOOD)!r}).passed"


@pytest.mark.contract("O5")
def test_a_check_takes_a_fraction_of_its_budget_of_300_ms() -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", CHECK], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.25  # CPU seconds: other tests share the machine


def test_a_check_imports_no_driver_no_airflow_and_nothing_heavy() -> None:
    heavy = (
        "('airflow', 'pyarrow', 'clickhouse_driver', 'clickhouse_connect', 'cattrs', 'rich', 'socket', 'subprocess')"
    )
    script = f"{CHECK}; import sys; assert not [name for name in {heavy} if name in sys.modules]"
    subprocess.run([sys.executable, "-c", script], check=True)
