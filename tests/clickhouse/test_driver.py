"""The native driver is imported without what it would build at its import."""

from __future__ import annotations

import subprocess
import sys

ASKED = """
import os
before = dict(os.environ)
from dpone_provider.clickhouse.driver import Client
from clickhouse_driver.columns import datecolumn
assert not datecolumn.DateColumn.date_lut, "a table of days was built"
assert dict(os.environ) == before, "what the driver was told is left in the environment"
"""


def test_the_drivers_table_of_days_is_not_built_and_the_environment_stays() -> None:
    subprocess.run([sys.executable, "-c", ASKED], check=True)
