"""The study: which cases there are, how a run of them is carried out, where their results are kept."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpone_provider.sandbox.process import RunningSandbox
from tests.wire.faults import FAULTS, Fault
from tests.wire.readers import publications
from tests.wire.stage import Stage, run_case, stage_of
from tests.wire.statements import STATEMENTS, Statement

FILE = Path("test_artifacts/declarative-replay-quality/wire-faults.json")


def meets(fault: Fault, statement: Statement) -> bool:
    """Whether there is such a fault on the statement's plane."""
    return (fault.native if statement.plane == "native" else fault.http) is not None


def cases_of(fault: Fault, statements: Iterable[Statement] = STATEMENTS) -> tuple[Statement, ...]:
    return tuple(statement for statement in statements if meets(fault, statement))


CASES = sum(len(cases_of(fault)) for fault in FAULTS)


def study(
    sandbox: RunningSandbox, database: str, folder: Path, fault: Fault, statements: Iterable[Statement]
) -> list[dict[str, Any]]:
    """Every case of one fault: most on one table, loaded again and again; a first publication has one of its own."""
    measured = []
    with stage_of(sandbox, database, folder, "t") as loaded:
        loaded.bench.provision()
        loaded.begin()
        assert loaded.honest().result == "success"
        for number, statement in enumerate(statements):
            if not statement.first:
                measured.append(run_case(loaded, statement, fault))
                continue
            with stage_of(sandbox, database, folder, f"t{number}") as empty:
                measured.append(run_case(empty, statement, fault))
                _published_once_a_load(empty)
        _published_once_a_load(loaded)
    return measured


def _published_once_a_load(stage: Stage) -> None:
    assert publications(stage.bench) == stage.loads


def keep(name: str, measured: list[dict[str, Any]]) -> None:
    """Add results to the file; several processes may do so at once."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        known = json.loads(text) if text else {}
        known[name] = measured
        file.truncate(0)
        file.write(json.dumps(known, indent=1, sort_keys=True))
