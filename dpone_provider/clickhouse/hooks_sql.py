"""The statements that an author has run before and after a load, each sent once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dpone_provider.clickhouse import pins
from dpone_provider.clickhouse.control import ControlClient
from dpone_provider.clickhouse.endpoint import PASSING_CODES, Endpoint
from dpone_provider.errors import DponeError
from dpone_provider.wire import Effect, StatementFailed, Wire


class ClickHouseHooks:
    """``load.ports.HookRunner`` on the target's server.

    Every list of statements has a connection of its own: what one sets is seen by those after it, and by nothing else
    of the load. Rows that a statement returns are not kept.
    """

    def __init__(self, endpoint: Endpoint, wire: Wire) -> None:
        self._endpoint = endpoint
        self._wire = wire

    def run(self, statements: Sequence[str], when: Literal["pre", "post"]) -> None:
        """Run them in order; the first failure ends it.

        Raises ``DponeError`` DPONE_HOOK_FAILED (context: ``hook``, its number from 1, and ``when``), or, before the
        first ``pre`` statement, DPONE_SERVER_UNREACHABLE or DPONE_SERVER_AUTHENTICATION.
        """
        client = ControlClient(self._endpoint, self._wire, met=when == "post")
        try:
            for number, statement in enumerate(statements, 1):
                effect = Effect(kind="hook", what=f"run statement {number} of {when}_sql")
                try:
                    client.command(effect, statement, settings=pins.HOOK)
                except StatementFailed as failed:
                    raise _failed(failed, number, when) from None
        finally:
            client.close()


def _failed(failed: StatementFailed, number: int, when: Literal["pre", "post"]) -> DponeError:
    if failed.code is None:
        problem = "got no answer: it may have been carried out or not"
        remedy = "Find out whether it was carried out before you retry: a retry runs it again."
    else:
        problem, remedy = f"was refused (server error {failed.code})", ""
    return DponeError(
        "DPONE_HOOK_FAILED",
        f"Statement {number} of sink.{when}_sql {problem}.",
        remedy=remedy,
        boundary="pre_commit" if when == "pre" else "post_commit",
        retryable=when == "pre" and failed.code in PASSING_CODES,
        context={"hook": number, "when": when},
    )
