"""``SupervisedTargetReader``: the port of the target observation over a supervised child (protocol 7; R1–R6, R10, F5).

What the child says is a claim: it counts as an observation only when it is exactly what was asked, and everything but
the counts is taken from the request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from dpone_provider.canonical import MAX_INTEGER
from dpone_provider.clickhouse.endpoint import Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.reader import messages
from dpone_provider.reader.exchange import NoAnswer
from dpone_provider.reader.queries import MAX_MEMORY_BYTES
from dpone_provider.reader.supervisor import CHILD_COMMAND, Child
from dpone_provider.replay.target_reader import TargetCounts, TargetRequest, Unobserved, Why
from dpone_provider.wire import Effect, StatementFailed, Wire

SHUTDOWN_SECONDS = 5.0
"""What killing and reaping may take once a child is not wanted any more (R3)."""
_PROBE_SECONDS = 10.0
_UNSUPPORTED = {
    "platform": "The live table can be observed only where POSIX processes are.",
    "spawn": "The system does not let this process start a child.",
    "start": "A child of this process did not come up.",
    "deadline": "A child of this process did not come up in time.",
    "kill": "A child of this process could not be killed and reaped.",
}
_REMEDY = (
    "Let workers start, signal and reap Python processes (process limits, seccomp, SIGCHLD not ignored), with this "
    "provider installed in their interpreter, or set capture.target to false."
)


class SupervisedTargetReader:
    """Observes with a fresh child each time.

    ``endpoints``: where each replica of the inventory is; ``new_id``: 32 hex of fresh randomness; ``clock``: monotonic
    seconds; ``check_cancelled`` raises what shall pass through; ``command``: the child; ``shutdown_budget``,
    ``probe_budget``: seconds; ``max_memory_bytes``: per query of the child.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        *,
        wire: Wire,
        new_id: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        check_cancelled: Callable[[], None] = lambda: None,
        command: Sequence[str] = CHILD_COMMAND,
        shutdown_budget: float = SHUTDOWN_SECONDS,
        probe_budget: float = _PROBE_SECONDS,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
    ) -> None:
        self._endpoints = endpoints
        self._wire = wire
        self._new_id = new_id
        self._clock = clock
        self._check_cancelled = check_cancelled
        self._command = command
        self._shutdown_budget = shutdown_budget
        self._probe_budget = probe_budget
        self._max_memory_bytes = max_memory_bytes

    def ready(self) -> None:
        """Start, kill and reap a child that hangs. Raises DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED (R2, F5)."""
        if os.name != "posix":
            _unsupported(_UNSUPPORTED["platform"])
        effect = Effect(kind="reader_probe", what="start and kill a child of the target reader")
        child = self._child()
        try:
            self._wire.send(effect, lambda: child.prove_mortal(self._clock() + self._probe_budget))
        except NoAnswer as missed:
            _unsupported(_UNSUPPORTED.get(missed.reason, _UNSUPPORTED["start"]), passing=missed.reason == "deadline")
        except StatementFailed:
            _unsupported(_UNSUPPORTED["deadline"], passing=True)

    def reserve(self, request: TargetRequest) -> None:
        """Check that the request and the largest answer fit their pipe (C4).

        Raises DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED.
        """
        nonce, most = "f" * 32, MAX_INTEGER
        largest = {
            "replica": request.replicas[0],
            "row_count": most,
            "null_counts": dict.fromkeys(request.null_columns, most),
            "distinct_counts": dict.fromkeys(request.distinct_columns, most),
        }
        try:
            self._line(request, nonce, budget_ms=MAX_INTEGER)
            messages.encode_result(nonce, largest)
        except KeyError:
            _unsupported("The connection does not say where every replica is.")
        except messages.MessageRefused:
            _unsupported("The table or what is asked of it is too large for the target reader.")

    def collect(self, request: TargetRequest, *, deadline: float) -> TargetCounts:
        """One observation before ``deadline``, monotonic seconds. Raises ``Unobserved``, never returns in part.

        An exception from outside passes through once the child is killed and reaped.
        """
        replica = request.replicas[0]
        effect = Effect(kind="observe", what="the live generation", replica=replica)
        child = self._child()
        try:
            return self._wire.send(effect, lambda: self._observe(child, request, deadline))
        except NoAnswer as missed:
            raise Unobserved(missed.why, missed.reason, quiescent=child.quiescent) from None
        except StatementFailed:
            raise Unobserved("unavailable", "network", quiescent=child.quiescent) from None

    def _child(self) -> Child:
        return Child(
            self._command,
            clock=self._clock,
            check_cancelled=self._check_cancelled,
            shutdown_budget=self._shutdown_budget,
        )

    def _observe(self, child: Child, request: TargetRequest, deadline: float) -> TargetCounts:
        nonce = self._new_id()
        budget_ms = int((deadline - self._clock()) * 1000)
        if budget_ms < 1:
            raise NoAnswer("unavailable", "deadline")
        try:
            line = self._line(request, nonce, budget_ms)
        except (KeyError, messages.MessageRefused):
            raise NoAnswer("unavailable", "request") from None
        answer = child.ask(line, deadline)
        try:
            response = messages.decode_response(answer)
        except messages.MessageRefused:
            raise NoAnswer("invalid", "frame") from None
        if response.nonce != nonce:
            raise NoAnswer("invalid", "nonce")
        if response.result is None:
            reason = response.reason or ""
            raise NoAnswer(_why(reason), reason)
        return _counts(request, response.result)

    def _line(self, request: TargetRequest, nonce: str, budget_ms: int) -> bytes:
        """The request's line, the only place that holds a credential (R6). Raises ``KeyError``, ``MessageRefused``."""
        return messages.encode_request(
            messages.ReaderRequest(
                nonce=nonce,
                budget_ms=budget_ms,
                max_memory_bytes=self._max_memory_bytes,
                database=request.database,
                table=request.table,
                generation=request.generation,
                engine_full=request.engine_full,
                columns=request.columns,
                row_count=request.row_count,
                null_columns=request.null_columns,
                distinct_columns=request.distinct_columns,
                replicas=tuple(_address(name, self._endpoints[name]) for name in request.replicas),
            )
        )


