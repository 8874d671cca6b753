"""The crash study of two replicas on paper: what each study measured, and the table of them all (D2).

``python -m tests.replicas.matrix`` makes the summary out of what was measured, and the table of ``docs/operating.md``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.crash.wire import MODES
from tests.replicas.cases import Ending

FOLDER = Path("test_artifacts/declarative-replay-quality")
PAGE = Path("docs/operating.md")
BEGIN, END = "<!-- crash study of two replicas: begin -->\n", "<!-- crash study of two replicas: end -->\n"
ROOMS = ("replay", "load", "clickhouse", "runtime")
ROUTES: dict[str, dict[str, bool]] = {
    "exchange": {},
    "first publication": {"first": True},
    "exchange and observation": {"target": True},
}
ENDINGS: tuple[Ending, ...] = ("retry", "successor")
STUDIES = [(route, mode, ending) for route in ROUTES for mode in MODES for ending in ENDINGS]
CRASHES: dict[str, str] = {
    "before_send": "dies before it sends",
    "sent_not_applied": "statement lost",
    "applied_not_acknowledged": "answer lost",
    "after_acknowledged": "dies after the answer",
}


def path_of(route: str, mode: str, ending: str) -> Path:
    return FOLDER / f"replicas-{route}-{mode}-{ending}.json".replace(" ", "-")


def code() -> str:
    """A digest of the code that the study is about."""
    digest = hashlib.sha256()
    for path in sorted(path for room in ROOMS for path in Path("dpone_provider", room).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def keep(told: Mapping[str, Any], cases: list[dict[str, Any]]) -> None:
    """Write down what a study has measured so far."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    document = {"replicas": 2, "data_replication": "UNVERIFIED", **told, "code": code(), "at": at, "cases": cases}
    path = path_of(told["route"], told["mode"], told["ending"])
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measured() -> Iterator[dict[str, Any]]:
    """One row a study, in their order; without numbers for one that was not run to its end."""
    for route, mode, ending in STUDIES:
        row: dict[str, Any] = {"route": route, "crash": mode, "then": ending}
        path = path_of(route, mode, ending)
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": [], "points": -1}
        cases = found["cases"]
        if len(cases) == found["points"]:
            attempts = [len(case.get("results", ())) for case in cases]
            row |= {"cases": len(cases), "most_attempts": max(attempts), "code": found["code"], "at": found["at"]}
            row["machine_stood_still"] = sum("machine_stood_still_seconds" in case for case in cases)
            row["switched_twice"] = sum(max(case.get("switches", {"": 0}).values(), default=0) > 1 for case in cases)
            row["violations"] = sum("violation" in case for case in cases)
        yield row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| load | effect | then | cases | attempts, at most | violations |", "|---|---|---|---|---|---|"]
    for row in rows:
        numbers = [str(row.get(name, "not run")) for name in ("cases", "most_attempts", "violations")]
        lines.append(f"| {row['route']} | {CRASHES[row['crash']]} | {row['then']} | {' | '.join(numbers)} |")
    total = [sum(row.get(name, 0) for row in rows) for name in ("cases", "violations")]
    lines.append(f"| all | | | **{total[0]}** | | **{total[1]}** |")
    days = sorted({row["at"][:10] for row in rows if "at" in row})
    return "\n".join(lines) + f"\n\nMeasured {' to '.join(dict.fromkeys((days[0], days[-1])))}.\n" if days else ""


def main() -> None:
    rows = list(measured())
    summary = {"replicas": 2, "data_replication": "UNVERIFIED", "studies": rows}
    summary["cases"] = sum(row.get("cases", 0) for row in rows)
    summary["violations"] = sum(row.get("violations", 0) for row in rows)
    (FOLDER / "replicas-summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{tail}", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
