"""One statement against a sandbox, printed: ``dpone sandbox sql``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dpone_provider.clickhouse.driver import Client, errors
from dpone_provider.errors import DponeError
from dpone_provider.sandbox.process import SandboxServer


def print_result(folder: Path, statement: str, *, database: str, form: str) -> int:
    """Run ``statement`` and print rows as a table (``form`` "text") or as one JSON document ("json").

    JSON: ``{"columns": [{"name", "type"}], "rows": [[...]]}``; what JSON cannot hold stands as text. The server's
    refusal goes to stderr in its own words: the statement is the user's own. Returns 0, or 1 when refused.
    Raises: DponeError DPONE_SANDBOX_NOT_RUNNING, DPONE_SERVER_UNREACHABLE.
    """
    running = SandboxServer().load(folder)
    client = Client(
        running.host, port=running.tcp_port, user=running.user, password=running.password, database=database
    )
    try:
        result = client.execute(statement, with_column_types=True)
    except errors.ServerException as error:
        text = error.message.partition("Stack trace:")[0].removeprefix("DB::Exception: ").strip()
        print(f"ClickHouse error {error.code}: {text}", file=sys.stderr)
        return 1
    except (errors.Error, OSError) as error:
        raise DponeError("DPONE_SERVER_UNREACHABLE") from error
    finally:
        client.disconnect()
    # a statement without a result gives a list or a number of rows
    rows, columns = result if isinstance(result, tuple) else ([], [])
    if form == "json":
        names = [{"name": name, "type": kind} for name, kind in columns]
        print(json.dumps({"columns": names, "rows": rows}, default=str, ensure_ascii=False))
    elif columns:
        _print_table(rows, [name for name, _ in columns])
    else:
        print("done")
    return 0


def _print_table(rows: list[tuple[Any, ...]], names: list[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(names):
        numbers = bool(rows) and all(isinstance(row[position], (int, float)) for row in rows)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        # Text, not str: rich would read square brackets in the data as markup
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(str(value)) for value in row))
    console = Console()
    console.print(table)
    console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim")
