"""The table of scenarios in docs/airflow.md: a row a scenario, written by the runs that it tells of."""

from __future__ import annotations

import json
import os

import attrs

from tests.airflow.deployment import Scene
from tests.airflow.home import ROOT

PAGE = ROOT / "docs" / "airflow.md"
ARTIFACT = ROOT / "test_artifacts" / "airflow" / "scenarios.json"
BEGIN, END = "<!-- scenarios -->", "<!-- /scenarios -->"
HEAD = (
    "| what happens | tries | source reads | inserts | publications | the table and its proof in the end |\n"
    "|---|---|---|---|---|---|\n"
)


@attrs.frozen
class Row:
    """What came of one scenario."""

    scenario: str
    tries: str
    reads: int
    inserts: int
    publications: int
    truth: str

    def line(self) -> str:
        return "| " + " | ".join(str(value) for value in attrs.astuple(self)) + " |"


def row_of(scenario: str, scene: Scene, tries: list[str]) -> Row:
    """What is true of a scene now, as a row; the server and the authority are asked."""
    record, ids = scene.bench.record(), scene.bench.ids()
    live = scene.bench.live()
    table = "no table" if live is None else "new table" if live == record.generation else "old table"
    rows = f", {len(ids)} rows" if live is not None else ""
    return Row(
        scenario, ", ".join(tries), scene.reads, scene.inserts, scene.publications, f"{table}{rows}; {record.phase}"
    )


def told() -> list[str]:
    """The lines of the table in the page."""
    text = PAGE.read_text(encoding="utf-8")
    between = text[text.index(BEGIN) : text.index(END)]
    return [line for line in between.splitlines() if line.startswith("| ") and not line.startswith("| what")]


def check(row: Row) -> None:
    """The page says exactly this of the scenario. ``DPONE_WRITE_DOCS=1`` makes it say so."""
    _keep(row)
    if os.environ.get("DPONE_WRITE_DOCS"):
        _write(row)
    assert row.line() in told()


def _keep(row: Row) -> None:
    ARTIFACT.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(ARTIFACT.read_text()) if ARTIFACT.exists() else {}
    kept[row.scenario] = attrs.asdict(row)
    ARTIFACT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _write(row: Row) -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in told() if not line.startswith(f"| {row.scenario} |")]
    body = "\n".join([*lines, row.line()])
    PAGE.write_text(text[: text.index(BEGIN)] + f"{BEGIN}\n{HEAD}{body}\n" + text[text.index(END) :], encoding="utf-8")
