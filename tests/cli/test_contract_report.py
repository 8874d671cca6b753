"""The plugin that says which contract rows a test run holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract_report import read_titles

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest

@pytest.mark.contract("M1", "M2")
def test_good(): pass

@pytest.mark.contract("M2")
def test_bad(): assert False

@pytest.mark.contract("M3")
@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.contract("M5")
@pytest.mark.xfail
def test_expected_to_fail(): assert False

@pytest.fixture
def broken_end():
    yield
    raise RuntimeError

@pytest.mark.contract("M6")
def test_good_that_ends_badly(broken_end): pass

@pytest.mark.contract("A1")
class TestMany:
    @pytest.mark.contract("A2")
    def test_inside(self): pass
"""


def run(folder: Path, suite: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a suite of its own, with the plugin."""
    (folder / "test_it.py").write_text(suite, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.contract_report",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
    ]
    where = [f"--rootdir={folder}", "-c", "/dev/null", str(folder), *options]
    return subprocess.run([*command, *where], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_row_is_covered_when_a_test_passed_and_none_failed(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, SUITE, "--contract-report", *options)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("covered:", "missing:"))]
    missing = [row for row in read_titles() if row not in ("M1", "A1", "A2")]
    assert lines == ["covered: M1 A1 A2", "missing: " + " ".join(missing)]


@pytest.mark.parametrize("options", [(), ("-n", "2")])
@pytest.mark.parametrize(("marker", "told"), [('"M99"', "unknown row 'M99'"), ("", "no row")])
def test_a_marker_that_names_no_known_row_is_an_error(
    tmp_path: Path, marker: str, told: str, options: tuple[str, ...]
) -> None:
    suite = f"import pytest\n\n@pytest.mark.contract({marker})\ndef test_it(): pass\n"
    done = run(tmp_path, suite, *options)
    assert done.returncode not in (0, 5)
    assert told in done.stdout + done.stderr


def test_nothing_is_printed_unless_asked(tmp_path: Path) -> None:
    assert "covered:" not in run(tmp_path, SUITE).stdout


def test_every_row_has_a_short_title() -> None:
    titles = read_titles()
    assert len(titles) == 110
    assert all(0 < len(title) <= 80 for title in titles.values())
