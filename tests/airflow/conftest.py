from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_provider.sandbox.process import RunningSandbox
from tests.airflow.examples import Examples
from tests.airflow.home import Home
from tests.airflow.warm import WarmAirflow, warm_airflow
from tests.airflow.watched import Watched
from tests.loads import Bench
from tests.wirelab import TcpProxy


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One migrated Airflow home for the test session."""
    home = Home(folder=tmp_path_factory.mktemp("airflow"))
    home.migrate()
    return home


@pytest.fixture
def examples(sandbox: RunningSandbox, database: str, tmp_path: Path, airflow_home: Home) -> Examples:
    """The examples, with a database of their own that holds an authority."""
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    return Examples(home=airflow_home, bench=bench)


@pytest.fixture(scope="session")
def warm(airflow_home: Home) -> Iterator[WarmAirflow]:
    """One interpreter for the test session that has imported Airflow."""
    with warm_airflow(airflow_home) as running:
        yield running


@pytest.fixture
def watched(sandbox: RunningSandbox, database: str, tmp_path: Path, warm: WarmAirflow) -> Iterator[Watched]:
    """A load that observes its target, its source written, its authority there."""
    bench = Bench(sandbox=sandbox, database=database, folder=tmp_path)
    bench.provision()
    bench.write(1)
    with TcpProxy(sandbox.tcp_port) as native, TcpProxy(sandbox.http_port) as http:
        yield Watched(airflow=warm, bench=bench, native=native, http=http)
