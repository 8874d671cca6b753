"""A TCP proxy with programmable faults: what the wire really carried, and what happens when it tears.

with TcpProxy(port) as proxy:
    rule = proxy.rule("lose_reply", match=b"EXCHANGE TABLES")
    ...                                  # talk to proxy.port
    assert proxy.seen(b"EXCHANGE TABLES") == 1

``rules`` says what can be done with a client's bytes, ``replies`` what with the server's answer; ``native`` and
``http`` make packets up; ``keeper`` stands between a ClickHouse server and its ZooKeeper.
"""

from tests.wirelab.proxy import TcpProxy
from tests.wirelab.rules import Link, Reply, Rule

__all__ = ["Link", "Reply", "Rule", "TcpProxy"]
