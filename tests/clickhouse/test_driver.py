"""The native driver is imported without what it would build at its import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SAID = "CLICKHOUSE_DRIVER_LASY_DATE_LUT"
ASKED = f"""
import os
SAID = {SAID!r}
before = dict(os.environ)
from dpone_provider.clickhouse.driver import Client
from clickhouse_driver.columns import datecolumn
assert bool(datecolumn.DateColumn.date_lut) is (os.environ.get(SAID) == ""), "what was said is not what was done"
assert dict(os.environ) == before, "what the driver was told is left in the environment"
"""


@pytest.mark.parametrize("said", [{}, {SAID: ""}, {SAID: "on"}], ids=["nothing", "no", "yes"])
def test_the_drivers_table_of_days_is_built_only_where_it_is_asked_for(said: dict[str, str]) -> None:
    around = {name: value for name, value in os.environ.items() if name != SAID}
    subprocess.run([sys.executable, "-c", ASKED], env=around | said, check=True)
