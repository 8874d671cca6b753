"""Pytest plugin: which contract rows do the tests of this run hold?

``@pytest.mark.contract("M3", ...)`` claims rows of ``contract.toml``; ``--contract-report`` prints a line ``covered:``
and a line ``missing:``. A row is covered when at least one test that claims it passed and none failed, and it is not
among the ``open`` rows, of which tests hold parts only (a third line names those parts). Works under pytest-xdist: the
rows travel with the reports. A marker without rows, or with an unknown one, is an error.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

TITLES = Path(__file__).with_name("contract.toml")
_PROPERTY = "contract"


def read_titles(path: Path = TITLES) -> dict[str, str]:
    """Every row's short title by its id, in the file's order."""
    rooms = tomllib.loads(path.read_text(encoding="utf-8"))
    return {row: title for room in rooms.values() if isinstance(room, dict) for row, title in room.items()}


def read_open(path: Path = TITLES) -> frozenset[str]:
    """The rows that are not promised yet."""
    return frozenset(tomllib.loads(path.read_text(encoding="utf-8"))["open"])


class ContractReport:
    """Follows the test reports of a run."""

    def __init__(self, titles: dict[str, str], not_yet: frozenset[str]) -> None:
        self._titles = titles
        self._open = not_yet
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Attach each test's rows to its reports, which travel to the process that reports."""
        for item in items:
            rows = [row for marker in item.iter_markers("contract") for row in marker.args]
            item.user_properties += [(_PROPERTY, row) for row in rows]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A marker that names no row of the contract is an error of its test."""
        for marker in item.iter_markers("contract"):
            unknown = [row for row in marker.args if row not in self._titles]
            if unknown or marker.kwargs or not marker.args:
                what = f"unknown row {unknown[0]!r}" if unknown else "no row"
                pytest.fail(f"contract marker: {what}", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        rows = {row for name, row in report.user_properties if name == _PROPERTY}
        if report.failed:
            self._failed |= rows
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed |= rows

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the lines."""
        if not config.getoption("contract_report"):
            return
        held = [row for row in self._titles if row in self._passed - self._failed]
        covered = [row for row in held if row not in self._open]
        missing = [row for row in self._titles if row not in covered]
        terminalreporter.section("contract")
        terminalreporter.write_line("covered: " + " ".join(covered))
        terminalreporter.write_line("missing: " + " ".join(missing))
        terminalreporter.write_line("in part: " + " ".join(row for row in held if row in self._open))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--contract-report``."""
    parser.addoption(
        "--contract-report", action="store_true", help="print which contract rows the run's tests hold, and which not"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the follower."""
    config.addinivalue_line("markers", "contract(*rows): the contract rows that this test holds")
    config.pluginmanager.register(ContractReport(read_titles(), read_open()), "contract-report")
