from __future__ import annotations

import pytest

from tests.airflow.home import Home


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One migrated Airflow home for the test session."""
    home = Home(folder=tmp_path_factory.mktemp("airflow"))
    home.migrate()
    return home
