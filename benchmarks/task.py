"""What one run of a contender is given, and how its cost is measured."""

from __future__ import annotations

import http.client
import json
import resource
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import attrs
import psutil

from dpone_provider.sandbox.folder import RunningSandbox

TABLE: Final = "flights"
QUIET_MERGES: Final = {"max_bytes_to_merge_at_max_space_in_pool": 1}
"""Table settings: no part of a load is merged in the background, where it would be counted for the next run."""


@attrs.frozen(kw_only=True)
class Task:
    """A server, a database of its own with an empty target table, and the file to load. ``rows``: how many it holds."""

    host: str
    native_port: int
    http_port: int
    user: str
    password: str = attrs.field(repr=False)
    server_pid: int
    database: str
    file: str
    rows: int

    def dump(self) -> str:
        """As one line for a child's stdin."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def parse(cls, text: str) -> Task:
        """What ``dump`` wrote."""
        return cls(**json.loads(text))


def ask(at: Task | RunningSandbox, statement: str | bytes, **settings: str) -> str:
    """One statement over plain HTTP; the answer's text without its last line end.

    Raises ``ValueError`` when the server refuses.
    """
    login = {"X-ClickHouse-User": at.user, "X-ClickHouse-Key": at.password}
    connection = http.client.HTTPConnection(at.host, at.http_port, timeout=120)
    try:
        connection.request("POST", "/?" + urlencode(settings), statement, login)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(text)
    return text.rstrip("\n")


def measured(task: Task, work: Callable[[], None]) -> dict[str, Any]:
    """Do the work and say what it cost: CPU and wall in seconds, memory in MiB.

    ``client_cpu`` and ``server_cpu`` are those of the work alone, the client's with children that it waited for;
    ``process_cpu`` is the client's from its start on, with the interpreter, every import and what was prepared.
    ``peak_rss`` is the highest of the client's whole life.
    """
    server = psutil.Process(task.server_pid)
    server_before, client_before, began = _cpu(server), _own_cpu(), time.perf_counter()
    work()
    wall, client, served = (
        time.perf_counter() - began,
        _own_cpu() - client_before,
        _cpu(server) - server_before,
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall": wall,
        "client_cpu": client,
        "server_cpu": served,
        "process_cpu": usage.ru_utime + usage.ru_stime,
        "peak_rss": usage.ru_maxrss / 1024,
    }


def _own_cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
