"""Plugins of the whole test suite, and the rule that CI skips nothing."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# Of the mutation study: the same few examples for every mutant, however slow the machine.
settings.register_profile("mutants", derandomize=True, max_examples=25, deadline=None, database=None)

pytest_plugins = ["tests.contract_report", "tests.postgres_fixture", "tests.sandbox_fixture"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With DPONE_REQUIRE_EVERYTHING set, a test that skips has failed: what it needs could have been installed.

    A reason that starts with UNVERIFIED is of what no package brings, another Python version say; it stays a skip. So
    does what an Airflow that is installed has not.
    """
    report = yield
    accepted = ("Skipped: UNVERIFIED", "Skipped: Airflow 2.11 has no", "Skipped: Airflow 3 has no")
    installable = report.skipped and not any(reason in str(report.longrepr) for reason in accepted)
    if installable and os.environ.get("DPONE_REQUIRE_EVERYTHING"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
