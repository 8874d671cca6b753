"""Pytest plugin of the study: what needs no server is asked first. mutmut itself gives the tests in any order."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    items.sort(key=lambda item: ("sandbox" in item.fixturenames, item.nodeid))
