"""The three proxies of one attempt, and what went over them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import attrs

from dpone_provider.clickhouse.endpoint import Endpoint
from tests.wire.statements import CREATE_SLOT, FACTS, SLOT_READ, TABLE_STATE, Statement
from tests.wirelab import TcpProxy

_NAME = rb"`[^\0]+?`\.`[^\0]+?`"
_ONCE = (
    *(rb"EXCHANGE TABLES " + _NAME + rb" AND " + _NAME, rb"RENAME TABLE " + _NAME + rb" TO " + _NAME),
    *(rb"CREATE TABLE " + _NAME, rb"DROP TABLE " + _NAME, rb"INSERT\+INTO\S+"),
    rb'"write_id":"[0-9a-f]{32}"\}[^,\]]',  # a record's own id, which stands last in it; history entries go on
)
_BY_KIND = {
    "authority_read": (SLOT_READ,),
    "authority_create": (CREATE_SLOT,),
    "authority_cas": (b"ALTER TABLE",),
    "catalog_read": (TABLE_STATE, FACTS),
    "query": (b"AS dpone_m0",),
}


@attrs.frozen(kw_only=True)
class Wires:
    """One proxy for the native port, one for the insert, one for the source."""

    native: TcpProxy
    sink_http: TcpProxy
    source_http: TcpProxy
    base: Endpoint

    def of(self, statement: Statement) -> TcpProxy:
        proxy: TcpProxy = getattr(self, statement.plane)
        return proxy

    def endpoint(self, ref: str) -> Endpoint:
        """A connection whose ports lead here (``runtime.connections.Connections``)."""
        http = self.source_http if ref == "source" else self.sink_http
        return attrs.evolve(self.base, native_port=self.native.port, http_port=http.port)

    def twice(self) -> list[bytes]:
        """Statements that change something and left the client more than once."""
        carried = [*self.native.carried, *self.sink_http.carried, *self.source_http.carried]
        sent = Counter(found for text in carried for pattern in _ONCE for found in re.findall(pattern, text))
        return [text for text, number in sent.items() if number > 1]

    def unasked(self, effects: Counter[str]) -> list[str]:
        """Kinds of statements of which more left the client than effects were asked for."""
        return [kind for kind, texts in _BY_KIND.items() if sum(map(self.native.seen, texts)) > effects[kind]]


@contextmanager
def wires_to(base: Endpoint) -> Iterator[Wires]:
    """Proxies in front of a server, for the length of the block."""
    with ExitStack() as stack:
        native = stack.enter_context(TcpProxy(base.native_port))
        sink = stack.enter_context(TcpProxy(base.http_port))
        source = stack.enter_context(TcpProxy(base.http_port))
        yield Wires(native=native, sink_http=sink, source_http=source, base=base)
