"""The faults of the laboratory: what each does to a statement, on the native wire and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tests.wirelab import Reply, Rule, TcpProxy, http, native, replies
from tests.wirelab.rules import Action

DRIP = 0.05
"""Seconds between two bytes or packets: a tenth of what a slow server does, as all times here are scaled down."""
OVERLOADED, LOST_KEEPER = 202, 999


@attrs.frozen
class Doing:
    """How a fault is brought about: an action of the proxy, and what it needs."""

    action: Action
    options: Mapping[str, Any] = attrs.field(factory=dict)


def reply(how: Reply) -> Doing:
    return Doing("reply", {"reply": how})


def told(payload: bytes, *, deaf: bool = False) -> Doing:
    """``deaf``: what is left of the request is swallowed too, as HTTP needs it."""
    return Doing("respond", {"payload": payload, "deaf": deaf})


@attrs.frozen(kw_only=True)
class Fault:
    """One fault. ``native`` or ``http`` is None where there is no such thing.

    ``harmless``: a load must succeed in spite of it. ``lie``: the server says done and has done nothing; an answer that
    a catalog gives in this way may end an attempt for good, and what was not dropped goes with the next replay.
    ``late``: the statement is held back, and arrives between the attempt and its retry.
    """

    name: str
    native: Doing | None
    http: Doing | None
    harmless: bool = False
    lie: bool = False
    late: bool = False

    def on(self, proxy: TcpProxy, **where: Any) -> Rule:
        """Set the fault on a proxy; ``where`` is as for ``TcpProxy.rule``."""
        doing = self.http if where.pop("over_http", False) else self.native
        if doing is None:
            raise LookupError(f"{self.name} does not exist on this plane")
        return proxy.rule(doing.action, **where, **doing.options)


def both(name: str, doing: Doing, **facts: bool) -> Fault:
    return Fault(name=name, native=doing, http=doing, **facts)


FAULTS = (
    # -- the statement never arrives --------------------------------------------------------------------------------
    both("closed before", Doing("refuse")),
    both("reset before", Doing("reset")),
    both("server gone before", Doing("vanish")),
    both("silence before", Doing("deaf")),
    Fault(name="error before", native=told(native.exception(OVERLOADED)),
          http=told(http.failure(OVERLOADED), deaf=True)),
    Fault(name="false acknowledgement", native=told(native.END_OF_STREAM), http=told(http.acknowledgement(), deaf=True),
          lie=True),
    # -- it arrives, its reply does not -----------------------------------------------------------------------------
    both("arrives when its sender is gone", Doing("hold"), late=True),
    both("closed at once", Doing("close")),
    both("closed after", Doing("lose_reply", {"seconds": 0.1})),
    both("reset after", reply(replies.reset)),
    both("half-closed", reply(replies.half_closed)),
    both("silence after", reply(replies.silent)),
    Fault(name="error after", native=reply(replies.replaced(native.exception(LOST_KEEPER))),
          http=reply(replies.replaced(http.failure(LOST_KEEPER)))),
    # -- the reply is slow ------------------------------------------------------------------------------------------
    both("latency", Doing("delay", {"seconds": 0.3}), harmless=True),
    both("drip", reply(replies.dripped(DRIP))),
    Fault(name="endless progress", native=reply(replies.progressing(DRIP)), http=reply(replies.continuing(DRIP))),
    # -- the reply is broken ----------------------------------------------------------------------------------------
    both("truncated", reply(replies.truncated)),
    Fault(name="end missing, closed", native=reply(replies.endless(1, closed=True)),
          http=reply(replies.endless(len(http.LAST_CHUNK), closed=True))),
    Fault(name="end missing, silence", native=reply(replies.endless(1, closed=False)),
          http=reply(replies.endless(len(http.LAST_CHUNK), closed=False))),
    both("first byte corrupted", reply(replies.headless)),
    both("garbage", reply(replies.garbage(b""))),
    Fault(name="garbage in a block", native=reply(replies.garbage(native.DATA)),
          http=reply(replies.garbage(b"HTTP/1.1 200 OK\r\n\r\n"))),
    Fault(name="wrong packet", native=reply(replies.replaced(native.PONG)),
          http=reply(replies.replaced(http.redirect(9)))),
    # -- what only HTTP can do --------------------------------------------------------------------------------------
    Fault(name="200 and an exception", native=None, http=reply(replies.trailed(241))),
    Fault(name="200 and nothing", native=None, http=told(http.bare(), deaf=True), lie=True),
    Fault(name="200, its body empty", native=None, http=reply(replies.emptied)),
    Fault(name="cut inside a chunk", native=None, http=reply(replies.cut_in_a_chunk)),
)  # fmt: skip
