"""What parsing costs: ``python -m benchmarks.parse [--runs 5]``.

A DAG file of one line, ``load_dpone_dags``, over a folder of 200 and of 1,000 governed manifests: from a bag that has
Airflow imported (as the dag-processor has) to serialized DAGs, the import of dpone inside. Beside it, ``dpone check``
of one manifest and of the 200, as processes of their own. Medians of wall time; CPU seconds beside it. The last line is
all figures as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.startup import MANIFEST

FEW, MANY = 200, 1000
PARSE, CHECK, LINEAR = 1.0, 0.3, 1.25
ADVICE: Final = """\
metadata:
  airflow: {schedule: "0 4 * * *", start_date: 2026-01-01, tags: [dpone], owner: loads, retries: 2, retry_delay: 60}
"""
LOADER: Final = """\
# A DAG file of Airflow.
from dpone_provider.api import load_dpone_dags

load_dpone_dags("manifests", globals())
"""
# Runs in an interpreter of its own; Airflow's imports and what it does once are done before the clock starts, and the
# heap is frozen as the dag-processor freezes it before it forks.
CHILD: Final = """\
import gc, json, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.common.compat.sdk import DAG, Asset, BaseOperator, TaskGroup
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.trigger import CronTriggerTimetable
with DAG("plain", schedule="0 4 * * *") as dag:
    BaseOperator(task_id="plain", outlets=[Asset(uri="clickhouse://a/b/c")])
DagSerialization.to_dict(dag)
DagBag("nothing")
gc.freeze()
wall, cpu = time.perf_counter(), time.process_time()
bag = DagBag(sys.argv[1])
parsed = time.perf_counter()
dags = [DagSerialization.to_dict(dag) for dag in bag.dags.values()]
done, used = time.perf_counter(), time.process_time()
print(json.dumps({"dags": len(dags), "errors": bag.import_errors, "wall": done - wall, "cpu": used - cpu,
                  "serialize": done - parsed}))
"""


def write(folder: Path, number: int) -> Path:
    """A DAG file and its folder of manifests; returns the DAG file."""
    (folder / "manifests").mkdir(parents=True)
    for index in range(number):
        text = MANIFEST.replace("name: t}", f"name: t{index}}}").replace("defaults:", ADVICE + "defaults:", 1)
        (folder / "manifests" / f"load_{index}.dpone.yaml").write_text(text, encoding="utf-8")
    loader = folder / "loads.py"
    loader.write_text(LOADER, encoding="utf-8")
    return loader


def run(arguments: list[str], home: Path) -> tuple[float, str]:
    """Wall seconds and stdout of a child. Raises ``ValueError`` when it fails."""
    path = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    quiet = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    began = time.perf_counter()
    child = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **quiet, "PYTHONPATH": path},
    )  # fmt: skip
    if child.returncode:
        raise ValueError(f"a child failed:\n{child.stdout}{child.stderr}")
    return time.perf_counter() - began, child.stdout


def parsed(loader: Path, number: int, home: Path) -> dict[str, float]:
    """One parse. Raises ``ValueError`` unless every manifest became a DAG."""
    found: dict[str, Any] = json.loads(run(["-c", CHILD, str(loader)], home)[1].splitlines()[-1])
    if found["dags"] != number or found["errors"]:
        raise ValueError(f"{found['dags']} of {number} DAGs: {found['errors']}")
    return {key: float(found[key]) for key in ("wall", "cpu", "serialize")}


def measure(folder: Path, runs: int) -> dict[str, dict[str, float]]:
    """Medians for both folders and both checks, in seconds."""
    home = folder / "home"
    loaders = {number: write(folder / str(number), number) for number in (FEW, MANY)}
    manifests = loaders[FEW].parent / "manifests"
    checks = {
        "check_one": ["-m", "dpone_provider.cli.main", "check", str(manifests / "load_0.dpone.yaml")],
        f"check_{FEW}": ["-m", "dpone_provider.cli.main", "check", str(manifests)],
    }
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(runs + 1):
        for number, loader in loaders.items():
            found.setdefault(f"parse_{number}", []).append(parsed(loader, number, home))
        for name, command in checks.items():
            found.setdefault(name, []).append({"wall": run(command, home)[0]})
    warm = {name: values[1:] for name, values in found.items()}  # the first one compiles bytecode and fills caches
    return {name: {key: median(one[key] for one in values) for key in values[0]} for name, values in warm.items()}


def targets(figures: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """What was promised, what was measured, and whether it is met."""
    few, many = figures[f"parse_{FEW}"]["cpu"] / FEW, figures[f"parse_{MANY}"]["cpu"] / MANY
    rows = (
        (f"{FEW} manifests to serialized DAGs, s", figures[f"parse_{FEW}"]["wall"], PARSE),
        (f"CPU of a manifest among {MANY} : among {FEW}", many / few, LINEAR),
        ("dpone check of one manifest, whole process, s", figures["check_one"]["wall"], CHECK),
    )
    return [
        {"target": words, "value": round(value, 4), "bound": f"<= {bound:g}", "met": value <= bound}
        for words, value, bound in rows
    ]


def main() -> None:
    """Run, print the table and the targets, and the figures as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parse", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of everything (default: 5)")
    runs = max(1, parser.parse_args().runs)
    folder = Path(tempfile.mkdtemp(prefix="dpone_bench_"))
    try:
        figures = measure(folder, runs)
    finally:
        shutil.rmtree(folder)
    checked = targets(figures)
    print(f"medians of {runs}, seconds")
    print(f"{'':<16}{'wall':>8}{'CPU':>8}{'serialize':>11}")
    for name, one in figures.items():
        print(f"{name:<16}" + f"{one['wall']:>8.3f}" + "".join(f"{one[key]:>{width}.3f}" for key, width in
              (("cpu", 8), ("serialize", 11)) if key in one))  # fmt: skip
    for one in checked:
        print(f"{'met' if one['met'] else 'NOT MET':<8}{one['target']}: {one['value']} (target {one['bound']})")
    rounded = {name: {key: round(value, 4) for key, value in one.items()} for name, one in figures.items()}
    print(json.dumps({"benchmark": "parse", "runs": runs, "figures": rounded, "targets": checked}))


if __name__ == "__main__":
    main()
