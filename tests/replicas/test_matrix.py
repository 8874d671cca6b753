"""The table of the crash study says what was measured, and nothing else (D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.replicas import matrix

TOLD = {"route": "exchange", "mode": "before_send", "ending": "retry", "points": 2}
CASE: dict[str, Any] = {"results": ["later: died", "later: success"], "switches": {"later ch-1": 1}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(matrix, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.contract("D2")
def test_cases_attempts_and_violations_are_counted(folder: Path) -> None:
    matrix.keep(TOLD, [CASE, {"at": 1, "violation": "a replica was switched twice by one operation"}])
    row = next(matrix.measured())
    assert (row["cases"], row["most_attempts"], row["violations"]) == (2, 2, 1)
    assert "| exchange | dies before it sends | retry | 2 | 2 | 1 |" in matrix.table(list(matrix.measured()))
    assert "| all | | | **2** | | **1** |" in matrix.table(list(matrix.measured()))


@pytest.mark.contract("D2", "D3")
def test_a_study_that_was_not_run_to_its_end_has_no_numbers(folder: Path) -> None:
    matrix.keep(TOLD, [CASE])
    rows = list(matrix.measured())
    assert len(rows) == len(matrix.STUDIES)
    assert not any("cases" in row for row in rows)
    text = next(folder.glob("replicas-*.json")).read_text(encoding="utf-8")
    assert '"data_replication": "UNVERIFIED"' in text


@pytest.mark.contract("D2")
def test_the_page_has_a_row_for_every_study() -> None:
    page = matrix.PAGE.read_text(encoding="utf-8")
    shown = page.partition(matrix.BEGIN)[2].partition(matrix.END)[0]
    for route, crash, then in matrix.STUDIES:
        assert f"| {route} | {matrix.CRASHES[crash]} | {then} |" in shown
