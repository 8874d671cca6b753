"""What others see of the live table: one who reads it all the time, and the server's own log of its switches."""

from __future__ import annotations

import threading
import time
from typing import Any

from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from dpone_provider.sandbox.process import RunningSandbox
from tests.loads import Bench
from tests.sandbox_fixture import ask

PAUSE = 0.02
_NO_TABLE = 60


def publications(bench: Bench) -> int:
    """Switches of the live name that the server carried out."""
    ask(bench.sandbox, "SYSTEM FLUSH LOGS query_log")
    live = f"`{bench.database}`.`{bench.table}`"
    found = ask(
        bench.sandbox,
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND is_initial_query "
        f"AND (startsWith(query, 'EXCHANGE TABLES {live} AND ') OR endsWith(query, ' TO {live}'))",
    )
    return int(found[0][0])


class Reader:
    """Reads ids every ``PAUSE`` seconds; what it saw must be the old rows and then the new ones, nothing else."""

    def __init__(self, sandbox: RunningSandbox, database: str, table: str) -> None:
        self._client = Client(
            sandbox.host, port=sandbox.tcp_port, user=sandbox.user, password=sandbox.password, database=database
        )
        self._select = f"SELECT groupArray(id) FROM (SELECT id FROM {database}.{table} ORDER BY id)"
        self._lock = threading.Lock()
        self._seen: list[list[int]] = []
        self._allowed: list[list[int]] = [[]]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.disconnect()

    def expect(self, old: list[int], new: list[int]) -> None:
        """From now on the rows may change once, from old to new."""
        with self._lock:
            self._allowed, self._seen = [old, new], []

    def settled(self) -> None:
        """Everything that was read since ``expect`` is old rows, then new ones: one switch, and none back."""
        with self._lock:
            changes = [ids for at, ids in enumerate(self._seen) if at == 0 or ids != self._seen[at - 1]]
            assert changes in ([], *([ids] for ids in self._allowed), self._allowed), changes

    def wait_for(self, ids: list[int]) -> None:
        """Return once they are what was read last."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with self._lock:
                if self._seen[-1:] == [ids]:
                    return
            time.sleep(PAUSE)
        raise TimeoutError

    def _read_on(self) -> None:
        while not self._over.wait(PAUSE):
            with self._lock:
                self._seen.append(self._read())

    def _read(self) -> list[int]:
        try:
            found: Any = self._client.execute(self._select)
        except ServerException as error:
            if error.code != _NO_TABLE:
                raise
            return []
        ids: list[int] = found[0][0]
        return ids
