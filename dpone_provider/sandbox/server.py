"""The child process: ClickHouse inside a Python interpreter. Run by path, never imported: ``server.py FOLDER ...``.

Usage: ``python -I server.py FOLDER CHDB_PACKAGE LOCK_FD STARTER_PID``. ``LOCK_FD`` is the folder's lock, already held
through this descriptor, so it is free exactly when this process is gone. ``STARTER_PID`` 0: outlive the starter.

Why not ``import chdb``: its ``__init__`` opens another engine in this process, and the second one then fails
(code 49). This loads the extension alone. That is a private interface of chdb-core: the version is pinned.
Standard library only, so that the server needs nothing of the package that started it.
"""

import contextlib
import ctypes
import http.client
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import stat
import sys
import threading
import types
from pathlib import Path
from typing import Any

KEEPALIVE = "dpone sandbox keepalive"
RTLD_DEEPBIND = 0x8

# SYSTEM START LISTEN lasts as long as the session that said it: the last SELECT keeps that session for ever.
STATEMENTS = f"""
SYSTEM START LISTEN TCP;
SYSTEM START LISTEN HTTP;
SELECT getServerPort('tcp_port'), getServerPort('http_port') INTO OUTFILE 'ports.tsv' TRUNCATE FORMAT TabSeparated;
SELECT sleep(0.5) FROM system.numbers FORMAT Null
SETTINGS max_block_size=1, function_sleep_max_microseconds_per_block=0, max_threads=1, max_execution_time=0,
log_queries=0, log_comment='{KEEPALIVE}'
"""


def load_engine(package: Path) -> Any:
    """Load the extension ``chdb._chdb`` without running ``chdb/__init__.py``."""
    library = package / "_chdb.abi3.so"
    os.chdir(package)  # the extension looks for its companions here
    ctypes.CDLL(str(library), mode=sys.getdlopenflags() | (RTLD_DEEPBIND if sys.platform == "linux" else 0))
    parent = types.ModuleType("chdb")
    parent.__path__ = [str(package)]
    sys.modules["chdb"] = parent
    loader = importlib.machinery.ExtensionFileLoader("chdb._chdb", str(library))
    spec = importlib.util.spec_from_file_location("chdb._chdb", library, loader=loader)
    if spec is None:
        raise ImportError("chdb._chdb has no loader")
    module = importlib.util.module_from_spec(spec)
    sys.modules["chdb._chdb"] = module
    loader.exec_module(module)
    return module


def end_keepalive(state: dict[str, Any]) -> bool:
    """Ask the server to end its own session, so that it closes its tables and logs; False when it cannot be asked."""
    connection = http.client.HTTPConnection(state["host"], state["http_port"], timeout=3)
    login = {"X-ClickHouse-User": state["user"], "X-ClickHouse-Key": state["password"]}
    try:
        connection.request("POST", "/", f"KILL QUERY WHERE Settings['log_comment'] = '{KEEPALIVE}' ASYNC", login)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def hang_up(ports: tuple[int, int]) -> None:
    """Shut every accepted connection of the listeners: the engine waits for its clients without an end."""
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if not stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as client:
                listening = client.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if not listening and client.family == socket.AF_INET and client.getsockname()[1] in ports:
                    client.shutdown(socket.SHUT_RDWR)


def close(folder: Path, serving: threading.Thread) -> None:
    """End the engine in good order, within about five seconds; whoever cannot is ended by the exit."""
    try:
        state = json.loads((folder / "state.json").read_text("utf-8"))
        ended = end_keepalive(state)
    except (OSError, ValueError, KeyError):
        return  # never became ready: there is nothing to close
    for _ in range(50 if ended else 0):
        serving.join(0.1)
        if not serving.is_alive():
            return
        hang_up((state["tcp_port"], state["http_port"]))


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM (or, when bound, until the starter is gone). Exit code 0 after a stop, 1 otherwise."""
    folder, package = Path(arguments[0]), Path(arguments[1])
    lock, starter = int(arguments[2]), int(arguments[3])
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    stopping = threading.Event()
    # The handler comes before the engine: a stop during the load must not be lost.
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = load_engine(package)
    os.chdir(folder)  # config.xml is read from the working directory

    def serve() -> None:
        try:
            engine.query(STATEMENTS, "TabSeparated", path=str(folder / "data"))
        except RuntimeError as error:
            if not stopping.is_set():
                print(error, file=sys.stderr, flush=True)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    while thread.is_alive() and not stopping.is_set():
        thread.join(0.1)
        if starter and os.getppid() != starter:
            stopping.set()
    if not stopping.is_set():
        return 1
    close(folder, thread)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # the engine's threads may still run; an ordinary exit would unload the library under them
