"""The native driver, imported without the table of every day from 1900 to 2299 that it would build first (0.1 s)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LAZY: Final = "CLICKHOUSE_DRIVER_LASY_DATE_LUT"  # as the driver spells it


@contextmanager
def _lazily() -> Iterator[None]:
    """The driver looks into the environment; nobody else is to find anything there."""
    ours = _LAZY not in os.environ  # else somebody has decided
    os.environ.setdefault(_LAZY, "on")
    try:
        yield
    finally:
        if ours:
            del os.environ[_LAZY]


with _lazily():
    from clickhouse_driver import Client, errors
    from clickhouse_driver.result import QueryInfo

__all__ = ["Client", "QueryInfo", "errors"]
