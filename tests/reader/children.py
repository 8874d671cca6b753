"""Children that misbehave: small scripts, real processes; and the real child with another observation inside.

They stand in for the child, never for a server.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.reader.target_reader import SupervisedTargetReader
from dpone_provider.replay.target_reader import TargetRequest
from dpone_provider.wire import DirectWire, Wire

_SCRIPT = """
import json, os, signal, sys, time

def request():
    line = b""
    while not line.endswith(b"\\n"):
        line += os.read(0, 65536)
    return json.loads(line)

def line(nonce, **changes):
    result = {"replica": "r1", "row_count": 3, "null_counts": {"a": 1}, "distinct_counts": {"b": 2}, **changes}
    value = {"nonce": nonce, "result": result, "error": None}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\\n"

def error(nonce, reason, unavailable):
    value = {"nonce": nonce, "result": None, "error": {"reason": reason, "unavailable": unavailable}}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\\n"

def say(data):
    while data:
        data = data[os.write(1, data):]

def hang():
    while True:
        time.sleep(60)

"""
_OBSERVATION = """
import sys, types

def observe(request):
{body}

module = types.ModuleType("dpone_provider.reader.observe")
module.observe = observe
sys.modules[module.__name__] = module

from dpone_provider.reader import child
child.main(sys.argv[1], int(sys.argv[2]))
"""

REQUEST = TargetRequest(
    database="db",
    table="t",
    generation="00000000-0000-4000-8000-000000000001",
    engine_full="MergeTree ORDER BY a",
    columns=(("a", "Nullable(Int32)"), ("b", "String")),
    row_count=True,
    null_columns=("a",),
    distinct_columns=("b",),
    replicas=("r1", "r2"),
    attempt_id="a" * 32,
)
NONCE = "b" * 32


def fake(folder: Path, body: str) -> tuple[str, ...]:
    """The command of a child that does ``body``; ``request``, ``line``, ``error``, ``say``, ``hang`` are there."""
    path = folder / "fake_child.py"
    path.write_text(_SCRIPT + textwrap.dedent(body), encoding="utf-8")
    return (sys.executable, "-I", "-S", str(path))


def real(folder: Path, body: str) -> tuple[str, ...]:
    """The command of the real child whose ``observe(request)`` is ``body``."""
    path = folder / "real_child.py"
    path.write_text(_OBSERVATION.format(body=textwrap.indent(textwrap.dedent(body), "    ")), encoding="utf-8")
    return (sys.executable, "-I", str(path))


def reader(
    command: tuple[str, ...],
    *,
    password: str = "",
    wire: Wire | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    shutdown_budget: float = 5.0,
    probe_budget: float = 10.0,
) -> SupervisedTargetReader:
    """A reader of two replicas over such a child."""
    return SupervisedTargetReader(
        {name: Endpoint(host="127.0.0.1", native_port=9, password=password) for name in ("r1", "r2")},
        wire=wire or DirectWire(),
        new_id=lambda: NONCE,
        check_cancelled=check_cancelled,
        command=command,
        shutdown_budget=shutdown_budget,
        probe_budget=probe_budget,
    )


def alive(folder: Path, *, parent: int | None = None) -> list[int]:
    """The living processes of scripts in ``folder``, grandchildren among them; ``parent``: only those started by it."""
    found = []
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
            if any(item.startswith(f"{folder}/") and item.endswith("_child.py") for item in arguments) and (
                parent is None or arguments[-1] == str(parent)
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_for(found: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until ``found`` gives something true."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.002)
