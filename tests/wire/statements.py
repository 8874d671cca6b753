"""The statements that a load puts on its wires, and how each is told from the others there."""

from __future__ import annotations

from typing import Literal

import attrs

Plane = Literal["native", "sink_http", "source_http"]
SLOT_READ = b"SELECT toUnixTimestamp64Milli(now64(3)), groupArray(2)"
FACTS = b"SELECT groupArray((name, toString(uuid), comment))"
TABLE_STATE = b"SELECT engine, engine_full, toString(uuid)"
CREATE_SLOT = b"INSERT INTO "
HELLO, HTTP_HELLO = b"ClickHouse dpone\x14", b"SELECT version()"


@attrs.frozen
class Statement:
    """One statement of a load: the ``nth`` (from 0) on its plane whose bytes hold ``match``.

    ``after``: what its connection must have carried before. ``first``: only a load into an empty target sends it.
    ``fence``: the exchange before it must get lost. ``observed``: the load's live generation is observed; ``child``:
    it is the child that sends this statement.
    """

    name: str
    plane: Plane
    match: bytes
    nth: int = 0
    after: bytes = b""
    first: bool = False
    fence: bool = False
    observed: bool = False
    child: bool = False


NATIVE = (
    Statement("connect", "native", HELLO),
    Statement("authority_read before the claim", "native", SLOT_READ),
    Statement("authority_read of the claim", "native", SLOT_READ, nth=2),
    Statement("authority_read of the permit", "native", SLOT_READ, nth=4),
    Statement("authority_read of the commit", "native", SLOT_READ, nth=5),
    Statement("authority_read of the release", "native", SLOT_READ, nth=7),
    Statement("authority_create", "native", CREATE_SLOT, first=True),
    Statement("authority_create, its row", "native", b'"write_id"', after=CREATE_SLOT, first=True),
    Statement("authority_cas CLAIMED", "native", b"ALTER TABLE"),
    Statement("authority_cas PREPARED", "native", b"ALTER TABLE", nth=1),
    Statement("authority_cas DISPATCHING", "native", b"ALTER TABLE", nth=2),
    Statement("authority_cas COMMITTED", "native", b"ALTER TABLE", nth=3),
    Statement("authority_cas COMPLETE", "native", b"ALTER TABLE", nth=4),
    Statement("authority_cas release", "native", b"ALTER TABLE", nth=5),
    Statement("catalog_read of the authority", "native", TABLE_STATE),
    Statement("catalog_read of the live table", "native", TABLE_STATE, nth=1),
    Statement("catalog_read of leftovers", "native", FACTS),
    Statement("catalog_read of the predecessor", "native", FACTS, nth=1),
    Statement("catalog_read of the publication", "native", FACTS, nth=2),
    Statement("catalog_read of the commit", "native", FACTS, nth=3),
    Statement("query", "native", b"AS dpone_m0"),
    Statement("create_table", "native", b"CREATE TABLE"),
    Statement("exchange", "native", b"EXCHANGE TABLES"),
    Statement("publish_first", "native", b"RENAME TABLE", first=True),
    Statement("rename as a fence", "native", b"RENAME TABLE", fence=True),
    Statement("rename", "native", b"RENAME TABLE"),
    Statement("drop", "native", b"DROP TABLE"),
)
HTTP = (
    Statement("connect of the insert", "sink_http", HTTP_HELLO),
    Statement("insert", "sink_http", b"INSERT+INTO"),
    Statement("connect of the source", "source_http", HTTP_HELLO),
    Statement("source_open", "source_http", b"DESCRIBE TABLE"),
    Statement("source_read", "source_http", b"FORMAT ArrowStream"),
)
SETTINGS = b"SELECT groupArray([name, value]) FROM system.settings"
LOOK = b"SELECT toString(uuid), engine, engine_full, create_table_query"
CHILD = (
    Statement("observe, its connect", "native", HELLO),
    Statement("observe, its settings before", "native", SETTINGS),
    Statement("observe, its look before", "native", LOOK),
    Statement("observe, its scan", "native", b" AS m0"),
    Statement("observe, its settings after", "native", SETTINGS, nth=1),
    Statement("observe, its look after", "native", LOOK, nth=1),
)
"""What the supervised child sends on the connection of its own."""
OBSERVED = (
    Statement("catalog_read of the reader's settings", "native", SETTINGS, observed=True),
    Statement("catalog_read of the reader's catalog", "native", LOOK, observed=True),
    Statement("observe, look before", "native", LOOK, nth=1, observed=True, child=True),
    Statement("observe, scan", "native", b" AS m0", observed=True, child=True),
    Statement("observe, look after", "native", LOOK, nth=2, observed=True, child=True),
)
"""Of a load whose live generation is observed: what admits that, and what the child sends then."""
STATEMENTS = (*NATIVE, *OBSERVED, *HTTP)
