"""The child's work: look at every replica, count on the first, look again (protocol 7; R7–R10, B4, B7).

One native connection for each replica. Its socket timeouts and the server's own limit are what is left of the budget;
the deadline itself is the parent's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any, Final

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.control import Answer, ControlClient
from dpone_provider.clickhouse.endpoint import AUTHENTICATION_CODES, Endpoint
from dpone_provider.reader import queries, result
from dpone_provider.reader.messages import (
    PROBE_UNSUPPORTED,
    SERVER_ERROR,
    ObservationError,
    ReaderRequest,
    ReplicaAddress,
)
from dpone_provider.wire import DirectWire, Effect, StatementFailed, Wire

_TIMEOUT = 159
_REASONS: Final[Mapping[int, str]] = {
    _TIMEOUT: "deadline",
    **dict.fromkeys(AUTHENTICATION_CODES, "authentication"),
    **dict.fromkeys((115, 164, 452, 472), "setting_refused"),
    **dict.fromkeys((160, 173, 201, 202, 203, 241, 439, 745), "server_overloaded"),
    **dict.fromkeys((195, 291, 497, 720), "server_denied"),
}
_NO_SUCH_METRIC = frozenset({43, 46, 48})


def observe(request: ReaderRequest, *, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """The result of the pipe's form. ``clock``: monotonic seconds; the budget counts from now on.

    Raises ``ObservationError`` with the reason why there is no observation.
    """
    return observe_through(request, DirectWire(), clock)


def observe_through(request: ReaderRequest, wire: Wire, clock: Callable[[], float]) -> dict[str, Any]:
    """``observe`` with the wire that statements pass."""
    deadline = clock() + request.budget_ms / 1000
    scan = queries.scan(
        database=request.database,
        table=request.table,
        row_count=request.row_count,
        null_columns=request.null_columns,
        distinct_columns=request.distinct_columns,
    )
    with ExitStack() as connections:
        replicas = [
            _Replica(
                connections.enter_context(closing(_connect(address, wire))), address.name, request, deadline, clock
            )
            for address in request.replicas
        ]
        for replica in replicas:
            replica.inspect()
        counted = replicas[0].count(scan) if scan is not None else Answer(rows=[], columns=())
        for replica in replicas:
            replica.inspect()
    return result.scan_result(counted, scan, replicas[0].name)


class _Replica:
    """One server, in one session."""

    def __init__(
        self,
        client: ControlClient,
        name: str,
        request: ReaderRequest,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self.name = name
        self._request = request
        self._deadline = deadline
        self._clock = clock

    def inspect(self) -> None:
        """Check the settings and the table. Raises ``ObservationError``."""
        settings = self._settings()
        query = queries.settings_query(settings)
        result.require_settings(self._ask("catalog_read", "settings", query, settings), settings)
        request = self._request
        places = {"database": request.database, "table": request.table}
        state = self._ask("catalog_read", "state of the target", queries.STATE, self._settings(), places)
        sight = result.table_sight(state)
        if sight is None:
            raise ObservationError("generation")
        drift = sight.drift(generation=request.generation, engine_full=request.engine_full, columns=request.columns)
        if drift is not None:
            raise ObservationError(drift)

    def count(self, scan: queries.Scan) -> Answer:
        """Count in the live table. Raises ``ObservationError``."""
        return self._ask("query", "count in the target", scan.sql, self._settings())

    def _settings(self) -> dict[str, int | float | str]:
        return queries.pinned(seconds=self._left(), max_memory_bytes=self._request.max_memory_bytes)

    def _left(self) -> float:
        left = self._deadline - self._clock()
        if left <= 0:
            raise ObservationError("deadline")
        return left

    def _ask(
        self, kind: Any, what: str, sql: str, settings: pins.Settings, places: Mapping[str, str] | None = None
    ) -> Answer:
        effect = Effect(kind=kind, what=what, replica=self.name)
        try:
            answer = self._client.read(effect, sql, places, settings=settings, within=self._left())
        except StatementFailed as failed:
            raise self._failed(failed, scanning=kind == "query") from None
        self._left()
        return answer

    def _failed(self, failed: StatementFailed, *, scanning: bool) -> ObservationError:
        if self._clock() >= self._deadline:
            return ObservationError("deadline")
        if failed.code is None:
            return ObservationError("network")
        if scanning and failed.code in _NO_SUCH_METRIC:
            return ObservationError(PROBE_UNSUPPORTED)
        return ObservationError(_REASONS.get(failed.code, f"{SERVER_ERROR}{failed.code}"))


def _connect(address: ReplicaAddress, wire: Wire) -> ControlClient:
    endpoint = Endpoint(
        host=address.host,
        native_port=address.port,
        user=address.user,
        password=address.password,
        secure=address.secure,
        verify=address.verify,
        ca=address.ca,
        connect_timeout=address.connect_timeout_ms / 1000,
    )
    return ControlClient(endpoint, wire, met=True)
