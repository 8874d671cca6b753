"""Plugins of the whole test suite."""

pytest_plugins = ["tests.contract_report", "tests.sandbox_fixture"]
