"""One load in a process of its own, for killing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dpone_provider.load.staging  # noqa: F401 - loaded before the fork, so that kills meet the load itself
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench


def load(sandbox: RunningSandbox, database: str, table: str, folder: str, run_id: str) -> dict[str, Any]:
    """Run the load; what became of it, as small JSON."""
    bench = Bench(sandbox=sandbox, database=database, table=table, folder=Path(folder))
    try:
        outcome = bench.run(run_id)
    except DponeError as error:
        return {"result": error.code, "retryable": error.retryable, "target_commit": error.target_commit}
    return {"result": "success", "read": outcome.extracted_rows, "leftovers": list(outcome.leftovers)}


def work(pipe: Any, *order: Any) -> None:
    """The child's main: says that it begins, then what became of its load."""
    pipe.send("begins")
    pipe.send(load(*order))
