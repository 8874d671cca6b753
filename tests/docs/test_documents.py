"""The documents agree with the code: generated pages, manifests, links, and that nothing is left out (D1, O6)."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from docs import generate
from dpone_provider.cli.arguments import NAMESPACE_VARIABLE
from dpone_provider.cli.main import COMMANDS
from dpone_provider.clickhouse.endpoint import _FIELDS as KNOWN_EXTRAS
from dpone_provider.errors import CATALOGUE
from dpone_provider.manifest.read import check_text
from dpone_provider.manifest.sources import OPTIONS
from dpone_provider.manifest.spec import LoadSpec
from dpone_provider.provider_info import get_provider_info
from dpone_provider.quality.acceptance_policy import ACCEPTANCE_MODES, COLUMN_WORDS
from dpone_provider.quality.gate_spec import GATE_FIELDS, GATE_TYPES
from dpone_provider.replay.record import PHASES
from dpone_provider.runtime.connections import StaticConnections
from dpone_provider.sources.sql.endpoint import PostgresEndpoint
from tests.docs.markdown import DOCS, ROOT, Block, blocks, documents, name_of
from tests.docs.shell import write_files

_BASE = {
    "source": "source: {type: file, format: csv, path: a.csv}",
    "sink": "sink: {type: clickhouse, connection_ref: wh, table: {schema: shop, name: orders}}",
}
_LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
# Codes that end before a load exists, or belong to the sandbox: errors.md has them.
_NO_LOAD = ("DPONE_SANDBOX_", "DPONE_DEMO_")


def whole(block: Block) -> str:
    """The block as a manifest: a part of a process is completed by plain parts."""
    if re.match(r"(#.*\n)*kind:", block.text):
        return block.text
    missing = [part for key, part in _BASE.items() if not re.search(rf"^{key}:", block.text, re.MULTILINE)]
    inside = textwrap.indent("\n".join((block.text.rstrip(), *missing)), "  ")
    return f"kind: dpone.batch.v1\ndefaults:\n{inside}\nschemas:\n  s: {{tables: [orders]}}\n"


MANIFESTS = [
    pytest.param(document, block, id=f"{name_of(document)}:{block.line}")
    for document in documents()
    for block in blocks(document)
    if block.language == "yaml"
]


@pytest.mark.contract("D1")
@pytest.mark.parametrize(("document", "block"), MANIFESTS)
def test_a_manifest_in_a_document_is_read_as_the_document_says(document: Path, block: Block, tmp_path: Path) -> None:
    write_files(blocks(document), tmp_path)  # a flow reads its fragments
    result = check_text(whole(block), block.file or "docs.yaml", base=str(tmp_path))
    expected = [block.refused] if block.refused else []
    assert [problem.code for problem in result.problems] == expected
    assert expected or result.processes or result.part


def test_the_whole_example_has_the_processes_that_the_reference_names() -> None:
    example = next(block for block in blocks(DOCS / "manifest.md") if block.language == "yaml")
    found: dict[str, LoadSpec] = {spec.selector: spec for spec in check_text(example.text, "m.yaml").processes}
    assert {selector: spec.process for selector, spec in found.items()} == {
        "erp.customers": "nightly_erp_customers",
        "erp.orders": "nightly_erp_orders",
    }
    assert [spec.sink.table.name for spec in found.values()] == ["customers", "orders"]
    assert found["erp.orders"].depends_on == ("erp.customers",)


@pytest.mark.contract("D1")
def test_python_in_a_document_compiles() -> None:
    found = [(document, block) for document in documents() for block in blocks(document) if block.language == "python"]
    assert found
    for document, block in found:
        compile(block.text, f"{name_of(document)}:{block.line}", "exec")


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_a_link_between_documents_leads_somewhere(document: Path) -> None:
    for path, anchor in _LINK.findall(document.read_text(encoding="utf-8")):
        target = document.parent / path if path else document
        assert target.exists(), f"{path} does not exist"
        assert not anchor or anchor in _anchors(target), f"{path}#{anchor}: there is no such heading"


@pytest.mark.contract("D1")
def test_the_reference_names_every_option_gate_and_word() -> None:
    text = (DOCS / "manifest.md").read_text(encoding="utf-8")
    options = {name for options in OPTIONS.values() for name in options}
    for word in (*options, *OPTIONS, *GATE_TYPES, *GATE_FIELDS, *ACCEPTANCE_MODES, *COLUMN_WORDS):
        assert f"`{word}`" in text, f"manifest.md does not explain {word}"


@pytest.mark.contract("D1")
def test_the_operating_guide_names_every_phase_and_every_code_of_a_load() -> None:
    text = (DOCS / "operating.md").read_text(encoding="utf-8")
    codes = [code for code, info in CATALOGUE.items() if info.boundary != "authoring" and not code.startswith(_NO_LOAD)]
    for word in (*PHASES, *codes):
        assert f"`{word}`" in text, f"operating.md does not say what to do about {word}"


@pytest.mark.contract("D1", "O6")
def test_the_generated_pages_are_what_the_code_would_write(tmp_path: Path) -> None:
    assert generate.stale() == []
    for name in generate.PAGES:
        (tmp_path / name).write_text("old\n", encoding="utf-8")
    assert generate.stale(tmp_path) == list(generate.PAGES)


@pytest.mark.contract("O6")
def test_the_command_line_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = set()
    for columns in ("40", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("FORCE_COLOR", "1")
        pages.add(generate.cli_page())
    assert len(pages) == 1
    page = pages.pop()
    for command in COMMANDS:
        assert f"## dpone {command}\n" in page
    assert "\x1b" not in page


@pytest.mark.contract("O6")
def test_the_help_tells_what_a_missing_run_id_means() -> None:
    page = " ".join(generate.cli_page().split())
    assert "the DAG run's id (default: a fresh manual-<uuid4 hex>, which is printed)" in page
    assert "the DAG run's id (default: none: whatever operation holds the slot)" in page


def test_check_exits_with_1_exactly_when_a_page_is_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    monkeypatch.setattr(generate, "stale", lambda: [n for n in generate.PAGES if not (tmp_path / n).exists()])
    assert generate.main(["--check"]) == 1
    assert "docs/cli.md is out of date" in capsys.readouterr().err
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == generate.cli_page()


def test_the_generator_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.contract("D1")
def test_the_connection_on_the_configuration_page_is_one() -> None:
    command = next(block.text for block in blocks(DOCS / "configuration.md") if "AIRFLOW_CONN_" in block.text)
    name, _, value = shlex.split(command)[1].partition("=")
    endpoint = StaticConnections(environ={name: value}).endpoint("warehouse")
    assert (endpoint.host, endpoint.native_port, endpoint.http_port) == ("clickhouse.example.com", 9000, 8123)


@pytest.mark.contract("D1")
def test_the_connection_of_a_sql_source_in_the_reference_is_one() -> None:
    command = next(block.text for block in blocks(DOCS / "manifest.md") if "AIRFLOW_CONN_ERP" in block.text)
    name, _, value = shlex.split(command)[1].partition("=")
    endpoint = StaticConnections(environ={name: value}).sql_endpoint("erp")
    assert isinstance(endpoint, PostgresEndpoint)
    assert (endpoint.parameters["host"], endpoint.parameters["dbname"]) == ("db.example.com", "erp")


@pytest.mark.contract("D1")
def test_the_configuration_page_names_every_field_of_a_connection_and_every_option() -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    options = get_provider_info()["config"]["dpone"]["options"]
    for name in (*KNOWN_EXTRAS, *options, "host", "port", "schema", "login", "password", NAMESPACE_VARIABLE):
        assert f"`{name}`" in text, f"configuration.md does not explain {name}"


def test_what_is_not_verified_live_is_labelled() -> None:
    text = (DOCS / "operating.md").read_text(encoding="utf-8")
    section = text.partition("## What is UNVERIFIED")[2].partition("\n## ")[0]
    for what in ("TLS", "replica", "2.11", "macOS", "Kubernetes"):
        assert re.search(rf"^- .*{what}", section, re.MULTILINE), f"{what} is not labelled"