def _address(name: str, endpoint: Endpoint) -> messages.ReplicaAddress:
    return messages.ReplicaAddress(
        name=name,
        host=endpoint.host,
        port=endpoint.native_port,
        user=endpoint.user,
        password=endpoint.password,
        secure=endpoint.secure,
        verify=endpoint.verify,
        ca=endpoint.ca,
        connect_timeout_ms=max(1, int(endpoint.connect_timeout * 1000)),
    )


def _why(reason: str) -> Why:
    if reason == messages.PROBE_UNSUPPORTED:
        return "probe_unavailable"
    if messages.is_unavailable(reason):
        return "unavailable"
    return "drift" if reason in messages.DRIFT_REASONS else "invalid"


def _counts(request: TargetRequest, result: Mapping[str, Any]) -> TargetCounts:
    """Exactly the requested counts, each possible; who and what was observed is the request's (R9, R10)."""
    rows, nulls, distincts = result["row_count"], result["null_counts"], result["distinct_counts"]
    counts = [*nulls.values(), *distincts.values(), *([rows] if request.row_count else [])]
    possible = (
        result["replica"] == request.replicas[0]
        and nulls.keys() == set(request.null_columns)
        and distincts.keys() == set(request.distinct_columns)
        and (request.row_count or rows is None)
        and all(type(count) is int and 0 <= count <= MAX_INTEGER for count in counts)
        and (not request.row_count or all(count <= rows for count in counts))
    )
    if not possible:
        raise NoAnswer("invalid", "counts")
    return TargetCounts(
        replica=request.replicas[0],
        attempt_id=request.attempt_id,
        row_count=rows,
        null_counts={name: nulls[name] for name in request.null_columns},
        distinct_counts={name: distincts[name] for name in request.distinct_columns},
    )


def _unsupported(message: str, *, passing: bool = False) -> NoReturn:
    """``passing``: a busy machine may be the cause, so a retry can help."""
    raise DponeError(
        "DPONE_REPLAY_QUALITY_EVIDENCE_UNSUPPORTED",
        message,
        remedy=_REMEDY,
        boundary="admission",
        retryable=passing,
        target_commit="not_started",
    )
